"""A log that ends with a failure in words that no rule knows is never "nothing found"."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.cli.analysis.scan import scan
from gpuwatch.diagnose.last_lines.failures import states_failure

FAILURES = (
    "worker 5 vanished (no heartbeat for 120 s), aborting run",
    "could not write the shard: disk full",
    "trainer: the allocator could not be initialised, giving up",
    "MODEL DIVERGED, stopping",
    "peer 3 is not responding",
    "init_transport: EXCEPTION: failed to start the ring",
    "grads became NaN in block 7",
    "libaccel.so already in use by another process with pid 8121",
)
HARMLESS = (
    "0 failed, 12 passed",
    "errors=0 warnings=2",
    "error_rate 0.04",
    "no errors were found on 8 devices",
    "fault tolerance enabled: max_failures=3, on_error=restart",
    "loaded tokenizer from /models/fatal-error-gpt",
    "connection lost, retrying in 5 s",
    "[W 2026-02-02 10:09:00,001] Trial 2 failed with value None.",
    "INFO the last attempt failed, the cached file is used",
    "sshd: fatal: Timeout before authentication",
    "killed: 0",
)
STEPS = [f"batch {number} nll {3 - number / 100:.3f}\n" for number in range(60)]


def scanned(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    (folder / "rank_3.log").write_text(text)
    status = scan.main(["--json", str(folder)], standalone_mode=False)
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("line", FAILURES)
def test_a_failure_is_seen(line: str) -> None:
    assert states_failure(line)


@pytest.mark.parametrize("line", HARMLESS)
def test_words_that_state_none_are_left_out(line: str) -> None:
    assert not states_failure(line)


def test_the_last_line_of_a_log_is_a_warning_with_its_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, report = scanned(tmp_path, "".join(STEPS) + FAILURES[0] + "\n", capsys)
    (alert,) = report["alerts"]
    assert (status, alert["class"], alert["severity"]) == (1, "rank.error_unexplained", "warning")
    assert (alert["rank"], FAILURES[0] in alert["text"]) == (3, True)


@pytest.mark.parametrize("after", ["".join(STEPS[30:]), "training finished\n", "interrupted by user\n"])
def test_what_follows_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str], after: str) -> None:
    _, report = scanned(tmp_path, "".join(STEPS[:30]) + f"{FAILURES[0]}\n{after}", capsys)
    assert [each for each in report["alerts"] if each["severity"] != "info"] == []
    assert report["incidents"] == []


STRANGE = (
    "machine c7-14 fell silent, the group is being dissolved",
    "broadcast came back with 5 instead of 0",
    "carrier of hca0 gone for 12 s, queue pairs to error",
    "weights lack 9 keys, will not go on",
    "container trainer-2 left with 137 after 8 m",
    "supervisor: workers hung for 20 min, closing the session",
    "helper 2 never answered, params on gpu:2",
    "INFO launcher: peer 4 lost",
)
CLOSED = (
    "training loop over, all 60 updates done",
    "run over: 60 batches, mean nll 2.7\nexit 0",
    "saved the state to /out\nbye",
    "stopped by the user",
    "batch 60 nll 2.390",
    "peak memory 70 GiB",
    "tracker: open http://tracker/runs/31 for the charts",
    "epilog: emptied /scratch/31",
    "top1 75.9 top5 92.8",
    "persistence mode restored",
    "no pending remaps on GPU 3",
    "quota: 12 of 500 GB",
)


@pytest.mark.parametrize("line", STRANGE)
def test_a_log_that_stops_below_its_steps_with_words_of_trouble_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    status, report = scanned(tmp_path, "".join(STEPS) + line + "\n", capsys)
    reported = [each for each in report["incidents"] + report["alerts"] if each["severity"] != "info"]
    assert status == 1
    assert any(line in each["evidence"][0]["text"] for each in reported)


@pytest.mark.parametrize("line", CLOSED)
def test_an_end_or_ordinary_lines_below_the_steps_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    status, report = scanned(tmp_path, "".join(STEPS) + line + "\n", capsys)
    assert [each for each in report["alerts"] if each["severity"] != "info"] == []
    assert (status, report["incidents"]) == (0, [])
