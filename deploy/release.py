"""Everything of a release into one folder: wheel, image, chart, the plain file, checksums.

    python deploy/release.py --out release            # needs helm: headway lab build helm
    python deploy/release.py --plain headway.yaml     # only the plain file, for kubectl apply --server-side

The wheel is installed in a fresh environment and asked for its version before anything else is made.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "image"))
import build as image

sys.path.insert(0, str(Path(__file__).parent / "krew"))
import make as krew

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts/headway"
NAMESPACE = "headway-system"


def helm() -> str:
    from headway.lab.programs import locate

    found = shutil.which("helm") or locate("helm")
    if found is None:
        raise image.ImageError("helm is not here: headway lab build helm")
    return str(found)


def plain(out: Path) -> None:
    """All of the chart with its defaults, as one file."""
    versions = [f"admissionregistration.k8s.io/v1/{kind}" for kind in
                ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")]  # fmt: skip
    command = [helm(), "template", "headway", str(CHART), "--namespace", NAMESPACE, "--kube-version", "1.36.0"]
    text = image.run(*command, *(word for one in versions for word in ("--api-versions", one)))
    head = f"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n"
    namespaced = text.replace("app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: headway")
    out.write_text(head + in_namespace(namespaced))
    print(out)


def in_namespace(text: str) -> str:
    """Helm leaves the namespace to the caller: whoever applies a plain file has none."""
    import yaml

    wide = ("CustomResourceDefinition", "Cluster", "Validating", "Mutating", "FlowSchema", "PriorityLevel")
    parts = []
    for one in filter(None, yaml.safe_load_all(text)):
        if not one["kind"].startswith(wide):
            one["metadata"].setdefault("namespace", NAMESPACE)
        parts.append("---\n" + yaml.safe_dump(one, sort_keys=False, width=200))
    return "".join(parts)


def tried(wheel: Path) -> str:
    """The version that the wheel says of itself, in an environment that has nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin/python")
        image.run(python, "-m", "pip", "-q", "install", f"{wheel}[kube]")
        return image.run(python, "-m", "headway", "--version").strip()


def packaged(out: Path) -> str:
    """The chart as an archive. Helm keeps the times of files, which each checkout has of its own."""
    with tempfile.TemporaryDirectory() as folder:
        copy, when = Path(folder) / CHART.name, image.epoch()
        shutil.copytree(CHART, copy)
        for file in [copy, *copy.rglob("*")]:
            os.utime(file, (when, when))
        return image.run(helm(), "package", str(copy), "--destination", str(out)).strip()


def release(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    wheel = image.wheel_of(out)
    print(f"{wheel}: {tried(wheel)}")
    version = wheel.name.split("-")[1]
    image.build(out / f"headway-{version}-image.tar", f"headway.dev/headway:{version}")
    print(packaged(out))
    plain(out / f"headway-{version}.yaml")
    krew.made(out)
    files = [file for file in sorted(out.iterdir()) if file.is_file() and file.name != "SHA256SUMS"]
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (out / "SHA256SUMS").write_text(sums)
    print(f"{len(files)} files and their checksums in {out}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, help="the folder of the release")
    what.add_argument("--plain", type=Path, help="only write the plain file")
    chosen = parser.parse_args()
    try:
        if chosen.plain:
            plain(chosen.plain)
        else:
            release(chosen.out)
    except (image.ImageError, subprocess.SubprocessError) as error:
        print(f"release: {error}", file=sys.stderr)
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
