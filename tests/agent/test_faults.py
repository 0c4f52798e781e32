"""GPUs that hang, vanish or refuse: the others never notice, and the sick one says what is wrong."""

from __future__ import annotations

import pytest

from gpuwatch.wire import GpuSample, Ping, Sample
from tests.agent.conftest import Start
from tests.agent.running import RunningAgent, uuid_of
from tests.fake_nvml.build import FakeNvml


def ok(sample: GpuSample) -> bool:
    return sample.state == "ok" and sample.fast is not None


def test_a_hung_gpu_says_in_which_call_while_the_others_stay_fresh(start: Start, fake: FakeNvml) -> None:
    agent = start()
    agent.gpu(3, ok)
    fake.set("hang 3 nvmlDeviceGetTemperature")
    stuck = agent.gpu(3, lambda g: g.state == "stuck")
    assert stuck.stuck_in == "nvmlDeviceGetTemperature" and stuck.fast is None
    assert stuck.stuck_s is not None and stuck.stuck_s >= 1.5
    event = agent.event("gpu_stuck")
    assert (event.gpu, event.severity) == (
        uuid_of(3),
        "critical",
    ) and "nvmlDeviceGetTemperature" in event.title

    seen = len(agent.frames)
    longer = agent.gpu(3, lambda g: (g.stuck_s or 0) > (stuck.stuck_s or 0) + 1, seen)
    assert longer.stuck_in == stuck.stuck_in
    ticks = [f for f in agent.frames[seen:] if isinstance(f, Sample)]
    fresh = [sum(1 for f in ticks for g in f.gpus if g.uuid == uuid_of(i) and ok(g)) for i in range(8)]
    assert fresh[3] == 0
    assert all(fresh[i] >= len(ticks) - 1 for i in range(8) if i != 3)
    agent.send(Ping(id=9))
    assert agent.reply(9).error is None

    fake.set()
    agent.event("gpu_unstuck")
    assert agent.gpu(3, ok, len(agent.frames)).stuck_in is None


def test_a_process_list_that_hangs_is_said_to_be_partial(start: Start, fake: FakeNvml) -> None:
    fake.set("hang 6 nvmlDeviceGetComputeRunningProcesses_v3")
    ranks = start().ranks(lambda r: r.partial is not None)
    assert ranks.partial is not None
    assert "GPU 6" in ranks.partial and "nvmlDeviceGetComputeRunningProcesses_v3" in ranks.partial


def test_the_agent_leaves_although_a_gpu_hangs(start: Start, fake: FakeNvml) -> None:
    agent = start()
    agent.gpu(0, ok)
    fake.set("hang * nvmlDeviceGetUtilizationRates")
    agent.gpu(0, lambda g: g.state == "stuck")
    agent.stdin.close()
    assert agent.wait() == 0


def test_a_gpu_that_hangs_before_it_said_who_it_is(start: Start, fake: FakeNvml) -> None:
    fake.set("hang 5 nvmlDeviceGetUUID")
    agent = start()
    hello = agent.hello(lambda h: any(n.code == "gpu_silent" for n in h.notices))
    assert [gpu.index for gpu in hello.gpus] == [0, 1, 2, 3, 4, 6, 7]
    assert any("GPU 5" in n.text and "nvmlDeviceGetUUID" in n.text for n in hello.notices)
    fake.set()
    assert len(agent.hello(lambda h: len(h.gpus) == 8).gpus) == 8


@pytest.mark.parametrize(
    ("code", "words"),
    [(15, "GPU is lost"), (14, "Corrupted infoROM"), (16, "GPU requires restart"), (28, "GPU not found")],
)
def test_a_lost_gpu_stays_as_lost_and_can_come_back(
    start: Start, fake: FakeNvml, code: int, words: str
) -> None:
    agent = start()
    agent.gpu(2, ok)
    fake.set(f"error 2 {code} *")
    assert agent.gpu(2, lambda g: g.state == "lost").reason == words
    event = agent.event("gpu_lost")
    assert (event.gpu, event.severity, event.source) == (uuid_of(2), "critical", "nvml")
    assert event.detail is not None and str(code) in event.detail
    assert ok(agent.gpu(1, ok, len(agent.frames)))
    fake.set()
    assert agent.event("gpu_back").gpu == uuid_of(2)
    assert ok(agent.gpu(2, ok, len(agent.frames)))


