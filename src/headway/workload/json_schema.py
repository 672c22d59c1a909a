"""The JSON schemas of our file formats and the reference of all fields, made from the structs that read the files.

`python -m headway.workload.json_schema docs` writes docs/schema and docs/job-fields.md. A test compares them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from headway.workload.cluster import ClusterFields
from headway.workload.field_docs import FIELD_DOCS, JOB, TITLES, Docs
from headway.workload.jobsfile import FileFields
from headway.workload.open import CsvFields, LineFields
from headway.workload.yaml_values import values

SCHEMAS: dict[str, tuple[type[Any], str]] = {
    "jobs-file.schema.json": (FileFields, "A jobs file (YAML): jobs, and optionally nodes and simulation settings."),
    "workload-line.schema.json": (LineFields, "One line of a JSON-lines workload."),
    "workload-row.schema.json": (CsvFields, "One row of a csv workload; the columns may be in any order."),
    "cluster-file.schema.json": (ClusterFields, "A cluster file (YAML): node shapes, racks, accelerators."),
}
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = {
    "integer": "whole number", "number": "number", "string": "text", "boolean": "true or false", "array": "list",
    "object": "fields",
}  # fmt: skip
_TRUE_SECONDS = ("True training time, if it differs from the declared one; hidden from policies.", "true_seconds: 3h")
_HEAD = """# Every field of a jobs file

Generated from the code that reads the files: `python -m headway.workload.json_schema docs`. The JSON schemas for
editors are in [schema](schema), other formats in [workloads.md](workloads.md). Durations are seconds, or with a unit:
90, 90s, 5m, 1.5h, 2d. An unknown field is an error that says which one was probably meant.

```yaml
nodes:
- {name: a, count: 2, cpu: 8, memory: 32Gi}
jobs:
- name: bert
  replicas: 2
  cpu: 2
  deadline: 2h
  command: [python, train.py, --steps, 700]
```
"""


def schemas() -> dict[str, bytes]:
    """File name to content."""
    written = {}
    for name, (struct, about) in SCHEMAS.items():
        schema = {"$schema": _DIALECT, "description": about, **_described(msgspec.json.schema(struct))}
        written[name] = msgspec.json.format(msgspec.json.encode(schema, order="deterministic")) + b"\n"
    return written


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    """Adds description and example to every field that has them."""
    docs: dict[str, Docs] = {struct.__name__: fields for struct, fields in FIELD_DOCS.items()} | {
        "LineFields": JOB | {"true_seconds": _TRUE_SECONDS}
    }
    for name, struct in schema["$defs"].items():
        for field, (about, example) in docs.get(name, {}).items():
            struct["properties"][field] |= {"description": about, "examples": [values(example.encode())[field]]}
    return schema


def job_fields() -> str:
    """The page docs/job-fields.md."""
    schema = _described(msgspec.json.schema(FileFields))["$defs"]
    parts = [_HEAD]
    for struct, fields in FIELD_DOCS.items():
        parts.append(
            f"\n## {TITLES[struct]}\n\n| field | type | default | meaning | example |\n|---|---|---|---|---|\n"
        )
        properties = schema[struct.__name__]["properties"]
        first = ["name"] if "name" in fields else []
        for field in dict.fromkeys([*first, *(name for name in fields if name not in _shared(struct)), *fields]):
            about, example = fields[field]
            kind, default = _type(properties[field]), _default(properties[field])
            parts.append(f"| `{field}` | {kind} | {default} | {about} | `{example}` |\n")
    return "".join(parts)


def _shared(struct: type[Any]) -> tuple[str, ...]:
    """The fields that a job has from its only role: they come last."""
    return getattr(struct.__base__, "__struct_fields__", ())


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return "fields, see below"
    if "enum" in schema:
        return " or ".join(schema["enum"])
    kinds = [_type(one) for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    if not kinds:
        return _TYPES[schema["type"]]
    return " or ".join(dict.fromkeys(kind for kind in kinds if not (kind == "whole number" and "number" in kinds)))


def _default(schema: dict[str, Any]) -> str:
    default = schema.get("default")
    if default in (None, "", [], {}):
        return ""
    return f"`{msgspec.json.encode(default).decode()}`" if not isinstance(default, str) else f"`{default}`"


def main(docs: Path) -> None:
    folder = docs / "schema"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in schemas().items():
        (folder / name).write_bytes(content)
    (docs / "job-fields.md").write_text(job_fields())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
