# ruff: noqa: E501  log lines stay whole
"""What a later event, a save on request or the end of the run answers is a note, in a scan of the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.diagnose.past_jobs.cluster_events import seconds
from tests.runs.ended_logs import report, step_line, steps

RUNTIME = 'Failed to create pod sandbox: rpc error: failed to get sandbox runtime: no runtime for "nvidia" is configured'
FAILED = "{:<10}  Warning   FailedCreatePodSandBox   pod/{}   " + RUNTIME + "\n"
STARTED = "{:<10}  Normal    Started                  pod/{}   Started container main\n"


def states(folder: Path) -> list[tuple[str, str]]:
    done = report(folder)
    found = [(each.code, each.severity) for each in done.incidents]
    return sorted(found + [(each.code, each.severity) for each in done.outside if each.severity != "info"])


@pytest.mark.parametrize(
    ("events", "problems"),
    [
        (FAILED.format("7m2s", "llm-0") + STARTED.format("3m40s", "llm-0"), 0),
        (STARTED.format("3m40s", "llm-0") + FAILED.format("7m2s", "llm-0"), 0),
        (STARTED.format("9m", "llm-0") + FAILED.format("7m2s", "llm-0"), 1),
        (FAILED.format("7m2s", "llm-0") + FAILED.format("7m", "llm-1") + STARTED.format("1m", "llm-0"), 1),
        (FAILED.format("7m2s", "llm-0") + STARTED.format("1m", "llm-00"), 1),
        (FAILED.format("7m2s", "llm-0"), 1),
    ],
)
def test_a_pod_that_started_after_all_is_no_incident(tmp_path: Path, events: str, problems: int) -> None:
    (tmp_path / "events.txt").write_text("LAST SEEN   TYPE      REASON   OBJECT   MESSAGE\n" + events)
    assert ("gpu.container" in dict(states(tmp_path))) == bool(problems)


@pytest.mark.parametrize(("age", "expected"), [("9m12s", 552), ("2d3h", 183_600), (None, 0), ("", 0)])
def test_the_age_of_an_event_is_in_seconds(age: str | None, expected: int) -> None:
    assert seconds(age) == expected


BAR = "ERROR 2026-03-04T00:02:{:02d}.5 epoch 3/9 box 0.015: {:>3}%|####      | {}/500 [00:41<00:{:02d},  8.19it/s]\n"


@pytest.mark.parametrize(
    ("description", "counted"),
    [
        ("", 0),
        (
            "ERROR 2026-03-04T00:03:00.1 could not write shard 7: 31%|###   | 155/500 [00:41<00:22,  8.19it/s]\n",
            0,
        ),
    ],
)
def test_progress_bars_collected_as_errors_are_none(tmp_path: Path, description: str, counted: int) -> None:
    bars = "".join(BAR.format(at, at, 5 * at, 59 - at) for at in range(1, 40))
    (tmp_path / "stderr.log").write_text(bars + description)
    assert report(tmp_path).unexplained == counted


def test_a_failure_named_before_a_bar_counts(tmp_path: Path) -> None:
    line = "ERROR 2026-03-04T00:03:00.1 writing failed: 31%|###   | 155/500 [00:41<00:22,  8.19it/s]\n"
    (tmp_path / "stderr.log").write_text(line)
    assert report(tmp_path).unexplained == 1


CANCELLED = "slurmstepd: error: *** STEP 71.0 ON n3 CANCELLED AT 2026-03-04T00:00:40 ***\n"
STOP = "2026-03-04 00:00:40Z INFO received signal 15, stopping after this step\n"
SAVED = "2026-03-04 00:00:44Z INFO saved ckpt/step_40.pt, exiting normally\n"


@pytest.mark.parametrize(
    ("closing", "codes"),
    [(STOP + SAVED, []), (STOP, ["slurm.cancelled"]), ("", ["slurm.cancelled"])],
)
def test_a_cancelled_job_that_saved_and_closed_is_a_note(
    tmp_path: Path, closing: str, codes: list[str]
) -> None:
    (tmp_path / "slurm-71.out").write_text(steps(40, 9000) + CANCELLED + closing)
    assert [code for code, _ in states(tmp_path) if code == "slurm.cancelled"] == codes


@pytest.mark.parametrize(("last", "severity"), [(60, "info"), (50, "warning")])
def test_memory_pressure_in_a_run_that_finished_is_a_note(tmp_path: Path, last: int, severity: str) -> None:
    flushes = "[2026-03-04 00:00:30,1] [WARNING] [stage3.py:1:step] 5 pytorch allocator cache flushes since last step\n"
    text = steps(30, 60) + flushes + "".join(step_line(step, 60) for step in range(31, last + 1))
    (tmp_path / "train.log").write_text(text)
    found = [each.severity for each in report(tmp_path).outside if each.code == "train.mem_pressure"]
    assert set(found) <= {severity}
