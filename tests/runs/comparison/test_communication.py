"""Communication by operation, and the verdict whether several GPUs train together."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.runs.comparison.communication import CommunicationReport, communication_report, is_bad_news
from gpuwatch.runs.sessions.find import find_sessions
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import CommunicationTotals, SessionGpu, SessionSummary
from tests.runs.sessions.written import MAIN, MULTI, write_documented_pair, write_session


def judged(**facts: object) -> CommunicationReport:
    summary = SessionSummary(id="x", **facts)  # type: ignore[arg-type]
    session = TrainingSession(Path("x"), "session folder", summary)
    return communication_report(session, [session])


SYNC = CommunicationTotals(operation="gradient_sync", count=3)
START = CommunicationTotals(operation="training_start", count=1)


def test_the_documented_session_trains_on_several_gpus(tmp_path: Path) -> None:
    """Document 002, lines 65 to 83: mode, GPU count, gradient_sync, throughput above one GPU's."""
    write_documented_pair(tmp_path)
    sessions = find_sessions((), tmp_path).sessions
    single, multi = (communication_report(each, sessions) for each in sessions)
    assert (single.verdict, multi.verdict) == ("single", "multi")
    assert {each.code: each.sign for each in multi.reasons} == {
        "mode": "for",
        "workers": "for",
        "gradient_sync": "for",
        "throughput": "for",
    }
    assert multi.shares[0] == pytest.approx(0.01)
    assert (is_bad_news(single), is_bad_news(multi)) == (False, False)


def test_forced_single_gpu_mode_is_seen(tmp_path: Path) -> None:
    """Document 002, lines 87 to 91 and 250 to 252.

    Document 002, line 161.
    """
    text = MAIN.replace("MULTI-GPU", "SINGLE-GPU").replace("GPU Count: 2", "GPU Count: 1")
    text += "14:30:23 | INFO  | FORCED SINGLE GPU MODE - Using GPU 0 only\n"
    write_session(
        tmp_path, MULTI, None, main=text.replace("Accelerator processes: 2", "Accelerator processes: 1")
    )
    report = communication_report(find_sessions((), tmp_path).sessions[0], [])
    assert report.verdict == "single"
    assert {each.code for each in report.reasons if each.sign == "against"} >= {"mode", "forced", "workers"}
    assert is_bad_news(report)


def test_communication_without_gradient_synchronization_is_doubtful() -> None:
    """Document 002, lines 93 to 95."""
    broadcast = CommunicationTotals(operation="broadcast", count=1)
    report = judged(mode="multi", gpu_count=2, communication=[START, broadcast])
    assert report.verdict == "doubtful"
    assert is_bad_news(report)


def test_marks_alone_are_no_bad_news() -> None:
    report = judged(mode="multi", gpu_count=2, communication=[START])
    assert report.verdict == "doubtful"
    assert not is_bad_news(report)


def test_several_gpus_no_faster_than_one_are_doubtful() -> None:
    """Document 002, lines 79 to 83."""
    one = TrainingSession(
        Path("a"), "session folder", SessionSummary(id="a", gpu_count=1, steps=100, duration_s=10)
    )
    two = SessionSummary(id="b", gpu_count=2, steps=100, duration_s=10, communication=[SYNC])
    report = communication_report(TrainingSession(Path("b"), "session folder", two), [one])
    assert report.verdict == "doubtful"


def test_an_idle_gpu_is_named() -> None:
    gpus = [SessionGpu(index=0, utilization_avg_pct=90), SessionGpu(index=1, utilization_avg_pct=0.2)]
    report = judged(mode="multi", gpu_count=2, communication=[SYNC], gpus=gpus)
    assert report.verdict == "doubtful"
    assert [each.sign for each in report.reasons if each.code == "idle_gpu"] == ["against"]


def test_nothing_known_is_no_bad_news() -> None:
    report = judged()
    assert report.verdict == "unknown"
    assert not is_bad_news(report)