def test_a_gpu_lost_before_we_came_is_named_by_its_index(start: Start, fake: FakeNvml) -> None:
    fake.set("error 7 15 *")
    hello = start().hello(lambda h: any(n.code == "gpu_missing" for n in h.notices))
    assert len(hello.gpus) == 7
    assert any("GPU 7" in n.text and "GPU is lost" in n.text for n in hello.notices)


@pytest.mark.parametrize("code", [3, 13, 25, 26])
def test_what_is_not_supported_is_asked_once_and_never_again(start: Start, fake: FakeNvml, code: int) -> None:
    fake.set(f"error 1 {code} nvmlDeviceGetClockInfo")
    agent = start()
    sample = agent.gpu(1, lambda g: g.fast is not None)
    assert (
        sample.fast is not None
        and sample.fast.sm_clock_mhz is None
        and sample.fast.utilization_pct is not None
    )
    said = agent.gpu(1, lambda g: g.missing is not None and "sm_clock_mhz" in g.missing).missing
    assert said is not None and said["sm_clock_mhz"] == "not_supported"
    ticks(agent, 12)
    # once for the SM clock, once for the memory clock
    assert fake.calls()["nvmlDeviceGetClockInfo"][1] == 2
    assert fake.calls()["nvmlDeviceGetClockInfo"][0] >= 12


def test_what_is_not_permitted_is_told_as_that(start: Start, fake: FakeNvml) -> None:
    fake.set("error 1 4 nvmlGpmSampleGet")
    missing = start().gpu(1, lambda g: bool(g.missing) and "tensor_activity_pct" in (g.missing or {})).missing
    assert missing is not None and missing["tensor_activity_pct"] == "no_permission"


@pytest.mark.parametrize("code", [6, 10, 21, 27])
def test_no_data_now_is_no_sample_and_no_complaint(start: Start, fake: FakeNvml, code: int) -> None:
    agent = start()
    agent.gpu(4, lambda g: g.fast is not None and g.fast.utilization_pct is not None)
    fake.set(f"error 4 {code} nvmlDeviceGetUtilizationRates")
    gone = agent.gpu(4, lambda g: g.fast is not None and g.fast.utilization_pct is None, len(agent.frames))
    assert gone.state == "ok" and gone.fast is not None and gone.fast.sm_clock_mhz is not None
    fake.set()
    back = agent.gpu(
        4, lambda g: g.fast is not None and g.fast.utilization_pct is not None, len(agent.frames)
    )
    assert not back.missing or "utilization_pct" not in back.missing


@pytest.mark.parametrize("code", [2, 999])
def test_an_unknown_error_is_tried_twice_and_then_left_out(start: Start, fake: FakeNvml, code: int) -> None:
    fake.set(f"error 0 {code} nvmlDeviceGetPerformanceState")
    agent = start()
    medium = agent.gpu(0, lambda g: g.medium is not None).medium
    assert medium is not None and medium.performance_state is None and medium.memory_clock_mhz == 2619
    missing = agent.gpu(0, lambda g: bool(g.missing) and "performance_state" in (g.missing or {})).missing
    assert missing is not None and missing["performance_state"] == f"error {code}"
    assert fake.calls()["nvmlDeviceGetPerformanceState"][0] % 2 == 0


def test_each_field_has_its_own_return_code(start: Start, fake: FakeNvml) -> None:
    fake.set("field 3 82 3", "field 3 186 3", "field 3 83 999", "set 3 power_mw 300000")
    agent = start()
    agent.gpu(3, ok)
    fast = agent.gpu(3, lambda g: ok(g) and g.fast is not None and g.fast.power_w is not None).fast
    assert fast is not None and fast.power_w == 300.0  # the average stands in for the instant
    assert fast.memory_temperature_c is None and fast.energy_j is None and fast.nvlink_tx_bps is not None
    missing = agent.gpu(3, lambda g: bool(g.missing) and "energy_j" in (g.missing or {})).missing
    assert missing is not None
    assert (missing["memory_temperature_c"], missing["energy_j"]) == ("not_supported", "error 999")


def ticks(agent: RunningAgent, n: int) -> None:
    """Wait for so many more samples."""
    seen = len(agent.frames)
    agent.until(lambda frames: sum(isinstance(f, Sample) for f in frames) >= n, f"{n} ticks", seen)
