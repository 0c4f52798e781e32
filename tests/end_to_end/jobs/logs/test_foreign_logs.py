"""A log that several nodes see and that is of none of their jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.agent.trees import own_proc
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
TABLE = """\
2024-05-01 10:00:00 step 100 loss 2.5
E0501 10:00:05 255 api.py:1002] failed (exitcode: 3) local_rank: 1 (pid: 257) of binary: /usr/bin/python
Root Cause (first observed failure):
[0]:
  time      : 2024-05-01_10:00:05
  host      : {host}
  rank      : 3 (local_rank: 1)
  exitcode  : 3 (pid: 257)
"""
DRIVER = """\
(RayTrainWorker pid=4301, ip=10.77.0.17) step 100/5000 loss 3.21
2024-05-01 10:00:05,811\tERROR tune_controller.py:1331 -- Trial task failed for trial TorchTrainer_1a2b3_00000
ray.exceptions.RayTaskError(RuntimeError): ray::_Inner.train() (pid=4200, ip=10.77.0.17, actor_id=9f1)
ray.exceptions.RayTaskError(RuntimeError): ray::_RayTrainWorker__execute.get_next() (pid=5302, ip=10.77.0.28)
  File "/home/u/train.py", line 61, in train_func
RuntimeError: CUDA error: an illegal memory access was encountered
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


@pytest.mark.long  # a drill over ssh is among the others
def test_a_dead_jobs_log_is_of_no_job_that_runs_and_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = tmp_path / "old" / "train.log"
    dead.parent.mkdir()
    dead.write_text(DEAD)
    with ranks(tmp_path) as pids:
        procs = {name: {"proc": own_proc(tmp_path / f"proc-{name}", pids[name])} for name in NODES}
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
            watch(session, lambda _fleet, _now: not session.book.behind)
            reported = [(one.code, one.rank, one.job, len(one.alerts)) for one in session.book.incidents]
            assert reported == [("oom.cuda", 1, None, 1)]


def nodes_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, nodes: tuple[str, ...]
) -> set[tuple[str, str | None]]:
    """Code and node of every incident and alert that the logs of a folder lead to, in nodes without jobs."""
    procs = {name: {"proc": own_proc(folder.parent / f"proc-{name}")} for name in nodes}
    with quick_session(monkeypatch, nodes, procs, log_options=(f"{folder}/*",)) as session:

        def settled() -> bool:
            listed = [node.logs for node in session.fleet.nodes.values()]
            return all(logs and all(one.searched_to for one in logs) for logs in listed)

        watch(session, lambda _fleet, _now: settled() and bool(session.book.incidents))
        pause(session, 1.5)
        watch(session, lambda _fleet, _now: not session.book.behind)
        reported = session.book.incidents
        return {(a.code, a.node) for one in reported for a in one.alerts} | {
            (one.code, one.node) for one in reported
        }


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("host", "node"), [("n2", "n2"), ("n1", "n1"), ("elsewhere", None)])
def test_a_table_in_a_file_that_several_nodes_see_names_the_node_of_its_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, node: str | None
) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "launcher.log").write_text(TABLE.format(host=host))
    assert nodes_named(folder, monkeypatch, ("n1", "n2")) == {("rank.exit_error", node)}


def test_a_file_that_several_nodes_see_is_of_the_node_that_its_name_tells_or_of_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "worker-n2.log").write_text(DEAD)
    (folder / "rank_1.log").write_text(DEAD.replace("rank1", "rank0").replace("20.00", "30.00"))
    assert nodes_named(folder, monkeypatch, ("n1", "n2")) == {("oom.cuda", "n2"), ("oom.cuda", None)}


def test_the_driver_of_a_ray_job_is_not_where_its_task_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "driver.log").write_text(DRIVER)
    assert {node for _, node in nodes_named(folder, monkeypatch, ("n1",))} == {None}
