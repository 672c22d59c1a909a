"""Makes the image of Headway as one OCI archive, from Debian packages and a wheel. No daemon, no root, no registry.

    python deploy/image/build.py --out headway-image.tar          # from the locked packages
    python deploy/image/build.py --out headway-image.tar --latest # from the newest ones; writes the locks anew

The same inputs make the same bytes. Beside the archive are an SBOM (`.cdx.json`) and the list of licences.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DEBIAN_LOCK, PYTHON_LOCK = HERE / "debian.lock", HERE / "requirements.lock"
PACKAGES = ("python3.11-minimal", "libpython3.11-stdlib", "libstdc++6")
"""With what they depend on."""
WITHOUT = {"dpkg", "tar", "libacl1", "libmd0", "libpcre2-8-0", "libselinux1", "libzstd1"}
"""Nothing is installed in a container: what only the package manager needs stays out."""
NOT_NEEDED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/bash-completion",
              "usr/lib/python3.11/test", "usr/lib/python3.11/idlelib", "usr/lib/python3.11/ensurepip",
              "usr/lib/python3.11/lib2to3", "usr/lib/python3.11/pydoc_data")  # fmt: skip
SITE = "opt/headway"
USER = 65532
KEPT, ANEW, FREE = "kept", "anew", "free"
WHEELS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


class ImageError(Exception):
    """One sentence for whoever builds it."""


@dataclass(frozen=True)
class DebianPackage:
    name: str
    version: str
    sha256: str
    file: Path


def run(*command: str, **more: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]
    if done.returncode:
        raise ImageError(f"{' '.join(command[:3])} …: {(done.stderr or done.stdout).strip()[-600:]}")
    return str(done.stdout)


# ── what goes in ────────────────────────────────────────────────────────────────────────────────────────────


def debian(folder: Path, locked: str) -> list[DebianPackage]:
    """Downloads the packages as if nothing were installed, and holds them to the lock."""
    (folder / "partial").mkdir(parents=True)
    (folder / "status").touch()
    wanted = [f"{name}={version}" for name, version, _ in _locked()] if locked == KEPT else list(PACKAGES)
    run(
        "apt-get", "-o", f"Dir::State::status={folder / 'status'}", "-o", f"Dir::Cache::archives={folder}", "-o",
        "Debug::NoLocking=1", "-o", "APT::Sandbox::User=", "install", "--download-only", "-y", "-qq",
        "--no-install-recommends", *wanted,
    )  # fmt: skip
    found = []
    for file in sorted(folder.glob("*.deb")):
        name, version = run("dpkg-deb", "-W", "--showformat=${Package}\t${Version}", str(file)).split("\t")
        if name in WITHOUT:
            continue
        found.append(DebianPackage(name, version, hashlib.sha256(file.read_bytes()).hexdigest(), file))
    told = [(one.name, one.version, one.sha256) for one in found]
    if locked == ANEW:
        DEBIAN_LOCK.write_text("".join(f"{name} {version} {digest}\n" for name, version, digest in told))
    elif locked == KEPT and told != _locked():
        raise ImageError(f"{DEBIAN_LOCK.name}: other packages than those that are locked; see --latest")
    return found


def _locked() -> list[tuple[str, str, str]]:
    lines = [line.split() for line in DEBIAN_LOCK.read_text().splitlines() if line]
    return [(name, version, digest) for name, version, digest in lines]


def python_packages(wheel: Path, site: Path, locked: str) -> None:
    """Headway and what its extra `kube` needs, for Debian's Python."""
    for_image = ["--target", str(site), "--only-binary=:all:", "--python-version", "3.11", "--implementation", "cp",
                 *(word for kind in WHEELS for word in ("--platform", kind))]  # fmt: skip
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-compile"]
    if locked == ANEW:
        report = wheel.with_name("report.json")
        run(*pip, *for_image, "--dry-run", "--report", str(report), f"{wheel}[kube]")
        found = [one for one in json.loads(report.read_text())["install"] if one["metadata"]["name"] != "headway"]
        lines = [
            f"{one['metadata']['name']}=={one['metadata']['version']} "
            f"--hash=sha256:{one['download_info']['archive_info']['hashes']['sha256']}\n"
            for one in sorted(found, key=lambda one: one["metadata"]["name"].lower())
        ]
        PYTHON_LOCK.write_text("".join(lines))
    run(*pip, *for_image, "--no-deps", "--require-hashes", "-r", str(PYTHON_LOCK))
    run(*pip, *for_image, "--no-deps", str(wheel))


