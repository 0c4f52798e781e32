"""Real processes and a real agent: a pid namespace, a lone GPU, a dead data loader, a rank that stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from pathlib import Path

import pytest

from gpuwatch.diagnose.health import peer_comparison
from gpuwatch.diagnose.missing_ranks import missing, unended
from gpuwatch.report.once.problems.health import placed_conditions
from gpuwatch.report.scan.report import judged
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan
from tests.end_to_end.cluster import fake_driver, watch
from tests.end_to_end.drills.rank_processes import stepping
from tests.end_to_end.launched import Launched, launched, quick_session
from tests.parts import SEEN_BY_EVERY_AGENT
from tests.workers.isolation import own_processes

pytestmark = [*SEEN_BY_EVERY_AGENT, pytest.mark.long]

LAUNCHER = Path(__file__).parents[1] / "stub_launcher.py"
SHARED = ("--inherit", "--tag")


def test_a_rank_in_a_namespace_of_its_own_is_named_and_its_file_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pids differ inside, and its log can be reached through the roots of its processes only."""
    if os.geteuid() != 0 or not own_processes():
        pytest.skip("no namespaces of one's own are permitted here")
    inside, run = tmp_path / "inside", f"boxed-{os.getpid()}"
    inside.mkdir()
    command = (
        f"mount -t tmpfs none {inside} && mkdir {inside}/ctl && "
        f"exec {sys.executable} {LAUNCHER} {inside} --run-id {run} --inherit --tag > {inside}/train.log 2>&1"
    )
    box = subprocess.Popen(
        ["unshare", "-m", "-p", "--fork", "--kill-child", "--mount-proc", "sh", "-c", command]
    )
    try:
        with quick_session(monkeypatch) as session:
            job = Launched(run, inside, box, session)
            node = session.fleet.nodes["n1"]
            job.until(lambda: len(job.ranks()) == 2 and any(len(one.pids) > 1 for one in node.logs))
            logs = [one for one in node.logs if one.path.endswith("inside/train.log")]
            assert [sorted(one.pids) for one in logs] == [sorted(p.pid for p in job.ranks().values())]
            assert all(process.inner_pid not in (None, process.pid) for process in job.ranks().values())
            job.until(lambda: [one for one in session.fleet.progress.writers.values() if one.job == run])
            job.kill(1)
            job.until(lambda: [(one.code, one.rank) for one in job.incidents()] == [("rank.killed", 1)])
    finally:
        box.kill()
        box.wait()


