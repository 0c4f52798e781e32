"""Error lines that no rule knows, from the log to the exit status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuwatch.rules.model.rule_ids import RANK_ERROR_UNEXPLAINED
from tests.corpus.score import scanned
from tests.sentences import Sentences

STEPS = [f"2025-03-02 10:00:{s:02},000 - trainer - INFO - step {s}/1000 loss 2.1" for s in range(40)]
ERROR = "2025-03-02 10:00:{:02},500 - trainer - ERROR - shard {} is not what it was"
TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 9, in <module>
    main()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."""


def scan_of(folder: Path, **logs: str) -> dict[str, Any]:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(f"{text}\n")
    return scanned(folder)


def severities(report: dict[str, Any]) -> dict[str, str]:
    return {each["class"]: each["severity"] for each in [*report["incidents"], *report["alerts"]]}


def test_an_error_after_which_the_rank_logs_no_step_ended_the_job_and_is_counted(tmp_path: Path) -> None:
    log = "\n".join([*STEPS[:30], ERROR.format(31, 4), ERROR.format(32, 5), ERROR.format(33, 6)])
    report = scan_of(tmp_path, rank_3=log)
    assert (report["found"], report["unexplained_errors"]) == (True, 3)
    (incident,) = report["incidents"]
    assert (incident["class"], incident["rank"]) == (RANK_ERROR_UNEXPLAINED, 3)


def test_an_error_that_the_rank_outlives_is_a_note_but_the_log_is_not_called_clean(tmp_path: Path) -> None:
    log = "\n".join([*STEPS[:10], ERROR.format(9, 4), *STEPS[10:]])
    report = scan_of(tmp_path, rank_3=log)
    assert severities(report)[RANK_ERROR_UNEXPLAINED] == "info"
    assert report["unexplained_errors"] == 1


@pytest.mark.parametrize(
    "what",
    ["shape mismatch in shard 17: expected 4096, got 4095", "shard 17 was not found", "shard 17 is gone"],
)
def test_an_exception_whose_message_states_a_loss_stays_an_exception(tmp_path: Path, what: str) -> None:
    raised = [*TRACEBACK.splitlines()[:-1], f"RuntimeError: {what}"]
    report = scan_of(tmp_path, rank_3="\n".join([*STEPS[:30], *raised]))
    (incident,) = report["incidents"]
    assert (incident["class"], incident["rank"], incident["severity"]) == ("python.exception", 3, "error")
    assert what in incident["headline"]
    assert list(severities(report)) == ["python.exception"]


@pytest.mark.parametrize("before", [True, False])
def test_an_error_line_beside_a_known_error_is_explained(tmp_path: Path, before: bool) -> None:
    lines = [ERROR.format(31, 4), TRACEBACK] if before else [TRACEBACK, ERROR.format(31, 4)]
    report = scan_of(tmp_path, rank_3="\n".join([*STEPS[:30], *lines]))
    assert "oom.cuda" in severities(report)
    assert report["unexplained_errors"] == 0


def test_in_an_incident_of_waiting_ranks_it_is_the_last_resort(tmp_path: Path) -> None:
    waiting = (
        "[rank{0}]:[E302 10:10:{0:02}.000000 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
        "Timeout(ms)=600000) ran for 600010 milliseconds before timing out."
    )
    logs = {f"rank_{rank}": "\n".join([*STEPS[:30], waiting.format(rank)]) for rank in (0, 1, 2)}
    logs["rank_3"] = "\n".join([*STEPS[:29], ERROR.format(30, 4)])
    report = scan_of(tmp_path, **logs)
    (incident,) = report["incidents"]
    assert (incident["class"], incident["rank"]) == (RANK_ERROR_UNEXPLAINED, 3)


@pytest.mark.parametrize(
    "line",
    [
        "2025-03-02 10:00:31,500 - trainer - CRITICAL - giving up, the manifest differs",
        '{"time": "2025-03-02T10:00:31Z", "level": "fatal", "msg": "exiting"}',
        "panic: runtime error: index out of range [5] with length 5",
        'Exception in thread "main" java.lang.IllegalStateException: executor lost',
        "F0302 10:00:31.500000 77 loop.cc:88] Check failed: peer != nullptr",
    ],
)
@pytest.mark.parametrize("steps", [0, 30])
def test_a_fatal_line_that_no_rule_knows_is_an_incident_of_its_rank(
    tmp_path: Path, steps: int, line: str
) -> None:
    report = scan_of(tmp_path, rank_3="\n".join([*STEPS[:steps], line]))
    (incident,) = report["incidents"]
    assert (incident["class"], incident["rank"]) == (RANK_ERROR_UNEXPLAINED, 3)


def test_a_fatal_line_that_the_rank_outlives_is_no_incident(tmp_path: Path) -> None:
    line = "2025-03-02 10:00:31,500 - trainer - CRITICAL - the manifest differs"
    report = scan_of(tmp_path, rank_3="\n".join([*STEPS[:30], line, *STEPS[30:]]))
    assert not [each for each in report["incidents"] if each["class"] == RANK_ERROR_UNEXPLAINED]


def test_a_known_cause_is_never_outranked(tmp_path: Path) -> None:
    first = "\n".join([*STEPS[:20], ERROR.format(20, 4)])
    report = scan_of(tmp_path, rank_0=first, rank_1="\n".join([*STEPS[:30], TRACEBACK]))
    assert report["incidents"][0]["class"] == "oom.cuda"


def test_a_flood_of_errors_is_counted_to_the_last_line(tmp_path: Path) -> None:
    log = "\n".join([*STEPS[:5], *(ERROR.format(5 + i // 200, i) for i in range(5000))])
    report = scan_of(tmp_path, rank_0=log)
    assert report["unexplained_errors"] == 5000


@pytest.mark.parametrize("last", ["Verbindung verloren, Abbruch", "Connexion perdue", "Verloren", None])
def test_a_job_that_stopped_is_reported_with_the_words_that_end_its_log(
    tmp_path: Path, last: str | None, sentences: Sentences
) -> None:
    steps = [f"2025-03-02 10:{s // 60:02}:{s % 60:02} INFO step {s}/1000 loss 2.1" for s in range(200)]
    report = scan_of(tmp_path, rank_0="\n".join([*steps, *([f"2025-03-02 10:03:30 {last}"] if last else [])]))
    (incident,) = report["incidents"]
    assert incident["class"] == "unknown"
    advice = " ".join([incident["explain"], *incident["do"]])
    assert "sacct" in advice
    assert "OOM" in advice
    assert "hang" not in advice
    assert "timeout" not in advice
    sentences(incident["sentence"])
