"""What the steps in the logs say of a job that has ended: numbers, ranks that are behind, and its outcome."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpuwatch.cli.analysis.scan import scan as command
from gpuwatch.report.scan.report import scan_facts
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan
from gpuwatch.runs.steps import step_series
from tests.cli.running import gpuwatch
from tests.runs.ended_logs import LATER, START, report, step_line, steps
from tests.sentences import Sentences


def test_forty_steps_of_nan_in_a_ranks_log_have_the_live_class(tmp_path: Path) -> None:
    nan = "".join(step_line(step, 1000, "nan") for step in range(41, 81))
    (tmp_path / "rank_3.log").write_text(steps(40, 1000) + nan)
    (incident,) = report(tmp_path).incidents
    assert (incident.code, incident.rank, incident.severity) == ("num.nan_loss", None, "critical")
    assert incident.cause is not None
    assert incident.cause.fields["step"] == 41
    assert incident.first == START + 41


def test_the_first_nan_of_a_long_log_is_not_thinned_away(tmp_path: Path) -> None:
    nan = "".join(step_line(step, None, "nan") for step in range(40_001, 60_001))
    (tmp_path / "rank_0.log").write_text(steps(40_000, None) + nan)
    found = scan(gather([tmp_path]), load_packs().all, "agent", cores=1)
    (series,) = found.files[0].series
    assert len(series.points) < 2 * step_series.KEPT_POINTS
    (incident,) = report(tmp_path).incidents
    assert incident.cause is not None
    assert (incident.code, incident.cause.fields["step"]) == ("num.nan_loss", 40_001)


def test_the_first_nan_of_a_large_log_is_found_to_the_step(tmp_path: Path) -> None:
    count, first = 260_000, 131_073
    lines = (f"step {n}/300000 | loss {'nan' if n >= first else 2.5}\n" for n in range(1, count + 1))
    (tmp_path / "rank_0.log").write_text("".join(lines) + "x" * step_series.LARGE_FILE_BYTES + "\n")
    found = report(tmp_path)
    cause = found.incidents[0].cause
    assert cause is not None
    assert (cause.code, cause.fields["step"]) == ("num.nan_loss", first)
    assert found.end.step == count
    (series,) = found.scan.files[0].series
    assert len(series.points) < 1_000, "a large log is sampled"


def test_a_nan_that_passes_is_no_incident(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text(steps(40, None) + step_line(41, None, "nan") + steps(80, None, 42))
    assert report(tmp_path).incidents == ()


def test_a_loss_that_jumps_at_the_end_is_a_spike(tmp_path: Path) -> None:
    jump = step_line(81, None, "40.5") + step_line(82, None, "41.5")
    (tmp_path / "rank_0.log").write_text(steps(80, None) + jump)
    assert [each.code for each in report(tmp_path).outside] == ["num.loss_spike"]


def test_sixteen_logs_that_stop_with_one_rank_behind_name_it(tmp_path: Path, sentences: Sentences) -> None:
    for rank in range(16):
        (tmp_path / f"rank_{rank}.log").write_text(steps(41_342 if rank == 5 else 41_344, 100_000, 41_000))
    found = report(tmp_path)
    (incident,) = found.incidents
    assert (incident.code, incident.rank) == ("job.hang", 5)
    assert (found.end.state, found.end.step, found.end.total_steps) == ("stopped", 41_344, 100_000)
    assert found.end.behind == (5,)
    sentences(found.end.text)
    outcome = scan_facts(found)["outcome"]
    assert outcome["ranks"][5] == {"rank": 5, "step": 41_342, "at": START + 41_342}


def test_the_rank_behind_in_one_shared_file_is_named(tmp_path: Path) -> None:
    lines = "".join(
        step_line(step, None, prefix=f"[rank{rank}]: ")
        for step in range(1, 201)
        for rank in range(8)
        if rank != 6 or step <= 197
    )
    (tmp_path / "train.log").write_text(lines)
    (incident,) = report(tmp_path).incidents
    assert (incident.code, incident.rank) == ("job.hang", 6)


@pytest.mark.parametrize(
    ("text", "state", "codes", "status"),
    [
        (steps(1000, 1000), "finished", [], 0),
        (steps(300, None) + "Training completed. Do not forget to share your model.\n", "finished", [], 0),
        (steps(300, 1000) + "`Trainer.fit` stopped: `max_epochs=3` reached.\n", "finished", [], 0),
        (steps(300, 1000), "stopped", ["unknown"], 1),
        (steps(300, 1000) + "^C\n", "stopped", [], 1),
        (steps(300, 1000) + "no improvement for 5 evaluations\n", "stopped", [], 1),
        (steps(300, 1000) + "wall time is nearly over, state kept in /ckpt/300\n", "stopped", [], 1),
        (steps(300, None), "unknown", [], 0),
        (steps(12, None), "unknown", [], 0),
        (steps(9, 1000), "unknown", [], 0),
        ("just a line\n", "unknown", [], 0),
    ],
    ids=["last step", "end words", "max epochs", "stopped", "Ctrl-C", "early stop", "time limit", "no total",
         "no total of a few", "an excerpt", "no steps"],
)  # fmt: skip
def test_the_outcome_of_a_folder_without_any_error(
    tmp_path: Path, text: str, state: str, codes: list[str], status: int
) -> None:
    (tmp_path / "rank_0.log").write_text(text)
    found = report(tmp_path)
    assert (found.end.state, [each.code for each in found.incidents]) == (state, codes)
    done = CliRunner().invoke(command, [str(tmp_path)], standalone_mode=False)
    assert done.return_value == status, done.output


@pytest.mark.parametrize(
    "line",
    [
        "update {:5d} / 2000   nll {}   gn 0.5   72.9 upd/min",
        "11.05.2026 22:28:17 | it {} of 2000 | cross_entropy {} | 4.04 s",
        "  3.5% ({}/2000) perplexity {} 2.5 it/s",
        "tick {} of 2000 heat {}",
    ],
)
def test_steps_in_words_of_ones_own_are_counted(tmp_path: Path, line: str) -> None:
    text = "".join(line.format(step, f"{2 + step % 7 / 10:.3f}") + "\n" for step in range(1, 301))
    (tmp_path / "run.out").write_text(text)
    end = report(tmp_path).end
    assert (end.state, end.step, end.total_steps) == ("stopped", 300, 2000)


@pytest.mark.parametrize(
    "line",
    [
        "ts=2026-03-04T00:00:00Z level=info component=fit step={} objective={} lr=0.0003",
        "level=info iter={} elbo=-{} kl=2.5",
        '{{"event": "train", "update": {}, "nll": {}, "words": 51200}}',
        "batch {}/400 | return {} | fps 4100",
    ],
)
def test_an_objective_by_any_name_that_is_no_number_is_found(tmp_path: Path, line: str) -> None:
    values = ["2.5"] * 60 + ["nan"] * 20
    text = "".join(line.format(step, value) + "\n" for step, value in enumerate(values, 1))
    (tmp_path / "run.out").write_text(text)
    incident = report(tmp_path).incidents[0]
    assert incident.cause is not None
    assert (incident.code, incident.cause.fields["step"]) == ("num.nan_loss", 61)


def test_a_log_that_is_written_now_is_no_stopped_job(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text(steps(300, 1000))
    mtime = (tmp_path / "rank_0.log").stat().st_mtime
    assert report(tmp_path, now=mtime).end.state == "stopped", "a copy is of now, its last line is not"
    os.utime(tmp_path / "rank_0.log", (START + 300, START + 300))
    assert report(tmp_path, now=START + 310).end.state == "running"
    assert report(tmp_path, now=START + 3000).end.state == "stopped"


@pytest.mark.parametrize(("count", "total"), [(19, 1000), (79, 100_000), (29, 30_000)])
@pytest.mark.parametrize("pace_s", [2, 60])
def test_a_short_log_that_ends_before_its_announced_end_stopped(
    tmp_path: Path, count: int, total: int, pace_s: int
) -> None:
    lines = [step_line(step * pace_s, total).replace(f"step {step * pace_s}/", f"step {step}/")
             for step in range(1, count + 1)]  # fmt: skip
    log = tmp_path / "rank_0.log"
    log.write_text("".join(lines))
    last = START + count * pace_s
    os.utime(log, (last, last))
    assert report(tmp_path, now=last + 5 * pace_s).end.state in ("running", "unknown")
    found = report(tmp_path, now=last + 3600)
    assert (found.end.state, found.end.step, found.end.total_steps) == ("stopped", count, total)
    assert found.incidents == ()
    (alert,) = found.outside
    assert (alert.code, alert.severity, found.has_problems) == ("unknown", "warning", True)


def test_a_short_log_without_times_that_changed_just_now_may_still_be_written(tmp_path: Path) -> None:
    log = tmp_path / "rank_0.log"
    log.write_text("".join(f"step {step}/1000 loss 2.5\n" for step in range(1, 30)))
    os.utime(log, (START, START))
    assert report(tmp_path, now=START + 20).end.state == "unknown"
    assert report(tmp_path, now=START + 3600).end.state == "stopped"


def test_the_last_line_counts_the_steps_of_a_log_that_does_not_say_how_it_ended(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text(steps(9, 1000))
    done = gpuwatch("scan", str(tmp_path))
    assert "step 9 of 1,000" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "line",
    [
        "EarlyStopping: no improvement for 5 evaluations, stopping at step 399\nsaved best model",
        "early stop: patience 5 exhausted",
        "Early stopping triggered after 20 epochs",
        "EarlyStopping counter: 5 out of 5",
        "val_loss did not improve in the last 3 records. Patience exceeded",
    ],
)
def test_a_rule_of_the_training_that_ends_it_early_is_no_failure(tmp_path: Path, line: str) -> None:
    (tmp_path / "rank_0.log").write_text(steps(399, 1000) + line + "\n")
    found = report(tmp_path)
    assert (found.end.state, found.end.early, found.has_problems) == ("finished", True, False)
    assert scan_facts(found)["outcome"]["early"] is True


@pytest.mark.parametrize("line", ["EarlyStopping counter: 3 out of 5", "early_stopping: true", "patience: 5"])
def test_early_stopping_that_is_only_set_up_or_counts_ends_nothing(tmp_path: Path, line: str) -> None:
    (tmp_path / "rank_0.log").write_text(steps(399, 1000) + line + "\n")
    found = report(tmp_path)
    assert (found.end.state, found.end.early) == ("stopped", False)


def test_a_job_that_was_asked_to_end_is_a_warning_at_most(tmp_path: Path) -> None:
    (tmp_path / "slurm-3.out").write_text(steps(59, 1000) + "Terminated\n")
    found = report(tmp_path)
    assert found.end.state == "stopped"
    assert found.incidents == ()
    assert {each.severity for each in found.outside} == {"warning"}


@pytest.mark.parametrize("slow_from", [100, 200, 500])
def test_steps_that_take_ten_times_as_long_to_the_end_are_slow_training(
    tmp_path: Path, slow_from: int
) -> None:
    at = [2 * step + 18 * max(0, step - slow_from) for step in range(1, 1001)]
    lines = (step_line(each, 1000).replace(f"step {each}/", f"step {n}/") for n, each in enumerate(at, 1))
    (tmp_path / "rank_0.log").write_text("".join(lines))
    found = report(tmp_path)
    assert found.end.state == "finished"
    (alert,) = (each for each in found.outside if each.code == "train.slow")
    assert (alert.severity, found.has_problems) == ("warning", True)
    assert abs(int(alert.fields["step"]) - slow_from) <= 20


def test_a_loss_that_rises_in_an_ended_job_has_the_live_class(tmp_path: Path) -> None:
    text = "".join(step_line(step, 600, f"{1 + step / 50:.3f}") for step in range(1, 601))
    (tmp_path / "rank_0.log").write_text(text)
    found = report(tmp_path)
    assert [(each.code, each.severity) for each in found.incidents] == [("num.loss_rising", "error")]
    assert found.outside == ()


def test_two_jobs_side_by_side_have_an_end_each(tmp_path: Path) -> None:
    for name, text in (("jobA", steps(1000, 1000) + "Training finished\n"), ("jobB", steps(499, 1000))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rank0.log").write_text(text)
    found = report(tmp_path)
    states = {each.name: (each.end.state, each.end.step) for each in found.jobs}
    assert states == {"jobA": ("finished", 1000), "jobB": ("stopped", 499)}
    assert (found.end.state, found.end.step, found.has_problems) == ("stopped", 499, True)
    verdict = gpuwatch("scan", str(tmp_path)).stdout.splitlines()[-1]
    assert "jobA: finished" in verdict
    assert "jobB: stopped" in verdict


def test_a_folder_that_goes_on_where_another_ended_is_no_second_job(tmp_path: Path) -> None:
    for name, text in (("first", steps(499, 1000)), ("second", steps(1000, 1000, 400))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rank0.log").write_text(text)
    found = report(tmp_path)
    assert (found.jobs, found.end.state) == ((), "finished")


def members(last: int, silent: int, unit: str = "h{host}") -> str:
    """Sixteen members of one file; one logs no line of the last step."""
    tag = "<{rank:02}@" + unit + "> 01:{minute:02}:{second:02} it={step} fwd=1.87 bwd=3.70 wait=0.26\n"
    return "".join(
        tag.format(rank=rank, host=1 + rank // 8, minute=step // 60, second=step % 60, step=step)
        for step in range(1, last + 1)
        for rank in range(16)
        if (rank, step) != (silent, last)
    )


@pytest.mark.parametrize("silent", [2, 13])
def test_a_member_that_misses_the_last_step_before_a_silence_is_behind(silent: int, tmp_path: Path) -> None:
    (tmp_path / "joint.log").write_text(members(90, silent) + "<sv@h1> no output of any member for 30 min\n")
    (incident,) = report(tmp_path).incidents
    assert (incident.code, incident.rank, incident.node) == ("job.hang", silent, f"h{1 + silent // 8}")


def test_one_missing_line_at_the_end_of_a_shared_log_alone_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "joint.log").write_text(members(90, 13))
    assert report(tmp_path).incidents == ()


@pytest.mark.parametrize(
    "last", ["leaving at step 60, status 3\n", "2026-03-04 00:02:00Z ERROR snapshot is incomplete, leaving\n"]
)
def test_a_log_that_ends_with_a_failure_is_an_incident(last: str, tmp_path: Path) -> None:
    (tmp_path / "t.log").write_text(steps(60, 300) + last)
    found = report(tmp_path)
    assert [incident.severity for incident in found.incidents] == ["error"]
    assert last.strip()[-20:] in found.incidents[0].headline


def test_words_above_the_last_step_are_no_reason_for_the_end(tmp_path: Path) -> None:
    epochs = "".join(
        f"Epoch {epoch}/90 batch {batch}/400 loss 0.5\n" + ("Epoch done in 9 s\n" if batch == 300 else "")
        for epoch in range(1, 36)
        for batch in range(0, 400 if epoch < 35 else 200, 100)
    )
    (tmp_path / "cls.txt").write_text(epochs)
    os.utime(tmp_path / "cls.txt", (START, START))
    found = report(tmp_path)
    assert [(incident.code, incident.severity) for incident in found.incidents] == [("unknown", "error")]
    assert found.end.epoch == (35, 90)


def test_a_time_limit_after_a_save_is_no_failure(tmp_path: Path) -> None:
    end = "04 23:50 saved step 60, next chunk has been queued\n"
    end += "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-05T00:00:03 DUE TO TIME LIMIT ***\n"
    (tmp_path / "c.out").write_text(steps(60, 300) + end)
    assert all(incident.severity == "warning" for incident in report(tmp_path).incidents)


def test_tokens_per_second_that_fall_are_found_without_any_time(tmp_path: Path) -> None:
    fast = "".join(f"step {step} loss {3 - step / 900:.3f} tok/s 52000\n" for step in range(200))
    slow = "".join(f"step {step} loss {3 - step / 900:.3f} tok/s 21000\n" for step in range(200, 400))
    (tmp_path / "t.log").write_text(fast + slow)
    assert [(alert.code, alert.fields["step"]) for alert in report(tmp_path).outside] == [("train.slow", 200)]


def test_steps_that_come_again_tell_of_a_restart(tmp_path: Path) -> None:
    (tmp_path / "t.log").write_text(steps(300, 400) + steps(400, 400, first=201))
    found = report(tmp_path)
    assert [(alert.code, alert.severity) for alert in found.outside] == [("train.restarted", "info")]
    (tmp_path / "t.log").write_text(steps(300, 4000) + steps(390, 4000, first=201))
    alerts = [each for incident in report(tmp_path).incidents for each in incident.alerts]
    alerts += report(tmp_path).outside
    assert ("train.restarted", "warning") in [(alert.code, alert.severity) for alert in alerts]


@pytest.mark.parametrize("rank", [0, 2, 7])
@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("Rank {n}: Starting all-reduce", "Rank {n}: All-Reduce complete"),
        ("[rank {n}] entering broadcast #3", "[rank {n}] left broadcast #3"),
        ("Rank {n}: Before all-reduce", "Rank {n}: After all-reduce"),
    ],
)
def test_the_rank_that_alone_began_and_did_not_end_hangs(
    begin: str, end: str, rank: int, tmp_path: Path
) -> None:
    text = "".join(begin.format(n=n) + "\n" for n in range(8))
    ends = [end.format(n=n) + "\n" for n in range(8)]
    (tmp_path / "t.log").write_text(text + "".join(ends))
    assert report(tmp_path).incidents == ()
    (tmp_path / "t.log").write_text(text + "".join(ends[:rank] + ends[rank + 1 :]))
    (incident,) = report(tmp_path).incidents
    assert (incident.code, incident.rank) == ("job.hang", rank)


@pytest.mark.parametrize("words", [("Before {}", "After {}"), ("Starting {}", "{} complete")])
@pytest.mark.parametrize(
    ("what", "is_hang"), [("all-reduce", True), ("barrier", True), ("evaluation", False)]
)
def test_of_two_ranks_a_collective_tells(
    what: str, is_hang: bool, words: tuple[str, str], tmp_path: Path
) -> None:
    """Document 004, lines 411 to 438: both ranks call it; an evaluation is often that of one rank."""
    begin, end = (word.format(what) for word in words)
    for rank in range(2):
        lines = [f"Rank {rank}: {begin}", f"Rank {rank}: {end}"] * 2 + [f"Rank {rank}: {begin}"]
        lines += [f"Rank {rank}: {end}"] * (rank == 0)
        (tmp_path / f"rank_{rank}.log").write_text("\n".join(lines) + "\n")
    found = [(incident.code, incident.rank) for incident in report(tmp_path).incidents]
    assert found == ([("job.hang", 1)] if is_hang else [])


@pytest.mark.parametrize(
    "layout",
    [
        "rank{rank}.log",
        "node-{node}/rank{rank}.log",
        "node-{node}/logs/rank{rank}.log",
        "{rank}/rank{rank}.log",
    ],
)
def test_the_ranks_of_a_node_that_stop_while_another_nodes_finish_are_named(
    layout: str, tmp_path: Path
) -> None:
    for rank in range(4):
        path = tmp_path / layout.format(rank=rank, node=rank // 2)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(steps(600, 600) + "Training finished\n" if rank < 2 else steps(299, 600))
    end = report(tmp_path).end
    assert (end.state, end.behind, end.finished) == ("stopped", (2, 3), (0, 1))


def test_ranks_that_several_folders_hold_are_those_of_several_jobs(tmp_path: Path) -> None:
    for folder, last in (("a", 600), ("b", 299)):
        (tmp_path / folder).mkdir()
        for rank in range(2):
            (tmp_path / folder / f"rank{rank}.log").write_text(steps(last, 600))
    assert report(tmp_path).end.behind == ()


EPOCHS = {
    "bar": "Epoch {epoch}/10: 100%|##########| 600/600 [10:00<00:00, 1.0it/s]\n",
    "bar below": "Epoch {epoch}/10\n600/600 [==============================] - 10s 12ms/step - loss: 0.5\n",
    "line": "Epoch [{epoch}/10] loss: 0.5\n",
    "validated": "Epoch {epoch} of 10 trained\nvalidation done, loss 0.5\n",
}


def epochs(kind: str, first: int, last: int) -> str:
    return "".join(EPOCHS[kind].format(epoch=epoch) for epoch in range(first, last + 1))


@pytest.mark.parametrize("kind", EPOCHS)
def test_epochs_that_end_before_the_announced_number_are_a_stop(tmp_path: Path, kind: str) -> None:
    log = tmp_path / "rank0.log"
    log.write_text(epochs(kind, 1, 3))
    os.utime(log, (START, START))
    found = report(tmp_path)
    assert (found.end.state, found.end.epoch, found.has_problems) == ("stopped", (3, 10), True)


@pytest.mark.parametrize("kind", EPOCHS)
@pytest.mark.parametrize(("first", "last"), [(1, 10), (0, 9)])
def test_all_announced_epochs_are_no_stop(tmp_path: Path, kind: str, first: int, last: int) -> None:
    log = tmp_path / "rank0.log"
    log.write_text(epochs(kind, first, last))
    os.utime(log, (START, START))
    assert not report(tmp_path).has_problems


@pytest.mark.parametrize("ending", ["Training complete\n", "EarlyStopping: no improvement in 3 epochs\n"])
def test_epochs_that_a_line_ends_are_no_stop(tmp_path: Path, ending: str) -> None:
    log = tmp_path / "rank0.log"
    log.write_text(epochs("bar", 1, 3) + ending)
    os.utime(log, (START, START))
    assert not report(tmp_path).has_problems


def test_a_log_of_epochs_written_now_is_no_stop(tmp_path: Path) -> None:
    log = tmp_path / "rank0.log"
    log.write_text(epochs("bar", 1, 3))
    os.utime(log, (LATER - 5, LATER - 5))
    assert report(tmp_path).end.state != "stopped"


def test_steps_without_a_total_that_end_in_an_early_epoch_are_a_stop(tmp_path: Path) -> None:
    lines = (f"Epoch {step // 6 + 1}/10 step {step} loss 0.5\n" for step in range(1, 20))
    log = tmp_path / "rank0.log"
    log.write_text("".join(lines))
    os.utime(log, (START, START))
    end = report(tmp_path).end
    assert (end.state, end.step, end.epoch) == ("stopped", 19, (4, 10))
