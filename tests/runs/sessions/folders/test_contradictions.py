"""A summary that contradicts itself or its folder is no better news than the worse of both."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gpuwatch.runs.sessions.find import MAX_PROBLEMS, find_sessions
from gpuwatch.runs.sessions.model.session import TrainingSession
from tests.runs.sessions.written import MAIN, MULTI, SINGLE, write_session


def one(logs: Path) -> TrainingSession:
    (found,) = find_sessions([], logs).sessions
    return found


def test_a_session_with_an_exit_code_has_not_completed(tmp_path: Path) -> None:
    ends: list[dict[str, Any]] = [{"exit_code": 1}, {"exit_signal": "SIGKILL"}, {"exit_code": 0}]
    for number, facts in enumerate(ends):
        write_session(tmp_path / str(number), MULTI, {"status": "completed", **facts})
    states = [one(tmp_path / str(number)).summary.status for number in range(3)]
    assert states == ["failed", "failed", "completed"]


def test_the_last_finite_loss_is_not_final_where_the_summary_states_nan(tmp_path: Path) -> None:
    facts = {"final_loss": None, "warnings": [{"class": "num.nan_loss", "severity": "error"}]}
    write_session(tmp_path, MULTI, facts, main=MAIN)
    summary = one(tmp_path).summary
    assert (summary.final_loss, summary.has_non_finite_loss) == (None, True)


def test_a_session_cannot_take_the_name_of_another(tmp_path: Path) -> None:
    write_session(tmp_path, MULTI, {"id": SINGLE})
    session = one(tmp_path)
    assert session.name == MULTI
    assert any(SINGLE in problem for problem in session.problems)


def test_problems_are_bounded(tmp_path: Path) -> None:
    write_session(tmp_path, MULTI, {"ranks": [{"rank": "x"}] * 5000})
    assert len(one(tmp_path).problems) == MAX_PROBLEMS + 1


def test_a_pipe_named_like_an_event_file_is_named_and_not_waited_for(tmp_path: Path) -> None:
    names = ("events.out.tfevents.1", "a.wandb", "trainer_state.json", "rank_0.log")
    for name in names:
        os.mkfifo(tmp_path / name)
    (session,) = find_sessions([str(tmp_path)], tmp_path).sessions
    for name in names[:3]:
        assert any(name in problem for problem in session.problems), session.problems


def test_a_hole_in_an_event_file_ends_it(tmp_path: Path) -> None:
    with (tmp_path / "events.out.tfevents.1").open("wb") as file:
        file.truncate(3 << 30)
    (session,) = find_sessions([str(tmp_path)], tmp_path).sessions
    assert any("damaged" in problem for problem in session.problems)
