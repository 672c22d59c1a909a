"""A file that is replaced as a whole and is on the disk when its block ends: what a checkpoint must be."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def whole_file(
    path: str | os.PathLike[str], *, part: Path | None = None, permissions: int = 0o666, synced: bool = True
) -> Iterator[IO[bytes]]:
    """Opens a new file for bytes; when the block ends without an exception, it takes the place of `path`.

    Who reads `path` finds the old content or the new one, also after `kill -9` or a power cut. Until the block ends the
    bytes are in `part`, by default `.NAME.part` beside it: one writer at a time. Without `synced` a power cut may leave
    it empty: for what is soon written again.

        with progress.whole_file(folder / "model.pt") as file:
            torch.save(model.state_dict(), file)
    """
    target = Path(path)
    part = part or target.with_name(f".{target.name}.part")
    try:
        with open(part, "w+b", opener=lambda name, flags: os.open(name, flags, permissions)) as file:
            yield file
            file.flush()
            if synced:
                os.fsync(file.fileno())
        part.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    if synced:
        sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """What was made, renamed or removed in the folder is on the disk, too. Some file systems have no such call."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