@pytest.mark.parametrize(
    ("used", "ranks", "code"), [((95, 0, 0, 0), 1, "lone_gpu"), ((95, 45), 2, "less_used_than_peers")]
)
def test_gpus_that_a_job_leaves_idle_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: tuple[int, ...], ranks: int, code: str
) -> None:
    monkeypatch.setattr(peer_comparison, "USED_S", 4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    driver = fake_driver(tmp_path)
    for name, value in driver.env().items():
        monkeypatch.setenv(name, value)
    with ExitStack() as stack:
        run = f"lone-{os.getpid()}"
        pids = [stack.enter_context(stepping(tmp_path / "run", r, ranks, run)).pid for r in range(ranks)]
        held = [f"process {gpu} {pid} 40000000000 compute 50" for gpu, pid in enumerate(pids)]
        busy = [f"set {gpu} utilization {pct}" for gpu, pct in enumerate(used)]
        driver.set(f"gpus {len(used)}", *busy, *held)
        with quick_session(monkeypatch) as session:

            def codes() -> list[str]:
                return [each.code for each in session.book.alerts.values()]

            watch(session, lambda _fleet, _now: code in codes())
            assert {"lone_gpu", "less_used_than_peers"}.intersection(codes()) == {code}
            by_once = [each.condition.code for each in placed_conditions(session.fleet, time.monotonic())]
            assert by_once.count("lone_gpu") == (code == "lone_gpu")


def test_the_container_record_beside_the_logs_of_real_ranks_gives_the_cause(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with ExitStack() as stack:
        ranks = [stack.enter_context(stepping(run, rank, 2, "recorded")) for rank in range(2)]
        deadline = time.monotonic() + 60.0
        while not all((run / f"rank{rank}.log").stat().st_size for rank in range(2)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for process in ranks:
            process.send_signal(signal.SIGKILL)
            process.wait()
    ended = datetime.now(timezone.utc)
    (run / "inspect.json").write_text(
        '[\n    {\n        "Id": "0a1b2c",\n        "State": {\n            "Status": "exited",\n'
        '            "OOMKilled": true,\n            "ExitCode": 137,\n'
        f'            "FinishedAt": "{ended:%Y-%m-%dT%H:%M:%S}.000000000Z"\n        }},\n'
        '        "Config": {\n            "Hostname": "gpu-003",\n            "Env": [\n'
        '                "RANK=1",\n                "WORLD_SIZE=2"\n            ]\n        }\n    }\n]\n'
    )
    packs = load_packs()
    judgement = judged(scan(gather([run]), packs.rules), packs, time.time(), 0.1)
    (incident,) = judgement.incidents
    assert (incident.code.startswith("oom."), incident.rank) == (True, 1)
    assert abs(incident.first - ended.timestamp()) < 2.0


@contextmanager
def child_of(job: Launched, rank: int) -> Iterator[int]:
    """Make a rank start a child that waits; yield its pid."""
    job.order(rank, "worker")
    pid_file = job.folder / "worker.pid"
    job.until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
    yield int(pid_file.read_text())


def test_a_dead_data_loader_is_of_the_rank_that_had_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rank's own line names only the worker's pid, in a file of all ranks."""
    with (
        quick_session(monkeypatch) as session,
        launched(session, tmp_path / "job", "loader", "--inherit") as job,
        child_of(job, 1) as worker,
    ):
        job.until(lambda: any(worker in place.children for place in session.book.places.ranks))
        os.kill(worker, signal.SIGKILL)
        job.until(lambda: [(one.code, one.rank) for one in job.incidents()] == [("data.loader_crash", 1)])
        alerts = session.book.alerts.values()
        assert [one.rank for one in alerts if one.code == "data.loader_crash"] == [1]


def test_a_rank_that_stays_after_the_training_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unended, "UNENDED_S", 3.0)
    monkeypatch.setattr(missing, "STARTED_S", 1.0)
    with (
        quick_session(monkeypatch) as session,
        launched(session, tmp_path / "job", "stays", *SHARED, "--stay") as job,
    ):
        job.order(0, "finish")
        job.order(1, "linger")
        job.until(
            lambda: [a for a in session.book.alerts.values() if (a.code, a.job) == (unended.CODE, job.name)]
        )
        assert job.incidents() == []
        found = [each.condition.code for each in placed_conditions(session.fleet, time.monotonic())]
        assert found.count("rank_unended") == 1


def test_a_dead_data_loader_in_a_container_is_of_the_rank_that_had_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rank's line has the worker's pid in the container, which is another one on the node."""
    if os.geteuid() != 0 or not own_processes():
        pytest.skip("no namespaces of one's own are permitted here")
    run = f"boxed-loader-{os.getpid()}"
    command = (
        f"exec {sys.executable} {LAUNCHER} {tmp_path} --run-id {run} --inherit > {tmp_path}/train.log 2>&1"
    )
    box = subprocess.Popen(["unshare", "-p", "--fork", "--kill-child", "--mount-proc", "sh", "-c", command])
    try:
        with quick_session(monkeypatch) as session:
            job = Launched(run, tmp_path, box, session)
            job.until(lambda: len(job.ranks()) == 2)
            with child_of(job, 1) as inner:

                def worker() -> int | None:
                    (rank,) = (
                        each for each in session.book.places.ranks if (each.job, each.rank) == (run, 1)
                    )
                    others = [pid for pid in rank.children if pid != inner]
                    return others[-1] if inner in rank.children and others else None

                job.until(worker)
                pid = worker()
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
                job.until(lambda: [(e.code, e.rank) for e in job.incidents()] == [("data.loader_crash", 1)])
    finally:
        box.kill()
        box.wait()
