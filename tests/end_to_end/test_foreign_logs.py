"""A log that several nodes see and that is of none of their jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.cluster import watch
from tests.end_to_end.launched import pause, quick_session
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT

NODES = ("n1", "n2", "n3")
DEAD = """\
2024-05-01 10:00:00 step 100 loss 2.5
[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 9, in <module>
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.
"""
RANK = "import time\nprint('step 1 loss 2.5', flush=True)\ntime.sleep(170)"


@contextmanager
def ranks(folder: Path) -> Iterator[dict[str, list[int]]]:
    """On each node a job of two ranks, each with a log of its own: node -> pids."""
    started: dict[str, list[subprocess.Popen[bytes]]] = {}
    try:
        for name in NODES:
            for rank in range(2):
                numbers = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
                env = {**os.environ, **numbers, "TORCHELASTIC_RUN_ID": f"job-{name}-{os.getpid()}"}
                log = folder / name / f"rank_{rank}.log"
                log.parent.mkdir(exist_ok=True)
                with log.open("ab") as words:
                    argv = [sys.executable, "-c", RANK]
                    started.setdefault(name, []).append(subprocess.Popen(argv, stdout=words, env=env))
        yield {name: [one.pid for one in found] for name, found in started.items()}
    finally:
        for one in (each for found in started.values() for each in found):
            one.kill()
            one.wait()


def proc_of(folder: Path, pids: list[int]) -> str:
    """A node's /proc: with these processes alone."""
    folder.mkdir()
    for name in ("self", "stat", "meminfo", "loadavg", "uptime", "sys", "mounts", *map(str, pids)):
        (folder / name).symlink_to(f"/proc/{name}")
    return str(folder)


def test_a_dead_jobs_log_is_of_no_job_that_runs_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = tmp_path / "old" / "train.log"
    dead.parent.mkdir()
    dead.write_text(DEAD)
    with ranks(tmp_path) as pids:
        procs = {name: {"proc": proc_of(tmp_path / f"proc-{name}", pids[name])} for name in NODES}
        with quick_session(monkeypatch, NODES, procs, log_options=(str(dead),)) as session:

            def settled() -> bool:
                return all(
                    len([one for one in node.processes if one.rank is not None]) == 2
                    and any(one.path == str(dead) and one.searched_to for one in node.logs)
                    for node in session.fleet.nodes.values()
                )

            watch(session, lambda _fleet, _now: settled())
            watch(session, lambda _fleet, _now: bool(session.book.incidents))
            pause(session, 2.0)
            told = [(one.code, one.rank, one.job, len(one.alerts)) for one in session.book.incidents]
            assert told == [("oom.cuda", 1, None, 1)]
