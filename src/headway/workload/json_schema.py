"""The JSON schemas of our file formats, made from the structs that read the files.

`python -m headway.workload.json_schema docs/schema` writes them. A test compares the files with this module.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from headway.workload.cluster import ClusterFields
from headway.workload.jobsfile import FileFields
from headway.workload.open import CsvFields, LineFields

SCHEMAS: dict[str, tuple[type[Any], str]] = {
    "jobs-file.schema.json": (FileFields, "A jobs file (YAML): jobs, and optionally nodes and simulation settings."),
    "workload-line.schema.json": (LineFields, "One line of a JSON-lines workload."),
    "workload-row.schema.json": (CsvFields, "One row of a csv workload; the columns may be in any order."),
    "cluster-file.schema.json": (ClusterFields, "A cluster file (YAML): node shapes, racks, accelerators."),
}
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, bytes]:
    """File name to content."""
    written = {}
    for name, (struct, about) in SCHEMAS.items():
        schema = {"$schema": _DIALECT, "description": about, **msgspec.json.schema(struct)}
        written[name] = msgspec.json.format(msgspec.json.encode(schema, order="deterministic")) + b"\n"
    return written


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in schemas().items():
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
