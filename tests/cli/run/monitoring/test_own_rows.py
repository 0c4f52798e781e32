"""Rows of other jobs of the machine stay out of a run."""

from __future__ import annotations

from pathlib import Path

from gpuwatch.cli.run.monitoring.own_rows import OwnRows
from gpuwatch.cli.run.monitoring.samples import NodeSamples
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.report.dmon.json_stream import EMPTY_STEP, Row

START = 1_000.0


def step(file: str, job: str | None = None) -> Row:
    return {**EMPTY_STEP, "kind": "step", "file": file, "job": job, "step": 1}


def own_rows() -> OwnRows:
    samples = NodeSamples()
    samples.jobs.add("ours")
    return OwnRows(Path("/logs/training_1"), samples, START)


def test_steps_of_another_job_are_not_taken() -> None:
    own = own_rows()
    assert own.takes(step("/logs/training_1/ranks/console_a.log"), {})
    assert own.takes(step("/tmp/rank_0.log", "ours"), {})
    assert not own.takes(step("/tmp/rank_0.log", "theirs"), {})
    assert not own.takes(step("/tmp/rank_0.log"), {})
    assert not own.takes(step("/logs/training_10/ranks/console_a.log"), {})
    jobs = ["ours", "theirs", None]
    assert [own.takes({"kind": "job", "job": job}, {}) for job in jobs] == [True, False, False]


def test_alerts_of_another_job_and_of_before_are_not_taken() -> None:
    own = own_rows()
    proof = (Proof("value", "text"),)
    found = {
        each.id: each
        for each in (
            Alert("ours", "c", "error", "t", "x", proof, job="ours", last=START + 1),
            Alert("before", "c", "error", "t", "x", proof, job="ours", last=START - 1),
            Alert("theirs", "c", "error", "t", "x", proof, job="theirs", last=START + 1),
            Alert("node", "c", "error", "t", "x", proof, last=START + 1),
        )
    }
    taken = [each for each in [*found, "gone"] if own.takes({"kind": "alert", "id": each}, found)]
    assert taken == ["ours", "node"]
