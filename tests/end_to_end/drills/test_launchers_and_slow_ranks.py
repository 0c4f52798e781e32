"""Real processes: a launcher that is killed, and a slow rank that only its stack shows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from gpuwatch.diagnose.incidents import resolution
from gpuwatch.diagnose.model.failure_classes import LAUNCHER_KILLED
from gpuwatch.diagnose.straggler.alerts import CODE
from gpuwatch.diagnose.training import throughput
from tests.end_to_end.cluster import watch
from tests.end_to_end.hang.hanging import py_spy
from tests.end_to_end.launched import launched, quick_session
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = [*SEEN_BY_EVERY_AGENT, pytest.mark.long]

RANKS, SLOW = 4, 2
STEPS = """
import os, sys, time
folder, rank = sys.argv[1], int(sys.argv[2])
def read_shard():
    time.sleep(0.8 if os.path.exists(folder + "/slow") else 0.1)
def wait_for_the_others(step):
    while not os.path.exists(folder + "/step%d" % step):
        time.sleep(0.01)
for step in range(1, 100000):
    if rank == 2:
        read_shard()
        open(folder + "/step%d" % step, "w").close()
    wait_for_the_others(step)
    print(time.strftime("%Y-%m-%d %H:%M:%S"), "step %d/100000 | loss 2.5" % step, flush=True)
"""
"""Rank 2 reads a shard in each step, and the others wait for it."""


def test_a_killed_launcher_is_named_until_its_ranks_have_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolution, "ATTEMPT_LISTED_S", 5.0)
    with (
        quick_session(monkeypatch) as session,
        launched(session, tmp_path / "job", "orphans", "--inherit", "--tag") as job,
    ):
        job.until(lambda: [one for one in session.fleet.progress.writers.values() if one.job == job.name])
        pids = [process.pid for process in job.ranks().values()]
        try:
            job.launcher.kill()
            with (job.folder / "launcher.out").open("a") as words:  # as the shell that started it
                print(f"train.sh: line 3: {job.launcher.pid} Killed    python launch.py", file=words)
            job.until(
                lambda: any(
                    alert.code == LAUNCHER_KILLED and "line" in {proof.kind for proof in alert.proof}
                    for one in job.incidents()
                    for alert in one.alerts
                )
            )
            job.until(lambda: [(one.code, one.rank) for one in job.incidents()] == [(LAUNCHER_KILLED, None)])
            job.until(lambda: [one.over for one in job.incidents()] == [True])
            assert sorted(process.pid for process in job.ranks().values()) == sorted(pids)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)


def test_a_slow_rank_is_named_by_its_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a timer nor CPU use nor a GPU shows it: it sleeps, as all others do."""
    py_spy()
    monkeypatch.setattr(throughput, "LASTS_S", 3.0)
    run = f"slow-{os.getpid()}"
    with ExitStack() as stack:
        for rank in range(RANKS):
            own = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "TORCHELASTIC_RUN_ID": run}
            log = stack.enter_context((tmp_path / f"rank{rank}.log").open("wb"))
            argv = [sys.executable, "-c", STEPS, str(tmp_path), str(rank)]
            child = subprocess.Popen(argv, env={**os.environ, **own}, stdout=log)
            stack.callback(child.wait)
            stack.callback(child.kill)
        with quick_session(monkeypatch) as session:
            writers = session.fleet.progress.writers
            most = throughput.MIN_PAST_STEPS + throughput.RECENT_STEPS
            watch(session, lambda _f, _n: any(v.job == run and len(v.steps) > most for v in writers.values()))
            (tmp_path / "slow").touch()

            def named() -> list[int | None]:
                alerts = session.book.alerts.values()
                return [each.rank for each in alerts if (each.code, each.job) == (CODE, run)]

            watch(session, lambda _fleet, _now: bool(named()), seconds=150.0)
            assert named() == [SLOW]

            def texts() -> list[str]:
                return [e.text for e in session.book.alerts.values() if (e.code, e.job) == (CODE, run)]

            watch(session, lambda _fleet, _now: ["read_shard" in text for text in texts()] == [True])
