"""Real torchrun jobs over gloo, watched over ssh or judged from the logs that they left.

All in one file, so that no two run at a time: whoever watches this machine sees every job on it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.report.scan.report import judged
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan
from gpuwatch.session import Session
from tests.cli.running import gpuwatch
from tests.end_to_end.cluster import ROOT, all_full, fake_driver, node_server, plan_of, watch
from tests.parts import SEEN_BY_EVERY_AGENT, need_torch
from tests.servers.sshd import Client

pytestmark = [*SEEN_BY_EVERY_AGENT, pytest.mark.long]

JOB = Path(__file__).with_name("gloo_job.py")
RANKS, WHOM, TIMEOUT_S = 4, 2, 6.0
CAUSES = {
    "killed": {"rank.killed"},
    "exception": {"rank.exit_error"},
    "hung": {"gloo.op_timeout", "peer.connection_lost"},
}


@contextmanager
def job(folder: Path, how: str) -> Iterator[subprocess.Popen[bytes]]:
    """A job of four ranks: a log folder as `torchrun --log-dir` makes it, and the launcher's own words."""
    argv = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    argv += ["--log-dir", str(folder), "-r", "3", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    argv += ["--monitor-interval", "3"]  # all ranks that give up may say so first
    argv += ["--rdzv-id", f"job-{how}", str(JOB), how, str(WHOM), str(TIMEOUT_S)]
    # every rank lives for some seconds: so long it takes until the processes of a node were all seen
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "STEP_OF_GRIEF": "150"}
    with (folder / "launcher.log").open("wb") as words:
        process = subprocess.Popen(argv, stdout=words, stderr=words, env=env, start_new_session=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def reported(session: Session, how: str) -> list[Incident]:
    """Of this job: others may run, and fail, on the same machine."""
    return [incident for incident in session.book.incidents if incident.job == f"job-{how}"]


def wait_until_told(session: Session, how: str) -> None:
    """Until the incident of this job names the rank; if it never does, print what was reported instead."""
    try:
        watch(session, lambda _fleet, _now: WHOM in [one.rank for one in reported(session, how)], seconds=30)
    except AssertionError as error:
        instead = [f"{one.job}: {one.headline}" for one in session.book.incidents]
        raise AssertionError(f"{error}; incidents: {instead}; alerts: {session.book.alerts}") from error


@pytest.mark.parametrize("how", ["killed", "exception", "hung"])
def test_the_rank_that_failed_first_is_named(tmp_path: Path, how: str) -> None:
    need_torch()
    logs = tmp_path / "logs"
    logs.mkdir()
    client = Client(tmp_path / "client")
    with node_server(tmp_path / "node", client, ["gpu-001"], fake_driver(tmp_path)) as _:
        plan = replace(plan_of(["gpu-001"]), logs=(f"{logs}/**/*.log",))
        with Session(plan, client.options()) as session:
            watch(session, all_full)
            with job(logs, how) as launched:
                watch(session, lambda _fleet, _now: launched.poll() is not None, seconds=90)
            wait_until_told(session, how)
            settle_until = time.monotonic() + 3 * plan.interval_s
            watch(session, lambda _fleet, now: now > settle_until)  # the launcher's last words
            (incident,) = reported(session, how)
    assert (incident.rank, incident.node) == (WHOM, "gpu-001")
    assert incident.code in CAUSES[how]
    assert f"rank {WHOM}" in incident.headline
    if how == "exception":
        assert "ValueError: sample 4711" in incident.headline
        assert incident.confidence == "high"
    assert incident.followers == RANKS - 1
    assert_scan_says_the_same(logs, how)


def assert_scan_says_the_same(logs: Path, how: str) -> None:
    done = gpuwatch("scan", str(logs), "--json")
    assert done.returncode == 1, done.stderr
    (incident,) = json.loads(done.stdout)["incidents"]
    assert incident["rank"] == WHOM
    assert incident["class"] in CAUSES[how]


def ended(logs: Path, how: str, **variables: str) -> list[Incident]:
    """Run the job to its end and scan what it left."""
    need_torch()
    argv = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    argv += ["--log-dir", str(logs), "-r", "3", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    argv += ["--rdzv-id", f"ended-{how}"]  # who watches this machine meanwhile can tell the jobs apart
    argv += [str(JOB), how, str(WHOM), str(TIMEOUT_S)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    with (logs / "launcher.log").open("wb") as words:
        done = subprocess.run(argv, stdout=words, stderr=words, env=env, cwd=ROOT, check=False, timeout=100)
    assert done.returncode != 0
    packs = load_packs()
    return list(judged(scan(gather([logs]), packs.all, cores=1), packs, time.time(), 0.0).incidents)


def test_a_rank_that_does_another_collective_is_named_by_the_others(tmp_path: Path) -> None:
    (incident,) = ended(tmp_path, "mismatch", TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert (incident.code, incident.rank) == ("c10d.collective_mismatch", WHOM)
    assert incident.followers == RANKS - 1


def test_all_ranks_that_raise_the_same_are_not_blamed_on_one(tmp_path: Path) -> None:
    (incident,) = ended(tmp_path, "all")
    assert incident.code == "rank.exit_error"
    assert "from KeyError" in incident.headline
    assert "3 ranks " in incident.headline
    assert incident.confidence != "high"


def test_who_leaves_without_a_word_is_named(tmp_path: Path) -> None:
    (incident,) = ended(tmp_path, "left")
    assert (incident.code, incident.rank) == ("peer.connection_lost", WHOM)
    assert incident.followers == RANKS - 1