def wheel_of(folder: Path) -> Path:
    run(sys.executable, "-m", "pip", "-q", "wheel", "--no-deps", "-w", str(folder), str(ROOT))
    (wheel,) = folder.glob("headway-*.whl")
    return wheel


def filled(tree: Path, packages: list[DebianPackage]) -> None:
    """Unpacks the packages, and says of each what it is, where scanners look."""
    about = tree / "var/lib/dpkg/status.d"
    about.mkdir(parents=True)
    for one in packages:
        run("dpkg-deb", "-x", str(one.file), str(tree))
        (about / one.name).write_text(run("dpkg-deb", "-f", str(one.file)))
    for name in ("etc", "tmp", "var/run", "var/log/headway"):
        (tree / name).mkdir(parents=True, exist_ok=True)
    (tree / "etc/passwd").write_text(f"root:x:0:0::/root:/sbin/nologin\nheadway:x:{USER}:{USER}::/tmp:/sbin/nologin\n")
    (tree / "etc/group").write_text(f"root:x:0:\nheadway:x:{USER}:\n")
    (tree / "etc/os-release").write_text('ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    licences = tree / "usr/share/licenses"
    for found in sorted(tree.glob("usr/share/doc/*/copyright")):
        (licences / found.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(found, licences / found.parent.name / "copyright", follow_symlinks=True)
    for name in NOT_NEEDED:
        shutil.rmtree(tree / name, ignore_errors=True)


# ── the archive ─────────────────────────────────────────────────────────────────────────────────────────────


def layer(tree: Path, when: int) -> bytes:
    """All files in one order, with one owner and one time."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(tree.rglob("*"), key=str):
            info = tar.gettarinfo(path, str(path.relative_to(tree)))
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mtime = when
            if path.is_file() and not path.is_symlink():
                info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.stat().st_size
                with path.open("rb") as content:
                    tar.addfile(info, content)
            else:
                tar.addfile(info)
    return made.getvalue()


def packed(raw: bytes) -> bytes:
    made = io.BytesIO()
    with gzip.GzipFile(fileobj=made, mode="wb", mtime=0, compresslevel=6) as file:
        file.write(raw)
    return made.getvalue()


def archive(out: Path, raw: bytes, tag: str, version: str, when: int) -> None:
    """An OCI layout in a tar, which containerd, podman, skopeo and crane read."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    made = packed(raw)
    created = f"{__import__('datetime').datetime.fromtimestamp(when, __import__('datetime').UTC):%Y-%m-%dT%H:%M:%SZ}"
    config = {
        "created": created, "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()], "os": "linux",
        "config": {
            "User": f"{USER}:{USER}", "WorkingDir": "/tmp",  # noqa: S108  the only folder that may be written
            "Entrypoint": ["/usr/bin/python3.11", "-m", "headway"],
            "Env": [f"PYTHONPATH=/{SITE}", "PYTHONDONTWRITEBYTECODE=1", "HOME=/tmp", "PATH=/usr/bin"],
            "Labels": {"org.opencontainers.image.title": "headway", "org.opencontainers.image.version": version,
                       "org.opencontainers.image.licenses": "Apache-2.0"},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(raw).hexdigest()}"]},
        "history": [{"created": created, "created_by": "deploy/image/build.py"}],
    }  # fmt: skip
    manifest = {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(json.dumps(config, sort_keys=True).encode(), "config.v1+json"),
        "layers": [blob(made, "layer.v1.tar+gzip")],
    }  # fmt: skip
    found = blob(json.dumps(manifest, sort_keys=True).encode(), "manifest.v1+json")
    names = {"io.containerd.image.name": tag, "org.opencontainers.image.ref.name": tag.rpartition(":")[2]}
    index = {"schemaVersion": 2, "manifests": [{**found, "annotations": names}]}
    with tarfile.open(out, "w", format=tarfile.GNU_FORMAT) as tar:
        files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps(index).encode()}
        files |= {f"blobs/sha256/{digest}": content for digest, content in sorted(blobs.items())}
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(content), when, 0o644
            tar.addfile(info, io.BytesIO(content))


# ── what is in it ───────────────────────────────────────────────────────────────────────────────────────────


def describe(out: Path, packages: list[DebianPackage], site: Path, tree: Path) -> None:
    """The SBOM in CycloneDX by its own library, and one line a package with its licence."""
    from importlib.metadata import distributions

    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot5
    from packageurl import PackageURL

    bom, lines, kind = Bom(), [], ComponentType.LIBRARY
    for one in packages:
        url = PackageURL("deb", "debian", one.name, one.version)
        bom.components.add(Component(name=one.name, version=one.version, type=kind, purl=url, bom_ref=str(url)))
        lines.append(f"{one.name} {one.version}: /usr/share/licenses/{one.name}/copyright")
    for dist in sorted(distributions(path=[str(site)]), key=lambda dist: dist.metadata["Name"].lower()):
        name, about = dist.metadata["Name"], dist.metadata
        licence = (
            about.get("License-Expression") or _classified(about.get_all("Classifier") or []) or about.get("License")
        )
        url = PackageURL("pypi", None, name.lower(), dist.version)
        bom.components.add(Component(name=name, version=dist.version, type=kind, purl=url, bom_ref=str(url)))
        lines.append(f"{name} {dist.version}: {(licence or 'see its metadata').splitlines()[0]}")
    text = "\n".join(lines) + "\n"
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, text)  # its own are random, and the time is now
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    out.with_suffix(".cdx.json").write_text(JsonV1Dot5(bom).output_as_string(indent=1))
    out.with_suffix(".licences.txt").write_text(text)
    (tree / "usr/share/licenses/packages.txt").write_text(text)


