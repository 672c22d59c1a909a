"""The GPUs of this machine as their drivers tell them: which there are, and how each one is now.

NVIDIA's driver is asked through NVML (the extra `gpu`), AMD's through sysfs. Example: `look()` on a machine with two
A100s, of which one has fallen off the bus, gives two readings; the second says why it is lost. A slice of a GPU (MIG)
is a device of its own. Where there is no driver, there are no devices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.core.errors import UserError

NVIDIA, AMD, NAMED = "nvidia", "amd", "named"
"""Who tells of a device. `named`: only the user, by `--gpus`."""
_SYSFS = Path("/sys")
_AMD_VENDOR = "0x1002"
_LEAST_AMD_MIB = 4096
"""An AMD device with less memory is part of the processor: it draws the screen."""
_HIDES = {NVIDIA: "CUDA_VISIBLE_DEVICES", AMD: "ROCR_VISIBLE_DEVICES"}
_NOT_A_TYPE = re.compile(
    r"nvidia|tesla|geforce|quadro|amd|ati|radeon|instinct|generation|gpu|laptop|pcie|sxm\d*|nvl|hbm\d*e?|oam|mig|\d+gb"
)
_SLICE = re.compile(r"\d+g\.\d+gb")


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU, or one slice of a GPU."""

    id: str
    """The same for as long as the hardware is: its UUID, or its address on the bus."""
    number: str
    """As people name it: `0`, or `0:1` for the second slice of GPU 0."""
    vendor: str
    visible: str
    """How a process names it, before any device is hidden from it."""
    type: str = ""
    """The accelerator type: `a100`."""
    memory: int = 0
    """MiB; 0 where it is not known."""

    def __str__(self) -> str:
        return f"GPU {self.number}"


@dataclass(frozen=True, slots=True)
class Reading:
    """How one device is at one moment."""

    device: Device
    use: float | None = None
    """The share of the last second in which it computed; None where it is not measured, as of slices."""
    memory: int | None = None
    """MiB in use."""
    pids: frozenset[int] = frozenset()
    """The processes that compute on it."""
    lost: str = ""
    """Why it is lost, in the words of its driver."""


Look = Callable[[], tuple[Reading, ...]]


class Drivers:
    """Asks the drivers. It is asked again and again, by one thread at a time."""

    def __init__(self, sysfs: Path = _SYSFS) -> None:
        self._sysfs = sysfs
        self._nvml = _Nvml()

    def look(self) -> tuple[Reading, ...]:
        return (*self._nvml.look(), *_amd(self._sysfs))


def missing_package(driver: Path = Path("/dev/nvidia0")) -> str:
    """What to install where a driver of NVIDIA is there and cannot be asked; empty where nothing is missing."""
    try:
        import pynvml  # noqa: F401
    except ImportError:
        return "pip install 'headway[gpu]'" if driver.exists() else ""
    return ""


# ── which of them ───────────────────────────────────────────────────────────────────────────────────────────


def chosen(found: Sequence[Device], wanted: str | None, inherited: Mapping[str, str]) -> list[Device]:
    """The devices that a run may give out.

    `wanted` is `--gpus`: numbers or ids such as `0,1` or `GPU-1a2b`. Where nothing is wanted, what Headway's own
    environment (`inherited`) hides stays hidden. Where no driver tells of devices, numbers are taken as they are.
    """
    if wanted is None:
        return [device for device in found if _is_open(device, inherited)]
    names = _names("" if wanted.strip() == "none" else wanted)
    if not found:
        wrong = next((name for name in names if not re.fullmatch(r"[0-9]{1,4}", name)), None)
        if wrong is not None:
            raise UserError(f"--gpus: {wrong[:60]!r} is no number, and no driver tells of GPUs here; write --gpus 0,1")
        return [Device(f"{NAMED}-{int(name)}", str(int(name)), NAMED, str(int(name))) for name in dict.fromkeys(names)]
    picked: list[Device] = []
    for name in names:
        same = [device for device in found if _is(device, name)]
        if not same:
            there = ", ".join(device.number for device in found)
            raise UserError(f"--gpus: there is no GPU {name[:60]!r}; this machine has {there}")
        picked += same
    return list(dict.fromkeys(picked))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _is_open(device: Device, inherited: Mapping[str, str]) -> bool:
    names = inherited.get(_HIDES[device.vendor])
    return names is None or any(_is(device, name) for name in _names(names))


def _is(device: Device, name: str) -> bool:
    """A number names a GPU with all its slices; an id may be cut short, as NVIDIA's own tools allow it."""
    if re.fullmatch(r"[0-9]+", name):
        return device.number.split(":")[0] == str(int(name))
    return device.number == name or (len(name) > 4 and device.id.lower().startswith(name.lower()))


def type_of(name: str) -> str:
    """The accelerator type in a product's name: `NVIDIA A100-SXM4-80GB` is `a100`."""
    words = [word for word in re.split(r"[\s\-_/\[\]()]+", name.lower()) if word]
    kept = "".join(word for word in words if not _NOT_A_TYPE.fullmatch(word) and not _SLICE.fullmatch(word))
    return "-mig-".join([kept, *[word for word in words if _SLICE.fullmatch(word)][:1]])


