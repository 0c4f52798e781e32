"""What a node has, reported by a fake driver and by this machine's kernel."""

from __future__ import annotations

import getpass
import os
import subprocess
from pathlib import Path

import pytest

from gpuwatch.probe.launcher.inventory import inventory
from gpuwatch.probe.protocol import Count, Counters, InventoryGpu, NodeInventory
from tests.agent.running import uuid_of
from tests.fake_nvml.build import FakeNvml
from tests.parts import need
from tests.probe.launcher.driving import STUB, Driven, dial
from tests.sentences import Sentences


def node(fake: FakeNvml) -> Driven:
    """A launcher on a node with these GPUs."""
    names = ("LD_LIBRARY_PATH", "FAKE_NVML_CONTROL", "FAKE_NVML_COUNTS")
    source = Path(inventory.__file__).read_text()
    quick = {**STUB, inventory.__name__: source.replace("NVML_S = 12.0", "NVML_S = 3.0")}
    return Driven(dial({name: fake.env()[name] for name in names}), modules=quick, proc="/proc")


def by_index(found: NodeInventory) -> dict[int, InventoryGpu]:
    return {gpu.index: gpu for gpu in found.gpus}


def test_gpus_are_reported_with_those_who_hold_them(fake: FakeNvml) -> None:
    fake.set(
        f"process 2 {os.getpid()} 4096 compute 50",
        "set 2 memory_used 5000000",
        "process 3 999999 77 compute 1",
    )
    with node(fake) as driven:
        gpus = by_index(driven.inventory())
    assert sorted(gpus) == list(range(8))
    assert (gpus[0].uuid, gpus[0].users) == (uuid_of(0), [])
    assert gpus[0].name is not None and gpus[0].bus_id is not None and gpus[0].memory_total_bytes
    (user,) = gpus[2].users
    assert (user.pid, user.user, user.memory_bytes) == (os.getpid(), getpass.getuser(), 4096)
    assert user.name not in (None, "?")
    assert gpus[2].memory_used_bytes == 5000000
    (unseen,) = gpus[3].users
    assert (unseen.pid, unseen.name) == (999999, None)


def test_a_gpu_that_hangs_or_is_lost_is_noted_and_the_others_are_reported(
    fake: FakeNvml, sentences: Sentences
) -> None:
    fake.set("hang 3 nvmlDeviceGetUUID", "error 5 15 *")
    with node(fake) as driven:
        found = driven.inventory()
        assert sorted(by_index(found)) == [0, 1, 2, 4, 6, 7]
        sentences(found.notes)
        driven.send(Count())
        values = driven.until(Counters).values
        assert {name.split(":")[1] for name in values if "GPU-" in name} == {
            uuid_of(index) for index in by_index(found)
        }


@pytest.mark.usefixtures("played_torch")
def test_nvml_that_hangs_altogether_is_noted(fake: FakeNvml, sentences: Sentences) -> None:
    fake.set("hang - nvmlInitWithFlags")
    with node(fake) as driven:
        found = driven.inventory()
    assert found.gpus == []
    sentences(found.notes)
    assert found.torch is not None


def test_a_driver_in_trouble_is_noted_in_words(fake: FakeNvml) -> None:
    fake.set("error - 18 nvmlInitWithFlags")
    with node(fake) as driven:
        (note,) = driven.inventory().notes
    assert "different versions" in note


def counted(driven: Driven) -> Counters:
    """What the node counts now."""
    known = {id(message) for message in driven.message}
    driven.send(Count())
    return driven.until(Counters, lambda message: id(message) not in known)


def test_the_counters_of_gpus_advance(fake: FakeNvml) -> None:
    fake.set("gpus 1")
    with node(fake) as driven:
        first = counted(driven)
        name = f"nvlink:{uuid_of(0)}:replay"
        assert name in first.values
        assert {f"=pcie:{uuid_of(0)}:gen", f"=pcie:{uuid_of(0)}:width"} <= set(first.values)
        fake.add("raw 0 52 424242", "raw 0 161 424242")
        # the fake looks at its settings only now and then
        assert any(counted(driven).values[name] > first.values[name] for _ in range(1000))


def test_addresses_are_those_of_ip() -> None:
    shown = subprocess.run([need("ip"), "-o", "addr"], capture_output=True, text=True, check=True).stdout
    theirs = {
        (fields[1], fields[3])
        for fields in (line.split() for line in shown.splitlines())
        if "link" not in fields[5:6] and not fields[3].startswith("fe80")
    }
    with Driven() as driven:
        ours = {(nic.name, f"{nic.address}/{nic.prefix}") for nic in driven.inventory().nics}
    assert ours == {(name.partition("@")[0], address) for name, address in theirs}
