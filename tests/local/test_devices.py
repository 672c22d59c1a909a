"""What GPUs there are, who gets which, and which are not given out: by tables, with the real nvidia-ml-py."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from conftest_gpus import A100_SLICE

from headway.core.errors import UserError
from headway.core.job import JobId
from headway.core.node import Node
from headway.local.device_pool import ABOUT_GPUS, BLIND, DevicePool, Devices, Owner, deal, described
from headway.local.devices import (
    AMD,
    NAMED,
    NVIDIA,
    Device,
    Drivers,
    Reading,
    chosen,
    missing_package,
    type_of,
    visibility,
)


def _gpu(number: int, kind: str = "a100", vendor: str = NVIDIA) -> Device:
    return Device(f"GPU-{number}-aaaa", str(number), vendor, str(number), kind, 81920)


def _node(name: str, gpus: int, accelerator: str = "") -> Node:
    return Node(name=name, capacity=(("cpu", 1000), ("gpu", gpus)), accelerator=accelerator)


# ── what drivers tell ───────────────────────────────────────────────────────────────────────────────────────


def test_nvml_tells_type_memory_use_and_processes(gpus, tmp_path):
    gpus.has(0, used=2048, busy=40, pids="7,8").has(1, name="Tesla T4", total=15360)
    first, second = Drivers(tmp_path).look()
    assert first == Reading(Device("GPU-0-aaaa", "0", NVIDIA, "0", "a100", 81920), 0.4, 2048, frozenset({7, 8}))
    assert (second.device.type, second.device.memory, second.pids) == ("t4", 15360, frozenset())


def test_slices_are_devices_and_the_gpu_they_are_of_is_none(gpus, tmp_path):
    gpus.has(0, mig=1).has("0:0", name=A100_SLICE, total=9728).has("0:2", name=A100_SLICE, total=9728).has(1)
    found = Drivers(tmp_path).look()
    assert [(r.device.number, r.device.visible, r.device.type) for r in found] == [
        ("0:0", "MIG-0-0-aaaa", "a100-mig-1g.10gb"), ("0:2", "MIG-0-2-aaaa", "a100-mig-1g.10gb"), ("1", "1", "a100"),
    ]  # fmt: skip
    assert found[0].use is None, "NVML does not measure it"
    assert found[0].memory == 1024


def test_a_lost_device_says_so_and_the_driver_may_go_and_come(gpus, tmp_path):
    drivers = Drivers(tmp_path)
    gpus.has(0).loses(1)
    assert [bool(reading.lost) for reading in drivers.look()] == [False, True]
    assert drivers.look()[1].lost == "NVML says GPU is lost"
    gpus.unload()
    assert drivers.look() == ()
    gpus.has(1, lost=0)
    assert [reading.lost for reading in drivers.look()] == ["", ""]


def test_without_a_driver_there_are_no_devices(tmp_path, monkeypatch):
    monkeypatch.delenv("NVML_STAND_IN", raising=False)
    assert Drivers(tmp_path).look() == ()


def test_without_the_extra_there_are_no_devices_of_nvidia(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Drivers(tmp_path).look() == ()
    assert missing_package(tmp_path) == "pip install 'headway[gpu]'"
    assert missing_package(tmp_path / "none") == ""


def _amd_card(sysfs, number, address, **files):
    device = sysfs / "devices" / address
    device.mkdir(parents=True)
    values = {"vendor": "0x1002", "mem_info_vram_total": 64 << 30, "mem_info_vram_used": 3 << 30,
              "gpu_busy_percent": 25, "product_name": "AMD Instinct MI210", "unique_id": f"u{number}"}  # fmt: skip
    for name, value in (values | files).items():
        (device / name).write_text(f"{value}\n")
    card = sysfs / f"class/drm/card{number}"
    card.mkdir(parents=True)
    (card / "device").symlink_to(device)
    (sysfs / f"class/drm/card{number}-DP-1").mkdir()


def test_devices_of_amd_are_in_the_order_of_the_bus(tmp_path, monkeypatch):
    monkeypatch.delenv("NVML_STAND_IN", raising=False)
    _amd_card(tmp_path, 0, "0000:c3:00.0", mem_info_vram_total=512 << 20)  # in the processor
    _amd_card(tmp_path, 1, "0000:83:00.0")
    _amd_card(tmp_path, 2, "0000:03:00.0", gpu_busy_percent="", unique_id="")
    _amd_card(tmp_path, 3, "0000:01:00.0", vendor="0x10de")
    assert Drivers(tmp_path).look() == (
        Reading(Device("amd-0000:03:00.0", "0", AMD, "0", "mi210", 65536), None, 3072),
        Reading(Device("amd-u1", "1", AMD, "1", "mi210", 65536), 0.25, 3072),
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"), ("NVIDIA A100 80GB PCIe", "a100"), ("Tesla V100-SXM2-16GB", "v100"),
        ("NVIDIA GeForce RTX 2080 Ti", "rtx2080ti"), ("Quadro RTX 6000", "rtx6000"), ("Tesla T4", "t4"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx6000ada"), ("NVIDIA H100 80GB HBM3", "h100"),
        ("AMD Instinct MI250X", "mi250x"), ("", ""),
    ],
)  # fmt: skip
def test_the_type_is_the_word_that_speeds_are_kept_under(name, kind):
    assert type_of(name) == kind


# ── which of them ───────────────────────────────────────────────────────────────────────────────────────────

SLICES = [Device(f"MIG-0-{n}-aaaa", f"0:{n}", NVIDIA, f"MIG-0-{n}-aaaa") for n in range(2)]
THERE = [*SLICES, _gpu(1), _gpu(2)]


@pytest.mark.parametrize(
    ("wanted", "inherited", "numbers"),
    [
        (None, {}, ["0:0", "0:1", "1", "2"]),
        ("2,1", {}, ["2", "1"]),
        ("0", {}, ["0:0", "0:1"]),
        ("0:1", {}, ["0:1"]),
        ("gpu-1-a, MIG-0-0-aaaa", {}, ["1", "0:0"]),
        ("1,1", {}, ["1"]),
        ("none", {}, []),
        (None, {"CUDA_VISIBLE_DEVICES": "2"}, ["2"]),
        (None, {"CUDA_VISIBLE_DEVICES": ""}, []),
        ("1", {"CUDA_VISIBLE_DEVICES": "2"}, ["1"]),
        (None, {"ROCR_VISIBLE_DEVICES": ""}, ["0:0", "0:1", "1", "2"]),
    ],
)
def test_devices_are_chosen_by_number_or_id(wanted, inherited, numbers):
    assert [device.number for device in chosen(THERE, wanted, inherited)] == numbers


def test_devices_that_no_driver_tells_of_are_named_by_number():
    assert [(one.number, one.vendor) for one in chosen([], "0,3", {})] == [("0", NAMED), ("3", NAMED)]
    with pytest.raises(UserError, match="--gpus: 'GPU-1' is no number"):
        chosen([], "GPU-1", {})


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(UserError, match=r"--gpus: there is no GPU '5'; this machine has 0:0, 0:1, 1, 2"):
        chosen(THERE, "1,5", {})


def test_devices_are_dealt_to_nodes_by_type_and_order():
    mixed = [_gpu(0, "t4"), _gpu(1), _gpu(2), _gpu(3, "t4")]
    dealt = deal([_node("any", 2), _node("fast", 1, "A100"), _node("none", 0), _node("rest", 1)], mixed)
    assert [[device.number for device in own] for own in dealt] == [["0", "3"], ["1"], [], ["2"]]
    with pytest.raises(UserError, match="node 'fast' has 3 gpu of type A100, but this machine has 2 left"):
        deal([_node("fast", 3, "A100")], mixed)


def test_a_type_that_no_driver_knows_is_the_users_own_word():
    assert [one.number for one in deal([_node("fast", 1, "quick")], [_gpu(0)])[0]] == ["0"]


def test_a_node_has_the_type_and_the_memory_of_its_devices():
    node = described(_node("n", 2), [_gpu(0), replace(_gpu(1), memory=40960)])
    assert (node.accelerator, node.labels) == ("a100", (("gpu-memory", "40"),))
    assert described(_node("n", 2), [_gpu(0), _gpu(1, "t4")]).accelerator == ""
    assert described(_node("n", 1, "mine"), [_gpu(0)]).accelerator == "mine"
    assert described(_node("n", 0), []) == _node("n", 0)


@pytest.mark.parametrize(
    ("given", "vendors", "told"),
    [
        ([_gpu(1), _gpu(3)], {NVIDIA}, {"CUDA_VISIBLE_DEVICES": "1,3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        ([], {NVIDIA}, {"CUDA_VISIBLE_DEVICES": "", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        (SLICES[:1], {NVIDIA}, {"CUDA_VISIBLE_DEVICES": "MIG-0-0-aaaa", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        ([_gpu(2, vendor=AMD)], {AMD}, {"ROCR_VISIBLE_DEVICES": "2", "HIP_VISIBLE_DEVICES": "0"}),
        ([], {AMD}, {"ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}),
        ([_gpu(2, vendor=NAMED)], {NAMED}, {"CUDA_VISIBLE_DEVICES": "2", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                                            "ROCR_VISIBLE_DEVICES": "2", "HIP_VISIBLE_DEVICES": "0"}),
        ([_gpu(0, vendor=AMD)], {AMD, NVIDIA}, {"CUDA_VISIBLE_DEVICES": "", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                                                "ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"}),
        ([], set(), {}),
    ],
)  # fmt: skip
def test_a_process_sees_what_it_was_given_and_nothing_else(given, vendors, told):
    assert visibility(given, vendors) == told


# ── who has which ───────────────────────────────────────────────────────────────────────────────────────────


class Machine:
    """A pool on devices whose readings the test sets."""

    def __init__(self, *by_node: list[Device], **more: object) -> None:
        self.readings = {device: Reading(device, 0.0, 0) for own in by_node for device in own}
        vendors = frozenset(device.vendor for device in self.readings)
        self.pool = DevicePool(Devices(tuple(map(tuple, by_node)), vendors, None, **more))  # type: ignore[arg-type]
        self.now = 0.0

    def look(self, shims: dict[int, Owner] | None = None) -> list[tuple[str, str]]:
        self.pool._take_in([reading for reading in self.readings.values() if reading], shims or {})
        self.now += 1.0
        return self.pool.step(shims or {}, self.now)

    def set(self, device: Device, **fields: object) -> None:
        self.readings[device] = replace(self.readings[device], **fields)  # type: ignore[arg-type]


def test_every_replica_gets_its_own_and_what_it_gives_back_is_free():
    pool = Machine([_gpu(0), _gpu(1)], [_gpu(2)]).pool
    first, second = pool.take("a", 0, 1, hide=True), pool.take("b", 0, 1, hide=True)
    assert [one.env["CUDA_VISIBLE_DEVICES"] for one in (first, second)] == ["0", "1"]
    with pytest.raises(BlockingIOError, match="0 of 1 GPUs"):
        pool.take("c", 0, 1, hide=True)
    assert pool.take("d", 1, 1, hide=True).devices == (_gpu(2),)
    first.give_back()
    first.give_back()
    assert pool.take("c", 0, 1, hide=True).devices == (_gpu(0),)


def test_devices_of_one_type_are_given_together():
    pool = Machine([_gpu(0, "t4"), _gpu(1), _gpu(2)]).pool
    assert [one.number for one in pool.take("a", 0, 2, hide=True).devices] == ["1", "2"]


def test_who_asks_for_none_sees_none_or_what_nobody_has():
    machine = Machine([_gpu(0), _gpu(1)])
    machine.pool.take("a", 0, 1, hide=True)
    assert machine.pool.take("names-cpu", 0, 0, hide=True).env["CUDA_VISIBLE_DEVICES"] == ""
    bare = machine.pool.take("bare", 0, 0, hide=False)
    assert (bare.env["CUDA_VISIBLE_DEVICES"], bare.blind) == ("1", False)
    machine.pool.take("b", 0, 1, hide=True)
    late = machine.pool.take("late", 0, 0, hide=False)
    assert (late.env["CUDA_VISIBLE_DEVICES"], late.blind) == ("", True)
    assert machine.look({7: Owner(JobId("late"), late)}) == [("late", BLIND)]


def test_a_lost_device_is_capacity_that_is_gone_until_it_is_back():
    machine = Machine([_gpu(0), _gpu(1)])
    grant = machine.pool.take("a", 0, 1, hide=True)
    assert machine.look() == []
    machine.set(_gpu(0), lost="GPU is lost")
    assert machine.look() == [], "a driver may fail to answer once"
    assert machine.look() == [(ABOUT_GPUS, "GPU 0 is lost: GPU is lost")]
    assert machine.pool.capacity(0) == 1
    assert machine.pool.lost(grant.devices) == "GPU 0 is lost: GPU is lost"
    grant.give_back()
    assert machine.pool.take("b", 0, 1, hide=True).devices == (_gpu(1),)
    machine.set(_gpu(0), lost="")
    assert machine.look() == [(ABOUT_GPUS, "GPU 0 can be given out again")]
    assert (machine.pool.capacity(0), machine.pool.lost(grant.devices)) == (2, "")


def test_a_device_of_which_the_driver_is_silent_is_lost():
    machine = Machine([_gpu(0)])
    machine.readings[_gpu(0)] = None
    assert machine.look() == [(ABOUT_GPUS, "GPU 0 is lost: its driver no longer tells of it")], "at the first look"
    machine.readings[_gpu(0)] = Reading(Device("", "0", NVIDIA, "0"), lost="GPU is lost")  # it has no id now
    assert machine.look() == [(ABOUT_GPUS, "GPU 0 is lost: GPU is lost")]


def test_a_device_that_a_foreign_process_uses_is_left_alone():
    machine = Machine([_gpu(0), _gpu(1)])
    machine.set(_gpu(0), pids=frozenset({os.getppid()}))
    [(about, told)] = machine.look()
    assert about == ABOUT_GPUS
    assert told.startswith(f"GPU 0 is left alone: process {os.getppid()} (")
    assert machine.pool.capacity(0) == 1
    assert machine.pool.take("a", 0, 1, hide=True).devices == (_gpu(1),)
    assert machine.look() == [], "it is told once"
    machine.set(_gpu(0), pids=frozenset())
    assert machine.look() == [(ABOUT_GPUS, "GPU 0 can be given out again")]


def test_a_device_in_foreign_use_is_given_out_where_that_is_asked_for():
    machine = Machine([_gpu(0)], busy=True)
    machine.set(_gpu(0), pids=frozenset({os.getppid()}))
    assert machine.look() == []
    assert machine.pool.take("a", 0, 1, hide=True).devices == (_gpu(0),)


def test_a_process_that_has_just_ended_is_not_foreign():
    """The driver may name it for a moment; one that was never seen alive counts when it is seen twice."""
    machine = Machine([_gpu(0)])
    child = subprocess.Popen(["sleep", "60"])
    grant = machine.pool.take("a", 0, 1, hide=True)
    shims = {os.getpid(): Owner(JobId("a"), grant)}
    machine.set(_gpu(0), pids=frozenset({child.pid}))
    assert machine.look(shims) == machine.look(shims) == []
    child.kill()
    child.wait()
    grant.give_back()
    assert machine.look() == machine.look() == []
    gone = subprocess.Popen(["true"])
    gone.wait()
    machine.set(_gpu(0), pids=frozenset({gone.pid}))
    assert machine.look() == []
    assert machine.look() == [
        (ABOUT_GPUS, f"GPU 0 is left alone: process {gone.pid} uses it (--busy-gpus gives it out)")
    ]


def test_a_job_that_uses_a_device_it_was_not_given_is_told_to_ask_for_it():
    machine = Machine([_gpu(0), _gpu(1)])
    bare = machine.pool.take("bare", 0, 0, hide=False)
    shims = {os.getpid(): Owner(JobId("bare"), bare)}
    assert machine.look(shims) == []
    machine.set(_gpu(0), pids=frozenset({os.getpid()}))
    assert machine.look(shims) == [("bare", "it uses GPU 0 and did not ask for it: write gpu: 1 into its job")]
    [(about, told)] = machine.look(shims)
    assert (about, told.split(" (")[0]) == (
        ABOUT_GPUS, "GPU 0 is left alone: job bare uses it and did not ask for it",
    )  # fmt: skip
    assert machine.pool.take("asks", 0, 1, hide=True).devices == (_gpu(1),)


def test_a_device_stays_locked_until_the_last_process_of_its_replica_has_ended(tmp_path):
    """As after kill -9 of Headway: another one finds it locked, and gives it out later."""
    first, second = Machine([_gpu(0)], locks=tmp_path), Machine([_gpu(0)], locks=tmp_path)
    grant = first.pool.take("a", 0, 1, hide=True)
    child = subprocess.Popen(["sleep", "60"], pass_fds=grant.locks)
    first.pool.close()  # its locks are closed; the child has them still
    assert second.look() == [(ABOUT_GPUS, "GPU 0 is left alone: processes of another run have it")]
    assert second.pool.capacity(0) == 0
    with pytest.raises(BlockingIOError):
        second.pool.take("b", 0, 1, hide=True)
    child.kill()
    child.wait()
    assert second.look() == [(ABOUT_GPUS, "GPU 0 can be given out again")]
    assert second.pool.take("b", 0, 1, hide=True).devices == (_gpu(0),)
    second.pool.close()