# ── NVIDIA ──────────────────────────────────────────────────────────────────────────────────────────────────


class _Nvml:
    """NVML, by `nvidia-ml-py`. It stays open between looks; after an error of the driver it is opened anew."""

    def __init__(self) -> None:
        self._library: Any = None

    def look(self) -> tuple[Reading, ...]:
        try:
            import pynvml
        except ImportError:
            return ()
        try:
            if self._library is None:
                pynvml.nvmlInit()
                self._library = pynvml
            return tuple(self._all(pynvml.nvmlDeviceGetCount()))
        except pynvml.NVMLError:  # no driver, or one that is being replaced
            self._close()
            return ()

    def _all(self, count: int) -> Iterator[Reading]:
        for number in range(count):
            yield from self._one(number)

    def _one(self, number: int) -> Iterator[Reading]:
        """A device, or its slices. One that answers with an error and whose id is not known is left out."""
        nvml = self._library
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            uuid = nvml.nvmlDeviceGetUUID(handle)
            if self._asked(nvml.nvmlDeviceGetMigMode, handle, [0])[0]:
                yield from self._slices(handle, number)
                return
        except nvml.NVMLError as error:
            yield Reading(Device("", str(number), NVIDIA, str(number)), lost=f"NVML says {error}")
            return
        yield self._reading(handle, Device(uuid, str(number), NVIDIA, str(number)))

    def _slices(self, handle: Any, number: int) -> Iterator[Reading]:
        nvml = self._library
        for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                one = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
            except nvml.NVMLError_NotFound:
                continue
            uuid = nvml.nvmlDeviceGetUUID(one)
            yield self._reading(one, Device(uuid, f"{number}:{place}", NVIDIA, uuid))

    def _reading(self, handle: Any, device: Device) -> Reading:
        nvml = self._library
        try:
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            kind = type_of(nvml.nvmlDeviceGetName(handle))
            used = self._asked(nvml.nvmlDeviceGetUtilizationRates, handle, None)
            running = self._asked(nvml.nvmlDeviceGetComputeRunningProcesses, handle, ())
        except nvml.NVMLError as error:
            return Reading(device, lost=f"NVML says {error}")
        whole = replace(device, type=kind, memory=int(memory.total) >> 20)
        pids = frozenset(int(process.pid) for process in running)
        return Reading(whole, None if used is None else used.gpu / 100, int(memory.used) >> 20, pids)

    def _asked(self, question: Callable[[Any], Any], handle: Any, otherwise: Any) -> Any:
        """The answer; `otherwise` where a device of this kind, or of this user, has none."""
        nvml = self._library
        try:
            return question(handle)
        except (nvml.NVMLError_GpuIsLost, nvml.NVMLError_ResetRequired):
            raise
        except nvml.NVMLError:
            return otherwise

    def _close(self) -> None:
        library, self._library = self._library, None
        if library is not None:
            try:
                library.nvmlShutdown()
            except library.NVMLError:
                return


# ── AMD ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _amd(sysfs: Path) -> Iterator[Reading]:
    """AMD's devices, numbered in the order of their addresses on the bus, as ROCm numbers them."""
    cards = [
        card / "device" for card in sysfs.glob("class/drm/card*")
        if re.fullmatch(r"card[0-9]+", card.name) and _text(card / "device/vendor") == _AMD_VENDOR
    ]  # fmt: skip
    large = [card for card in cards if _mib(card / "mem_info_vram_total") >= _LEAST_AMD_MIB]
    for number, card in enumerate(sorted(large, key=_address)):
        kind = type_of(_text(card / "product_name")) or "amd"
        device = Device(
            f"amd-{_text(card / 'unique_id') or _address(card)}", str(number), AMD, str(number), kind,
            _mib(card / "mem_info_vram_total"),
        )  # fmt: skip
        busy = _text(card / "gpu_busy_percent")
        use = int(busy) / 100 if busy.isdecimal() else None
        yield Reading(device, use, _mib(card / "mem_info_vram_used"))


def _address(card: Path) -> str:
    return card.resolve().name


def _mib(path: Path) -> int:
    text = _text(path)
    return int(text) >> 20 if text.isdecimal() else 0


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


# ── what a process is told ──────────────────────────────────────────────────────────────────────────────────


def visibility(given: Sequence[Device], vendors: Iterable[str]) -> dict[str, str]:
    """The variables that hide all devices of these vendors from a process but those it was given.

    ROCm hides in two steps: `HIP_VISIBLE_DEVICES` counts what `ROCR_VISIBLE_DEVICES` has left, from 0 on.
    """
    found: dict[str, str] = {}
    kinds = set(vendors)
    if kinds & {NVIDIA, NAMED}:
        names = [device.visible for device in given if device.vendor in (NVIDIA, NAMED)]
        found |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(names)}
    if kinds & {AMD, NAMED}:
        names = [device.visible for device in given if device.vendor in (AMD, NAMED)]
        counted = ",".join(str(number) for number in range(len(names)))
        found |= {"ROCR_VISIBLE_DEVICES": ",".join(names), "HIP_VISIBLE_DEVICES": counted}
    return found
