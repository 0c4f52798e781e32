"""GPUs that hang, vanish or refuse: the others never notice, and the sick one says what is wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from gpuwatch.wire import AnyFrame, GpuSample, Hello, Ping, Sample
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
    assert stuck.stuck_s is not None and stuck.stuck_s >= 1.0
    event = agent.event("gpu_stuck", gpu=3)
    assert event.severity == "critical" and "nvmlDeviceGetTemperature" in event.title

    seen = len(agent.frames)
    longer = agent.gpu(3, lambda g: (g.stuck_s or 0) > (stuck.stuck_s or 0) + 0.5, seen)
    assert longer.stuck_in == stuck.stuck_in
    for index in (0, 1, 2, 4, 5, 6, 7):
        agent.until(lambda fs, i=index: sum(map(ok, samples_of(i, fs))) >= 2, f"values of GPU {index}", seen)  # type: ignore[misc]
    assert not any(map(ok, samples_of(3, agent.frames[seen:])))
    agent.send(Ping(id=9))
    assert agent.reply(9).error is None

    released = time.time()
    fake.set()
    agent.event("gpu_unstuck", gpu=3)
    first = agent.until(lambda fs: next((g for g in samples_of(3, fs) if g.fast), None), "fresh sample", seen)
    assert first.stuck_in is None and first.fast is not None
    assert first.fast.t >= released  # what was read before and while it hung is thrown away
    assert first.fast.nvlink_tx_bps is None or first.fast.tensor_activity_pct is None  # no mean over the hang


def test_a_process_list_that_hangs_is_reported_as_partial(start: Start, fake: FakeNvml) -> None:
    fake.set("hang 6 nvmlDeviceGetComputeRunningProcesses_v3")
    ranks = start().ranks(lambda r: "_v3" in (r.partial or ""))
    assert ranks.partial is not None
    assert "GPU 6" in ranks.partial and "nvmlDeviceGetComputeRunningProcesses_v3" in ranks.partial


def test_the_agent_leaves_although_a_gpu_hangs(start: Start, fake: FakeNvml) -> None:
    agent = start()
    agent.gpu(0, ok)
    fake.set("hang * nvmlDeviceGetUtilizationRates")
    agent.gpu(0, lambda g: g.state == "stuck")
    agent.stdin.close()
    assert agent.wait() == 0


def of_index(frames: Sequence[AnyFrame], index: int) -> list[GpuSample]:
    """Every sample of the GPU that each hello in force lists at an index."""
    uuid, found = "", []
    for frame in frames:
        if isinstance(frame, Hello):
            uuid = next((gpu.uuid for gpu in frame.gpus if gpu.index == index), "")
        elif isinstance(frame, Sample):
            found += [one for one in frame.gpus if one.uuid == uuid]
    return found


def test_a_gpu_that_hangs_before_it_is_identified_is_listed_from_the_first_frame(
    start: Start, fake: FakeNvml
) -> None:
    fake.set("hang 5 nvmlDeviceGetUUID")
    agent = start()
    first = agent.hello(lambda h: bool(h.gpus))
    assert [gpu.index for gpu in first.gpus] == list(range(8)) and not first.gpus[5].identified
    hello = agent.hello(lambda h: sum(gpu.identified for gpu in h.gpus) == 7)
    assert [(gpu.index, gpu.identified) for gpu in hello.gpus] == [(i, i != 5) for i in range(8)]
    stuck = agent.until(lambda fs: [one for one in of_index(fs, 5) if one.state == "stuck"], "stuck GPU 5")
    assert stuck[0].stuck_in == "nvmlDeviceGetUUID"
    reported = of_index(agent.frames, 5)
    assert reported[0].state in ("unanswered", "stuck")  # the first frame may precede the call
    assert all(one.fast is None for one in reported)
    assert agent.ranks(lambda r: r.partial is not None and "GPU 5" in r.partial)
    fake.set()
    after = agent.hello(lambda h: bool(h.gpus) and all(gpu.identified for gpu in h.gpus))
    assert len(after.gpus) == 8
    agent.gpu(5, ok)


def test_a_cold_driver_is_not_stuck_before_any_gpu_has_answered(start: Start, fake: FakeNvml) -> None:
    fake.set("hang * nvmlDeviceGetHandleByIndex_v2")
    agent = start(stuck_s=2.0, cold_s=60.0)
    agent.until(lambda fs: [one for one in of_index(fs, 0) if (one.stuck_s or 0) > 3.0], "waiting GPU 0")
    fake.set("hang 3 nvmlDeviceGetHandleByIndex_v2")
    agent.until(lambda fs: [one for one in of_index(fs, 3) if one.state == "stuck"], "stuck GPU 3")
    assert {one.state for one in of_index(agent.frames, 0)} == {"unanswered", "ok"}
    assert [event.event for event in agent.events() if event.event == "gpu_stuck"] == ["gpu_stuck"]


LOST = {2: (15, "GPU is lost"), 3: (14, "Corrupted infoROM"), 4: (16, "GPU requires restart"),
        5: (28, "GPU not found")}  # fmt: skip


def test_lost_gpus_stay_as_lost_and_can_come_back(start: Start, fake: FakeNvml) -> None:
    agent = start()
    for index in LOST:
        agent.gpu(index, ok)
    fake.set(*[f"error {index} {code} *" for index, (code, _) in LOST.items()])
    for index, (code, words) in LOST.items():
        assert agent.gpu(index, lambda g: g.state == "lost").reason == words
        event = agent.event("gpu_lost", gpu=index)
        assert (event.severity, event.source) == ("critical", "nvml")
        assert event.detail is not None and str(code) in event.detail
    assert ok(agent.gpu(1, ok, len(agent.frames)))
    fake.set()
    for index in LOST:
        agent.event("gpu_back", gpu=index)
        assert ok(agent.gpu(index, ok, len(agent.frames)))


def test_a_gpu_lost_before_we_came_is_named_by_its_index(start: Start, fake: FakeNvml) -> None:
    fake.set("error 7 15 *")
    agent = start()
    assert [gpu.index for gpu in agent.hello(lambda h: bool(h.gpus)).gpus] == list(range(8))
    reported = agent.until(lambda fs: [one for one in of_index(fs, 7) if one.state == "lost"], "lost GPU 7")
    assert reported[0].reason == "GPU is lost"


def test_what_is_not_supported_is_asked_once_and_never_again(start: Start, fake: FakeNvml) -> None:
    codes = {1: 3, 2: 13, 3: 25, 4: 26}
    fake.set(*[f"error {index} {code} nvmlDeviceGetClockInfo" for index, code in codes.items()])
    agent = start()
    for index in codes:
        fast = agent.gpu(index, lambda g: g.fast is not None).fast
        assert fast is not None and fast.sm_clock_mhz is None and fast.utilization_pct is not None
        stated = agent.gpu(index, lambda g: g.missing is not None and "sm_clock_mhz" in g.missing).missing
        assert stated is not None and stated["sm_clock_mhz"] == "not_supported"
    agent.gpu(4, lambda g: g.medium is not None)
    ticks(agent, 4)
    calls = fake.calls()["nvmlDeviceGetClockInfo"]
    # once for the SM clock, once for the memory clock
    assert [calls[index] for index in codes] == [2] * 4 and calls[0] > 4


def test_what_is_not_permitted_is_reported_as_that(start: Start, fake: FakeNvml) -> None:
    fake.set("error 1 4 nvmlGpmSampleGet")
    missing = start().gpu(1, lambda g: bool(g.missing) and "tensor_activity_pct" in (g.missing or {})).missing
    assert missing is not None and missing["tensor_activity_pct"] == "no_permission"


def test_no_data_now_is_no_sample_and_no_complaint(start: Start, fake: FakeNvml) -> None:
    agent, codes = start(), {4: 6, 5: 10, 6: 21, 7: 27}
    for index in codes:
        agent.gpu(index, lambda g: g.fast is not None and g.fast.utilization_pct is not None)
    fake.set(*[f"error {index} {code} nvmlDeviceGetUtilizationRates" for index, code in codes.items()])
    seen = len(agent.frames)
    for index in codes:
        gone = agent.gpu(index, lambda g: g.fast is not None and g.fast.utilization_pct is None, seen)
        assert gone.state == "ok" and gone.fast is not None and gone.fast.sm_clock_mhz is not None
    fake.set()
    seen = len(agent.frames)
    for index in codes:
        back = agent.gpu(index, lambda g: g.fast is not None and g.fast.utilization_pct is not None, seen)
        assert not back.missing or "utilization_pct" not in back.missing


def test_an_unknown_error_is_tried_twice_and_then_left_out(start: Start, fake: FakeNvml) -> None:
    fake.set("error 0 2 nvmlDeviceGetPerformanceState", "error 1 999 nvmlDeviceGetPerformanceState")
    agent = start()
    for index, code in ((0, 2), (1, 999)):
        medium = agent.gpu(index, lambda g: g.medium is not None).medium
        assert medium is not None
        assert medium.performance_state is None and medium.memory_clock_mhz == 2619
        stated = agent.gpu(
            index, lambda g: bool(g.missing) and "performance_state" in (g.missing or {})
        ).missing
        assert stated is not None and stated["performance_state"] == f"error {code}"
    agent.stdin.close()
    agent.wait()
    assert all(fake.calls()["nvmlDeviceGetPerformanceState"][index] % 2 == 0 for index in (0, 1))


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


def samples_of(index: int, frames: Sequence[AnyFrame]) -> Iterator[GpuSample]:
    return (g for f in frames if isinstance(f, Sample) for g in f.gpus if g.uuid == uuid_of(index))


def ticks(agent: RunningAgent, n: int) -> None:
    """Wait for so many more samples."""
    seen = len(agent.frames)
    agent.until(lambda frames: sum(isinstance(f, Sample) for f in frames) >= n, f"{n} ticks", seen)
