"""What a real agent reads from a fake driver of 64 GPUs: each of five faults is named, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from msgspec import structs

from gpuwatch import wire
from tests.agent.running import RunningAgent, uuid_of
from tests.diagnose.simulated_jobs import GPUS, Odd
from tests.diagnose.straggler.watched import Watched
from tests.fake_nvml.build import FakeNvml, build
from tests.parts import need_compiler

THROTTLED, IDLE, SPINS, NARROW, ERRORS, WELL = 5, 17, 23, 31, 44, 60
SW_THERMAL, NVLINK_REPLAYS = 0x20, 161
FAULTS = (
    f"set {THROTTLED} sm_clock 1230", f"set {THROTTLED} reasons {SW_THERMAL}",
    f"set {IDLE} utilization 0", f"set {IDLE} power_mw 140000",
    f"set {SPINS} power_mw 140000",
    f"set {NARROW} pcie_width 8",
    f"raw {ERRORS} {NVLINK_REPLAYS} 3",
)  # fmt: skip
WORKING = (
    "gpus 64", "set * utilization 99", "set * power_mw 600000", "set * sm_clock 1755", "set * temperature 60",
    "set * reasons 0", *(f"raw * {field} 0" for field in (74, 138, 139, 197, 198)),
)  # fmt: skip


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[wire.GpuSample]]:
    """All three tiers of all 64 GPUs, as the agent reported them."""
    need_compiler()
    folder = tmp_path_factory.mktemp("fake")
    driver = FakeNvml(build(folder / "nvml"), folder / "work")
    driver.set(*FAULTS, *WORKING)
    agent = RunningAgent(driver.env(), interval_s=1.0)
    try:
        yield agent.until(whole, "sample of every tier of every GPU")
    finally:
        agent.end()


def whole(frames: Sequence[wire.AnyFrame]) -> list[wire.GpuSample] | None:
    """The newest of each tier of each GPU, once there are all of them."""
    found: dict[str, wire.GpuSample] = {}
    for frame in frames:
        for one in frame.gpus if isinstance(frame, wire.Sample) else ():
            before = found.get(one.uuid, one)  # the state is that of the newest sample
            tiers = {name: getattr(one, name) or getattr(before, name) for name in ("fast", "medium", "slow")}
            found[one.uuid] = structs.replace(one, **tiers)
    reported = [found.get(uuid_of(index)) for index in range(64)]
    ready = [one for one in reported if one is not None and complete(one)]
    return ready if len(ready) == 64 else None


def complete(reported: wire.GpuSample) -> bool:
    """Rates and shares need two readings of a counter."""
    fast, slow = reported.fast, reported.slow
    if not (reported.medium and fast and slow and slow.nvlink_errors):
        return False
    rates = (fast.power_w, fast.throttle_pct, fast.utilization_pct, fast.sm_clock_mhz, fast.temperature_c)
    return all(value is not None for value in (*rates, fast.tensor_activity_pct, fast.sm_activity_pct))


def shows(reported: wire.GpuSample) -> Odd:
    """A GPU shows what was read of another one."""

    def make(sample: wire.GpuSample) -> wire.GpuSample:
        assert sample.fast is not None
        t = sample.fast.t
        tiers = {name: structs.replace(getattr(reported, name), t=t) for name in ("fast", "medium", "slow")}
        return structs.replace(reported, uuid=sample.uuid, **tiers)

    return make


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("faulty", "code"),
    [
        (THROTTLED, "slower_than_peers"),
        (IDLE, "slower_than_peers"),
        (SPINS, "spins_alone"),
        (NARROW, "pcie_degraded"),
        (ERRORS, "nvlink_errors"),
    ],
)
def test_each_fault_names_its_gpu_alone(readings: list[wire.GpuSample], faulty: int, code: str) -> None:
    cluster = Watched(odd=shows(readings[WELL]))
    assert cluster.reported == []
    cluster.odd[cluster.places[faulty].uuid] = shows(readings[faulty])
    cluster.run(90)
    named = {(each.code, each.node, each.gpu) for each in cluster.book.alerts.values()}
    assert named == {(code, f"gpu-{faulty // GPUS:03d}", faulty % GPUS)}
