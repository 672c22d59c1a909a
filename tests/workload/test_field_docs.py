"""The reference of all fields is complete, current, and its examples are read."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headway.workload.field_docs import FIELD_DOCS, TITLES
from headway.workload.json_schema import job_fields, schemas
from headway.workload.yaml_values import values

DOCS = Path(__file__).parents[2] / "docs"
REQUIRED = {
    "OutageFields": {"node": "n", "at": 0, "seconds": 1}, "ExitFields": {"job": "a", "after": 1, "code": 1},
    "RetryFields": {"times": 1},
}  # fmt: skip


def test_the_page_is_that_of_the_code():
    assert (DOCS / "job-fields.md").read_text() == job_fields(), "run python -m headway.workload.json_schema docs"


@pytest.mark.parametrize("struct", FIELD_DOCS, ids=lambda struct: struct.__name__)
def test_every_field_has_a_meaning_and_an_example_that_is_read(struct):
    assert set(FIELD_DOCS[struct]) == set(struct.__struct_encode_fields__)
    assert struct in TITLES
    for field, (about, example) in FIELD_DOCS[struct].items():
        assert about.endswith(".")
        assert "|" not in about + example
        written = values(example.encode())
        assert list(written) == [field]
        read = msgspec.convert({**REQUIRED.get(struct.__name__, {}), **written}, struct)
        name = struct.__struct_fields__[struct.__struct_encode_fields__.index(field)]
        assert getattr(read, name) not in (None, "", [], {})


@pytest.mark.parametrize("name", ["jobs-file.schema.json", "workload-line.schema.json", "cluster-file.schema.json"])
def test_every_field_of_the_schema_has_a_description(name):
    for struct, fields in msgspec.json.decode(schemas()[name])["$defs"].items():
        for field, schema in fields["properties"].items():
            assert "description" in schema or struct in ("FileFields", "ClusterFields"), (struct, field)