def _classified(classifiers: list[str]) -> str:
    return ", ".join(one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License ::"))


def epoch() -> int:
    """The time of all that is made: as it is given, or of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or run("git", "-C", str(ROOT), "log", "-1", "--format=%ct"))


def build(out: Path, tag: str, locked: str = KEPT) -> None:
    when = epoch()
    os.environ["SOURCE_DATE_EPOCH"] = str(when)
    with tempfile.TemporaryDirectory() as at:
        folder, tree = Path(at), Path(at) / "tree"
        (folder / "wheel").mkdir()
        packages = debian(folder / "debian", locked)
        wheel = wheel_of(folder / "wheel")
        filled(tree, packages)
        site = tree / SITE
        python_packages(wheel, site, locked)
        for found in [*site.rglob("__pycache__"), site / "bin"]:
            shutil.rmtree(found, ignore_errors=True)
        for found in site.glob("*.dist-info/RECORD"):  # it names what is no longer there
            found.unlink()
        for found in site.glob("*.dist-info/direct_url.json"):
            found.unlink()
        run(
            sys.executable,
            "-m",
            "compileall",
            "-q",
            "--invalidation-mode",
            "unchecked-hash",
            "-s",
            str(tree),
            "-p",
            "/",
            str(site),
        ) if sys.version_info[:2] == (3, 11) else None
        describe(out, packages, site, tree)
        archive(out, layer(tree, when), tag, wheel.name.split("-")[1], when)
    print(f"{out}: {out.stat().st_size / 1e6:.0f} MB, sha256 {hashlib.sha256(out.read_bytes()).hexdigest()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the archive, such as headway-image.tar")
    parser.add_argument("--tag", default="headway.dev/headway:0.1.0", help="the name under which it is imported")
    locks = parser.add_mutually_exclusive_group()
    locks.add_argument("--latest", dest="locked", action="store_const", const=ANEW, default=KEPT,
                       help="take the newest packages, and write the locks anew")  # fmt: skip
    locks.add_argument("--unlocked", dest="locked", action="store_const", const=FREE,
                       help="take Debian's newest packages, and leave the locks alone: for a trial")  # fmt: skip
    chosen = parser.parse_args()
    try:
        build(chosen.out, chosen.tag, chosen.locked)
    except ImageError as error:
        print(f"image: {error}", file=sys.stderr)
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
