"""Kinds of nodes: sick drivers, no driver, old drivers, MIG, GB10. Host metrics go on in all of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.agent.conftest import Start
from tests.agent.running import lists
from tests.fake_nvml.build import FakeNvml


@pytest.mark.parametrize(
    ("code", "notice", "remedy"),
    [(18, "driver_mismatch", "Reboot"), (999, "nvml_error", "nvidia-smi")],
)
def test_a_driver_that_does_not_start_is_a_notice_with_the_remedy(
    start: Start, fake: FakeNvml, code: int, notice: str, remedy: str
) -> None:
    fake.set(f"error - {code} nvmlInitWithFlags")
    agent = start()
    hello = agent.hello(lambda h: any(n.code == notice for n in h.notices))
    found = next(n for n in hello.notices if n.code == notice)
    assert hello.gpus == [] and found.severity == "critical" and remedy in (found.remedy or "")
    assert agent.sample(lambda s: s.host is not None and s.host.cpu_pct is not None).gpus == []


def test_a_machine_without_gpu_is_a_plain_sentence(start: Start, fake: FakeNvml) -> None:
    """Without an NVIDIA device on the bus, a driver that is not loaded is nothing to complain of."""
    fake.set("error - 9 nvmlInitWithFlags")
    agent = start()
    hello = agent.hello(lambda h: any(n.code in ("no_gpu", "driver_not_loaded") for n in h.notices))
    expected = (
        "driver_not_loaded"
        if hello.gpus_expected or Path("/proc/driver/nvidia/version").exists()
        else "no_gpu"
    )
    assert any(n.code == expected for n in hello.notices)
    assert agent.sample(lambda s: s.host is not None and s.host.memory_total_bytes is not None).gpus == []


def test_no_library_at_all(start: Start, tmp_path: Path) -> None:
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    hello = start(env=env).hello(lambda h: any(n.code in ("no_gpu", "library_missing") for n in h.notices))
    assert hello.gpus == []


def test_a_driver_that_lists_no_gpu(start: Start, fake: FakeNvml) -> None:
    fake.set("gpus 0")
    hello = start().hello(lambda h: any(n.code == "no_gpu" for n in h.notices))
    assert hello.gpus == [] and hello.driver == "550.54.15"


def test_an_init_that_hangs_holds_up_nothing_but_the_gpus(start: Start, fake: FakeNvml) -> None:
    fake.set("hang - nvmlInitWithFlags")
    agent = start()
    hello = agent.hello(lambda h: any(n.code == "nvml_starting" for n in h.notices))
    assert hello.gpus == [] and any("nvmlInitWithFlags" in n.text for n in hello.notices)
    assert agent.sample(lambda s: s.host is not None and s.host.cpu_pct is not None).host is not None
    fake.set()
    after = agent.hello(lists(8))
    assert not any(n.code == "nvml_starting" for n in after.notices)


def test_mig_instances_have_their_own_memory(start: Start, fake: FakeNvml) -> None:
    fake.set("gpus 2", "mig 1 3")
    agent = start()
    assert [gpu.mig_enabled for gpu in agent.hello(lists(2)).gpus] == [False, True]
    slow = agent.gpu(1, lambda g: g.slow is not None).slow
    assert slow is not None and slow.mig is not None
    assert [(one.index, one.profile) for one in slow.mig] == [(0, "1g.10gb"), (1, "1g.10gb"), (2, "1g.10gb")]
    assert {one.memory_total_bytes for one in slow.mig} == {10 << 30}
    assert len({one.uuid for one in slow.mig}) == 3
    fast = agent.gpu(1, lambda g: g.fast is not None).fast
    assert fast is not None and fast.utilization_pct is None and fast.memory_used_bytes is not None


@pytest.mark.parametrize("mode", [1, 2])
def test_unified_memory_is_the_hosts(start: Start, fake: FakeNvml, mode: int) -> None:
    fake.set("gpus 1", f"unified {mode}", "no_gpm 1")
    agent = start()
    gpu = agent.hello(lists(1)).gpus[0]
    assert (gpu.name, gpu.unified_memory, gpu.memory_total_bytes, gpu.gpm) == (
        "NVIDIA GB10",
        True,
        None,
        False,
    )
    fast = agent.gpu(0, lambda g: g.fast is not None and g.fast.memory_total_bytes is not None).fast
    host = agent.sample(lambda s: s.host is not None).host
    assert fast is not None and host is not None
    assert fast.memory_total_bytes == host.memory_total_bytes and fast.memory_used_bytes


def test_an_old_driver_without_the_newer_symbols(start: Start, old_library: Path, tmp_path: Path) -> None:
    old = FakeNvml(old_library, tmp_path / "old")
    holder = f"process 0 {os.getpid()} 4096 compute 12"
    old.set("gpus 2", "driver 470.82.01", holder, "set 0 memory_used 1073741824",
            "set 0 power_mw 250000")  # fmt: skip
    agent = start(old)
    fast = agent.gpu(0, lambda g: g.fast is not None and g.fast.throttle is not None).fast
    assert fast is not None and fast.throttle == ["power_cap"]  # by the older name of the call
    assert fast.memory_used_bytes == 2 << 30  # the older query counts the reserved part as used
    assert fast.memory_reserved_bytes is None and fast.sm_activity_pct is None
    assert agent.hello(lists(2)).gpus[0].gpm is False
    ranks = agent.ranks(lambda r: any(p.gpus for p in r.processes))
    hold = next(p for p in ranks.processes if p.pid == os.getpid()).gpus[0]
    assert (hold.memory_bytes, hold.sm_pct) == (4096, 12)
