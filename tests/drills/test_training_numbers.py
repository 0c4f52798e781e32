"""What running ranks write about their training: metrics, speed, NaN, a rising loss, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuwatch.diagnose.training import throughput
from gpuwatch.link.start.log_settings import VARIABLE
from gpuwatch.report.once.first_report import wait_for_first_report
from gpuwatch.report.once.problems.active import standing
from gpuwatch.session import Session
from tests.drills.jobs import TAGGED, Job, StartJob, job
from tests.drills.namespaces import Cluster
from tests.end_to_end.cluster import watch
from tests.end_to_end.launched import QUICK
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT

CHANGES = """do
import itertools, os
for step in itertools.count(step + 1):
    changed = os.path.exists(sys.argv[1] + ".changed")
    line("step %d/100000 loss {} | step_time %.2f s | data 0.01 s | forward 0.10 s" % (step, *({}), {}))
    time.sleep({})"""
"""Numbers, and the seconds of a step, that change once the file is there."""
SLOWER = CHANGES.format("2.5", "()", *["0.3 if changed else 0.1"] * 2)
RISES = CHANGES.format("%.4f", "5.9 if changed else 1.0,", "0.1", "0.1")
REOPENS = """do
import itertools, os
for step in itertools.count(1):
    loss = "nan" if os.path.exists(sys.argv[1][:-1] + "0.changed") else "2.5"
    if os.environ["RANK"] == "0":
        with open(os.path.dirname(sys.argv[1]) + "/../train.txt", "a") as log:
            print(time.strftime("%Y-%m-%d %H:%M:%S"), f"step {step}/100000 loss {loss}", file=log)
    time.sleep(0.2)"""
ONE_IS_ODD = """do
import itertools, os
odd = os.environ["RANK"] == "3"
for step in itertools.count(step + 1):
    loss, data = (5.9 if odd and step > 60 else 1.0), (0.25 if odd else 0.05)
    line("step %d/100000 loss %.4f | step_time 0.40 s | data %.2f s | forward 0.10 s" % (step, loss, data))
    time.sleep(0.1)"""
CHECKPOINTS = """do
import os
for saved in (1000, 2000):
    folder = sys.argv[1] + ".ckpt/checkpoint-%d" % saved
    os.makedirs(folder)
    names = ["__0_0.distcp", "__1_0.distcp"] + [".metadata"] * (saved == 1000)
    for name in names:
        open(os.path.join(folder, name), "wb").write(bytes(4096))
    line("saving checkpoint at step %d to %s" % (saved, folder))
    if saved == 1000:
        line("saved checkpoint at step 1000 to " + folder)
    line("step %d/100000 loss 2.5" % (saved + 40))
step = 2040"""


def test_metrics_that_a_rank_holds_open_are_followed(start_job: StartJob) -> None:
    """They are all that it writes, and its NaN is in them."""
    options = ("--nowhere", "--metrics", "metrics.jsonl")
    with start_job("metrics", *options) as run:
        run.until(lambda: run.steps(0))
        run.order(0, "nan")
        run.until(lambda: [each.code for each in run.incidents()] == ["num.nan_loss"])
        run.until(lambda: [each.rank for each in run.alerts() if each.code == "num.nan_loss"] == [0])


def standing_of(run: Job, session: Session) -> set[tuple[str, int | None]]:
    """What a report of a session would tell of a job: classes and ranks."""
    found = standing(session.book, session.fleet, session.clock.monotonic(), session.clock.wall())
    alerts = [*found.alerts, *(each for one in found.incidents for each in one.alerts)]
    return {(each.code, each.rank) for each in alerts if each.job == run.name}


def change(run: Job) -> None:
    """Let rank 0 log other numbers."""
    (run.folder / "ctl" / "rank0.changed").touch()


def test_a_slower_job_names_no_rank_that_is_only_the_one_that_logs(
    start_job: StartJob, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throughput, "LASTS_S", 1.0)
    monkeypatch.setattr(throughput, "MIN_PAST_STEPS", 8)
    monkeypatch.setattr(throughput, "RECENT_STEPS", 4)
    with start_job("slower", nodes=("n1", "n2")) as run:
        for rank in (1, 2, 3):
            run.order(rank, "hang")
        run.order(0, SLOWER)
        run.until(lambda: run.logged(0) > 20)
        change(run)
        run.until(lambda: [each.rank for each in run.alerts() if each.code == "train.slow"] == [None])
        writers = session.fleet.progress.writers.values()
        assert any(each.phases.keys() >= {"data", "forward"} for each in writers if each.job == run.name)


def test_the_first_nan_of_a_shared_file_is_that_of_its_rank(start_job: StartJob) -> None:
    with start_job("nan", *TAGGED) as run:
        run.until(lambda: run.steps(1))
        run.order(1, "nan")
        run.until(lambda: [(each.code, each.rank) for each in run.incidents()] == [("num.nan_loss", 1)])
        lines = (run.folder / "launcher-n1.out").read_text().splitlines()
        first = next(each.split("step ")[1].split("/")[0] for each in lines if each.endswith("nan"))
        run.until(lambda: f"step {first}" in run.incidents()[0].headline)


def test_a_loss_that_rises_is_reported(start_job: StartJob, session: Session) -> None:
    """From 1.0 to 5.9 on rank 0 alone; no later step ends that."""
    with start_job("rises") as run:
        run.order(0, RISES)
        run.until(lambda: run.logged(0) > 20)
        change(run)
        run.until(lambda: ("num.loss_rising", 0) in standing_of(run, session))
        logged = run.logged(0)
        run.until(lambda: run.logged(0) > logged + 8)
        assert ("num.loss_rising", 0) in standing_of(run, session)


FORMATS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "step_{}": (("model_rank0.pt", "model_rank1.pt", "model_rank2.pt"), "model_rank1.pt"),
    "checkpoint-{}": (
        ("config.json", *(f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3))),
        "model-00003-of-00003.safetensors",
    ),
    "global_step{}": (
        (
            "mp_rank_00_model_states.pt",
            "zero_pp_rank_0_mp_rank_00_optim_states.pt",
            "zero_pp_rank_1_mp_rank_00_optim_states.pt",
        ),
        "zero_pp_rank_1_mp_rank_00_optim_states.pt",
    ),
    "iter_{:07d}": (
        ("mp_rank_00/model_optim_rng.pt", "mp_rank_01/model_optim_rng.pt", "mp_rank_02/model_optim_rng.pt"),
        "mp_rank_01/model_optim_rng.pt",
    ),
    "{}": (("_CHECKPOINT_METADATA", "default/array.0", "default/array.1"), "default/array.1"),
}
"""Folder of a step -> its files, and the one that a checkpoint lacks whose writer was killed.

