"""Runs a headway command and records the files in which a function runs. For `ways.py`, which says what counts.

    python bench/ways_recorder.py OUT whole|window|asked COMMAND...

`whole` records the whole command, `window` from the third to the sixth plan. `asked` reads lines from standard input:
`on` starts the recording, any other word saves the files so far under that name.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType

CO_OPTIMIZED = 0x1
"""Functions have this flag; modules and class bodies do not."""
FIRST, LAST = 3, 6
"""The calls of the cluster's `apply` at which the recording of a `window` starts and ends."""


class Recorder:
    """Records the files of `root` in which functions run, in this thread and all later ones."""

    def __init__(self, root: Path, out: Path, *, on: bool) -> None:
        self.root, self.out, self.on = f"{root}{os.sep}", out, on
        self.files: dict[str, list[str]] = {}
        self.applies = 0
        self.window: tuple[int, int] | None = None
        self._seen: dict[int, CodeType] = {}
        self._files: set[str] = set()

    def install(self) -> None:
        atexit.register(self.mark, "all")
        threading.setprofile(self._event)
        sys.setprofile(self._event)

    def mark(self, name: str) -> None:
        """Saves the files so far under this name."""
        self.files[name] = sorted(self._files.copy())
        partial = self.out.with_suffix(".partial")
        partial.write_text(json.dumps({"applies": self.applies, "files": self.files}))
        partial.rename(self.out)

    def _event(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self.root):
            return
        if code.co_name == "apply" and hasattr(frame.f_locals.get("self"), "next_snapshot"):
            self._applied()
        if self.on and id(code) not in self._seen and code.co_flags & CO_OPTIMIZED and not self._is_importing(frame):
            self._seen[id(code)] = code
            self._files.add(code.co_filename.removeprefix(self.root))

    def _applied(self) -> None:
        self.applies += 1
        if self.window is not None:
            self.on = self.window[0] <= self.applies < self.window[1]
            if self.applies == self.window[1]:
                self.mark("window")
        elif self.applies == 1:
            self.mark("first")

    def _is_importing(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(self.root):
                return True
            frame = frame.f_back
        return False


def main() -> None:
    import headway

    out, mode, *arguments = sys.argv[1:]

    recorder = Recorder(Path(headway.__path__[0]), Path(out), on=mode == "whole")
    if mode == "window":
        recorder.window = (FIRST, LAST)
    if mode == "asked":
        threading.Thread(target=_obey, args=(recorder,), daemon=True).start()
    recorder.install()
    sys.argv = ["headway", *arguments]
    from headway import cli

    cli.main()


def _obey(recorder: Recorder) -> None:
    for line in sys.stdin:
        word = line.strip()
        if word == "on":
            recorder.on = True
        else:
            recorder.mark(word)


if __name__ == "__main__":
    main()
