"""GPUs are locked between all users of a machine, in a folder that anybody may write to and nobody may misuse."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from headway.local.gpu_locks import lock_folder, locked

TAKE = """
import fcntl, os, sys
from pathlib import Path
from headway.local.gpu_locks import lock_folder, locked
os.umask(0o077)
folder = lock_folder({"HEADWAY_GPU_LOCKS": sys.argv[1]}, Path("own"))
try:
    locked(folder / "GPU-0.gpu", fcntl.LOCK_EX)
except BlockingIOError:
    print("others have it", flush=True)
    raise SystemExit
print("locked", flush=True)
sys.stdin.read()
"""


def _of_user(user: int, folder: Path) -> subprocess.Popen[str]:
    """The capability to read all is for the Python of this test, which may be in root's own folder."""
    caps = "-all,+dac_read_search"
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", f"--inh-caps={caps}",
              f"--ambient-caps={caps}", f"--bounding-set={caps}"]  # fmt: skip
    return subprocess.Popen(
        [*become, sys.executable, "-c", TAKE, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
def public(tmp_path):
    """As /tmp is: everybody may write there, also in the folders above it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    for above in tmp_path.parents:
        if above.stat().st_uid == os.getuid() and not above.stat().st_mode & stat.S_IXOTH:
            above.chmod(above.stat().st_mode | stat.S_IXOTH)
    tmp_path.chmod(0o755)
    return folder


def _folder(public: Path) -> Path:
    return lock_folder({"HEADWAY_GPU_LOCKS": str(public / "gpus")}, Path("own"))


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="only root can be two users")
@pytest.mark.parametrize("first", [12_001, 12_002])
def test_two_users_never_have_one_gpu(public, first):
    """Whoever made the folder and the file, and whatever its umask is."""
    holder = _of_user(first, public / "gpus")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    for user in (12_001, 12_002):
        assert _of_user(user, public / "gpus").communicate(timeout=30)[0] == "others have it\n"
    with pytest.raises(BlockingIOError):
        locked(_folder(public) / "GPU-0.gpu", fcntl.LOCK_SH)
    holder.communicate(timeout=30)
    assert _of_user(12_003, public / "gpus").communicate(timeout=30)[0] == "locked\n"


def test_folder_and_files_can_be_replaced_by_nobody_else(public):
    os.close(locked(_folder(public) / "GPU-0.gpu", fcntl.LOCK_EX))
    assert stat.S_IMODE(_folder(public).stat().st_mode) == 0o1777
    assert stat.S_IMODE((public / "gpus/GPU-0.gpu").stat().st_mode) == 0o644
    assert [path.name for path in public.rglob("*")] == ["gpus", "GPU-0.gpu"]


@pytest.mark.parametrize("squatted", ["a link", "a file", "closed to others", "without the sticky bit"])
def test_a_folder_that_is_not_shared_safely_is_not_used(public, squatted):
    place = public / "gpus"
    (public / "theirs").mkdir()
    (public / "theirs").chmod(0o1777)
    match squatted:
        case "a link":
            place.symlink_to(public / "theirs")
        case "a file":
            place.touch()
        case "closed to others":
            place.mkdir()
            place.chmod(0o700)
        case _:
            place.mkdir()
            place.chmod(0o777)
    assert _folder(public) == Path("own")


def test_a_link_in_place_of_a_lock_is_not_followed(public):
    (public / "precious").write_text("kept")
    (_folder(public) / "GPU-0.gpu").symlink_to(public / "precious")
    with pytest.raises(OSError, match="GPU-0"):
        locked(_folder(public) / "GPU-0.gpu", fcntl.LOCK_EX)
    assert (public / "precious").read_text() == "kept"


def test_a_lock_of_a_file_that_was_removed_counts_no_more(public, monkeypatch):
    """One that cleans up removes the file between the moment it is opened and that in which it is locked."""
    path, flock = _folder(public) / "GPU-0.gpu", fcntl.flock

    def late(file: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        path.unlink()
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    file = locked(path, fcntl.LOCK_EX)
    with pytest.raises(BlockingIOError):
        locked(path, fcntl.LOCK_EX)
    os.close(file)
