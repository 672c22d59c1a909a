"""Makes the krew manifest of `kubectl headway` and the archive that it names: python deploy/krew/make.py FOLDER.

The same sources give the same bytes. `headway.yaml` beside this file is that of the present version.
"""

from __future__ import annotations

import hashlib
import sys
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The time of a file in a zip, where it is to tell nothing."""


def made(folder: Path) -> tuple[Path, Path]:
    """The archive and the manifest, in this folder."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    archive, manifest = folder / "kubectl-headway.zip", folder / "headway.yaml"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as out:
        for file, mode in ((HERE / "kubectl-headway", 0o755), (ROOT / "LICENSE", 0o644)):
            info = zipfile.ZipInfo(file.name, EARLIEST)
            info.create_system, info.external_attr = 3, (0o100000 | mode) << 16
            out.writestr(info, file.read_bytes())
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    text = (HERE / "headway.yaml.in").read_text().replace("@VERSION@", version).replace("@SHA256@", digest)
    manifest.write_text(text)
    return archive, manifest


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    folder.mkdir(parents=True, exist_ok=True)
    for path in made(folder):
        print(path)