torch.save by each rank, Transformers, DeepSpeed, Megatron-LM and Orbax.
"""
SAVES = """do
import os
files, lacks, form, number = {!r}
for saved, names in ((number, files), (number + 500, [one for one in files if one != lacks])):
    folder = os.path.join(sys.argv[1] + ".formats", str(number), form.format(saved))
    for name in names:
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "wb") as out:
            out.write(bytes(4096))
    line("saving checkpoint at step %d to %s" % (saved, folder))
    line("saved checkpoint at step %d to %s" % (saved, folder))
    time.sleep(2.0)
line("step %d/100000 loss 2.5" % (number + 540))
step = number + 540"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", FORMATS)
def test_the_last_whole_checkpoint_is_known_in_each_format(
    start_job: StartJob, session: Session, form: str
) -> None:
    files, lacks = FORMATS[form]
    with start_job("formats", "--tag") as run:
        run.until(lambda: run.steps(0))
        run.order(0, SAVES.format((files, lacks, form, 1000)))

        def numbers() -> tuple[int | None, ...]:
            last = session.book.checkpoints.get(run.name)
            return () if last is None else (last.step, last.unfinished_step)

        run.until(lambda: numbers() == (1000, 1500))


@pytest.mark.long  # 160 steps of four ranks before the session
def test_a_report_made_once_names_the_rank_that_the_logs_show(start_job: StartJob, cluster: Cluster) -> None:
    """The slow rank, and the rank whose loss alone rises, by the steps of before the session."""
    with start_job("late", "--tag", nodes=("n1", "n2")) as run:
        for rank in range(4):
            run.order(rank, ONE_IS_ODD)
        run.until(lambda: all("step 160/" in log.read_text() for log in run.folder.glob("attempt_0/*/*.log")))
        with cluster.session() as later:
            wait_for_first_report(later, 30.0)

            both = {("slower_than_peers", 3), ("num.loss_rising", 3)}
            watch(later, lambda _fleet, _now: both <= standing_of(run, later))


@pytest.mark.long  # a second session
def test_a_job_that_was_slow_from_its_start_is_reported_by_a_limit(
    start_job: StartJob, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has been so for LASTS_S by its log when the session begins."""
    monkeypatch.setattr(throughput, "LASTS_S", 4.0)
    with start_job("limit", "--tag") as run:
        run.until(lambda: run.logged(0) > 20)
        with cluster.session(thresholds=replace(QUICK, slow_step_s=0.02)) as later:
            wait_for_first_report(later, 60.0)
            watch(later, lambda _fleet, _now: ("train.slow", None) in standing_of(run, later))


def test_an_incident_tells_the_last_whole_checkpoint(start_job: StartJob) -> None:
    """The last one lacks the file that is written at its end."""
    with start_job("saves", "--tag") as run:
        run.until(lambda: run.steps(0))
        run.order(0, CHECKPOINTS)
        run.until(lambda: "step 2041" in (run.folder / "attempt_0/0/stdout.log").read_text())
        run.order(1, "raise")
        run.until(lambda: [each.rank for each in run.incidents()] == [1])

        def numbers() -> tuple[object, ...]:
            last = run.incidents()[0].checkpoint
            return () if last is None else (last.step, last.unfinished_step, (last.steps_lost or 0) > 1000)

        run.until(lambda: numbers() == (1000, 2000, True))


@pytest.mark.long  # a search a minute
def test_a_log_that_is_opened_for_each_line_is_found(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies beside the launcher's log, which is followed; the ranks print nothing there."""
    monkeypatch.setenv(VARIABLE, "on")
    with (
        cluster.session() as session,
        job(cluster, session, tmp_path / "job", "reopens", "--inherit") as run,
    ):
        for rank in (0, 1):
            run.order(rank, REOPENS)
        path = str(tmp_path / "job" / "train.txt")
        run.until(lambda: path in [each.path for each in session.fleet.nodes["n1"].logs], seconds=150.0)
        (run.folder / "ctl" / "rank0.changed").touch()
        run.until(lambda: "num.nan_loss" in [each.code for each in run.alerts()])
