"""A rank of an mpirun-like job is stopped: its launcher's log names no rank, the process's state does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuwatch.diagnose.missing_ranks import stopped
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.report.once.problems.health import placed_conditions
from tests.end_to_end.cluster import watch
from tests.end_to_end.launched import quick_session
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = [*SEEN_BY_EVERY_AGENT, pytest.mark.long]
LAUNCHER = Path(__file__).with_name("piping_launcher.py")


def test_a_stopped_rank_behind_a_pipe_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopped, "STARTED_S", 1.0)
    run = f"piped-{os.getpid()}"
    with quick_session(monkeypatch) as session, (tmp_path / "mpirun.log").open("wb") as log:
        launcher = subprocess.Popen([sys.executable, str(LAUNCHER), run], stdout=log, start_new_session=True)

        def ranks(fleet: Fleet) -> dict[int | None, int]:
            return {one.rank: one.pid for one in fleet.nodes["n1"].processes if one.job == run}

        def reported(state: str) -> list[int | None]:
            alerts = session.book.alerts.values()
            return [
                each.rank
                for each in alerts
                if (each.code, each.job, each.state) == (stopped.CODE, run, state)
            ]

        def of_job() -> set[str]:
            return {each.code for each in session.book.alerts.values() if each.job == run}

        try:
            watch(session, lambda fleet, _now: ranks(fleet).keys() == {0, 1})
            os.kill(ranks(session.fleet)[1], signal.SIGSTOP)
            watch(session, lambda _fleet, _now: reported("firing") == [1])
            found = [each.condition.code for each in placed_conditions(session.fleet, time.monotonic())]
            assert "rank_suspended" in found
            os.kill(ranks(session.fleet)[1], signal.SIGCONT)
            watch(session, lambda _fleet, _now: reported("resolved") == [1])
            os.kill(launcher.pid, signal.SIGSTOP)
            watch(session, lambda _fleet, _now: stopped.LAUNCHER_CODE in of_job())
        finally:
            os.killpg(launcher.pid, signal.SIGKILL)
            launcher.wait()
