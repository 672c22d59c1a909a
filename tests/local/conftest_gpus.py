"""A machine with GPUs where there are none: NVML's C interface, spoken by tests/local/nvml/stand_in.c."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "nvml/stand_in.c"
A100, A100_SLICE = "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB MIG 1g.10gb"


class Gpus:
    """The state of the stand-in: change it, and the next question to NVML is answered so."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.file, self.library, self.folder = folder / "gpus", library, folder
        self._devices: dict[str, dict[str, object]] = {}

    def has(self, index: object, **fields: object) -> Gpus:
        """`gpus.has(0, pids="42")` adds GPU 0, or changes these fields of it."""
        fresh: dict[str, object] = {
            "uuid": f"{'MIG' if ':' in str(index) else 'GPU'}-{index}-aaaa".replace(":", "-"), "total": 81920,
            "used": 1024, "busy": 35, "lost": 0, "mig": 0, "pids": "-", "name": A100,
        }  # fmt: skip
        self._devices[str(index)] = {**fresh, **self._devices.get(str(index), {}), **fields}
        return self._write()

    def loses(self, index: object) -> Gpus:
        return self.has(index, lost=15)

    def unload(self) -> None:
        """The driver is gone."""
        self._put("-\n")

    def _write(self) -> Gpus:
        self._put(
            "".join(f"{index} {' '.join(map(str, fields.values()))}\n" for index, fields in self._devices.items())
        )
        return self

    def _put(self, text: str) -> None:
        part = self.file.with_suffix(".part")
        part.write_text(text)
        part.replace(self.file)

    @property
    def env(self) -> dict[str, str]:
        hidden = {name: value for name, value in os.environ.items() if "VISIBLE_DEVICES" not in name}
        return hidden | {
            "LD_LIBRARY_PATH": str(self.library.parent), "NVML_STAND_IN": str(self.file), "COLUMNS": "80",
            "XDG_STATE_HOME": str(self.folder / "state"), "HEADWAY_GPU_LOCKS": str(self.folder / "locks"),
        }  # fmt: skip

    def headway(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "headway", *words], cwd=self.folder, env=self.env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def output(self, job: str, file: str = "jobs", replica: str = "worker-0") -> str:
        path = self.folder / f".headway/{file}/output/{job}/{replica}.log"
        return path.read_text() if path.exists() else ""

    def visible(self, job: str, file: str = "jobs", replica: str = "worker-0") -> list[str]:
        """The CUDA_VISIBLE_DEVICES that a job printed, one for each of its starts."""
        lines = self.output(job, file, replica).splitlines()
        return [line.removeprefix("CUDA_VISIBLE_DEVICES=") for line in lines if line.startswith("CUDA_VISIBLE")]

    def wait_for(self, what: str, true, seconds: float = 30.0) -> None:
        give_up = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < give_up, f"not within {seconds} s: {what}"
            time.sleep(0.05)


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", str(path), str(SOURCE)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no C compiler here: the stand-in for NVML cannot be built")
    return path


@pytest.fixture
def gpus(tmp_path, nvml_library, monkeypatch) -> Iterator[Gpus]:
    """The stand-in, for this process too: a library of this name that is loaded already is the one that is found."""
    made = Gpus(tmp_path, nvml_library)
    ctypes.CDLL(str(nvml_library))
    monkeypatch.setenv("NVML_STAND_IN", str(made.file))
    return made
