"""`dmon --json` and `once --json`: samples, steps and jobs come once each, with every key."""

from __future__ import annotations

import json

import msgspec

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.report.dmon.json_stream import EMPTY_STEP, JsonStream, Row
from gpuwatch.report.once.jobs import training_facts
from gpuwatch.rules.load import load_packs
from gpuwatch.wire import Progress, Ranks
from tests.report.fleets import NODE_TIME, START, feed, healthy_fleet, process

BOOK = AlertBook(load_packs(()), Thresholds())


def rows_of(stream: JsonStream, fleet: object, now: float) -> list[Row]:
    rows = list(stream.rows(fleet, BOOK, now, NODE_TIME))  # type: ignore[arg-type]
    return [json.loads(json.dumps(row, allow_nan=False)) for row in rows]


def step(number: int, loss: float | str, at: float) -> Progress:
    fields = {"step": number, "total_steps": 9, "loss": loss, "step_time_s": 0.5, "samples_per_s": 8.0}
    return msgspec.convert(
        {"t": at, "seq": number, "kind": "progress", "file": "/r0.log", "offset": number, "at": at, "rank": 0}
        | {"dialect": "kv", "fields": fields},
        Progress,
    )


def test_each_sample_and_step_is_given_once() -> None:
    """Document 002, line 117: monitor_gpu.py --output."""
    fleet = healthy_fleet()
    stream = JsonStream()
    first = rows_of(stream, fleet, START)
    gpus = [row for row in first if row["kind"] == "gpu"]
    assert len(gpus) == len(fleet.gpus())
    assert gpus[0]["utilization_pct"] is not None
    assert rows_of(stream, fleet, START) == []
    feed(fleet, "gpu-001", step(3, 2.5, NODE_TIME), at=START + 1)
    (row,) = [row for row in rows_of(stream, fleet, START + 1) if row["kind"] == "step"]
    assert row.keys() == EMPTY_STEP.keys()
    assert (row["step"], row["total_steps"], row["loss"], row["samples_per_s"]) == (3, 9, 2.5, 8.0)
    assert [row for row in rows_of(stream, fleet, START + 1.1) if row["kind"] == "step"] == []


def test_a_loss_that_is_no_number_is_null() -> None:
    fleet = healthy_fleet()
    feed(fleet, "gpu-001", step(3, "nan", NODE_TIME), at=START + 1)
    rows = rows_of(JsonStream(), fleet, START + 1)
    assert [row["loss"] for row in rows if row["kind"] == "step"] == [None]


def test_a_job_has_its_training_numbers() -> None:
    fleet = healthy_fleet()
    ranks = Ranks(t=NODE_TIME, seq=1, processes=[process(4711, 0, 0, world_size=1, job="j")])
    feed(fleet, "gpu-001", ranks, at=START)
    for number in range(1, 6):
        feed(fleet, "gpu-001", step(number, 3.0 - number / 2, NODE_TIME + number), at=START + number)
    jobs = {row["job"]: row for row in training_facts(fleet, START + 5, NODE_TIME)}
    (row,) = [row for row in jobs.values() if row["step"] == 5]
    assert (row["loss"], row["step_time_p50_s"], row["step_time_p99_s"]) == (0.5, 0.5, 0.5)
    assert {"mfu_step", "mfu_overall", "communication_share", "imbalance", "eta_s"} <= row.keys()
