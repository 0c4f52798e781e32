"""A key frame holds what counts of everything before it, in few records; a seek applies each thing once."""

from __future__ import annotations

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.recording.latest_records import MAX_GPUS, LatestRecords
from gpuwatch.link.recording.playback.seek_records import thinned
from gpuwatch.link.recording.records import StreamRecord, content, record
from gpuwatch.link.recording.tee import MICRO
from gpuwatch.link.stream.inbox import Arrival, Content
from gpuwatch.wire import GpuFast, GpuInfo, GpuMedium, GpuSample, GpuSlow, Hello, Progress, Sample

UUIDS = ("GPU-a", "GPU-b")


def hello() -> Hello:
    gpus = [GpuInfo(uuid, index=n, name="H100") for n, uuid in enumerate(UUIDS)]
    return Hello(t=0.0, seq=0, host="n1", agent="1", python="3", pid=1, interval_s=1.0, gpus=gpus)


def sample(t: float, **of_b: object) -> Sample:
    first = GpuSample(UUIDS[0], fast=GpuFast(t=t, power_w=100.0 + t))
    return Sample(t=t, seq=int(t), gpus=[first, GpuSample(UUIDS[1], **of_b)])  # type: ignore[arg-type]


def step(t: float, rank: int, pid: int | None = None) -> Progress:
    return Progress(
        t=t,
        seq=0,
        file="/train.log",
        offset=int(t),
        at=t,
        dialect="x",
        rank=rank,
        pid=pid,
        fields={"step": t},
    )


def recorded(*contents: Content) -> list[StreamRecord]:
    return [record(round(getattr(what, "t", 0.0) * MICRO), 1, what, 0.0) for what in contents]


def latest(*contents: Content) -> LatestRecords:
    kept = LatestRecords()
    for one, what in zip(recorded(*contents), contents, strict=True):
        kept.take(one, what)
    return kept


def shown(records: list[StreamRecord]) -> Fleet:
    fleet = Fleet(Plan(nodes=(NodeSpec("n1"),), source="n1"))
    for one in records:
        fleet.apply(Arrival("n1", one.at / MICRO, content(one)))
    return fleet


def test_a_key_frame_has_one_sample_with_the_parts_of_all_before_it() -> None:
    arrived = (
        hello(),
        sample(1.0, slow=GpuSlow(1.0, pcie_replays=7), missing={"power_w": "not_supported"}),
        sample(2.0, medium=GpuMedium(2.0, power_limit_w=700.0)),
        sample(3.0, fast=GpuFast(t=3.0, power_w=50.0)),
        sample(4.0, state="lost", reason="GPU is lost"),
    )
    records = latest(*arrived).records()
    assert [one.kind for one in records] == ["hello", "sample"]
    seen, all_seen = shown(records).nodes["n1"].gpus, shown(recorded(*arrived)).nodes["n1"].gpus
    for uuid in UUIDS:
        for name in (
            "state",
            "reason",
            "fast",
            "fast_at",
            "medium",
            "medium_at",
            "slow",
            "slow_at",
            "missing",
        ):
            assert getattr(seen[uuid], name) == getattr(all_seen[uuid], name), (uuid, name)


def test_gpus_that_are_named_anew_each_second_take_no_more_memory() -> None:
    kept = LatestRecords()
    for number in range(2 * MAX_GPUS):
        what = Sample(t=1.0, seq=number, gpus=[GpuSample(f"GPU-{number}")])
        kept.take(record(number, 1, what, 0.0), what)
    assert len(kept.records()) <= MAX_GPUS


def test_a_seek_applies_the_last_steps_of_each_writer_once() -> None:
    key_frame = latest(*(step(t, rank) for t in (1.0, 2.0) for rank in (0, 1)), step(2.0, 0, pid=9)).records()
    behind = recorded(step(3.0, 0), step(4.0, 0), step(5.0, 0), step(4.0, 1))
    kept = thinned(key_frame, behind, 5 * MICRO)
    steps = [(what.rank, what.pid, what.t) for what in map(content, kept) if isinstance(what, Progress)]
    assert set(steps) == {(0, 9, 2.0), (0, None, 4.0), (0, None, 5.0), (1, None, 2.0), (1, None, 4.0)}
    assert len(steps) == 5
