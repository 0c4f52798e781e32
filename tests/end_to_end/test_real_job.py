"""A real torchrun job over gloo, watched over ssh: the rank that came to grief is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gpuwatch.diagnose.incident import Incident
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.session import Session
from tests.end_to_end.cluster import ROOT, all_full, fake_driver, node_server, plan_of, watch
from tests.parts import need_module
from tests.sshd import Client

JOB = Path(__file__).with_name("gloo_job.py")
RANKS, WHOM, TIMEOUT_S = 4, 2, 6.0
CAUSES = {"killed": {"rank.killed"}, "exception": {"rank.exit_error"}, "hung": {"unknown", "gloo.op_timeout"}}


@contextmanager
def job(folder: Path, how: str) -> Iterator[subprocess.Popen[bytes]]:
    """A job of four ranks: a log folder as `torchrun --log-dir` makes it, and the launcher's own words."""
    argv = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    argv += ["--log-dir", str(folder), "-r", "3", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    argv += ["--monitor-interval", "3"]  # all ranks that give up may say so first
    argv += ["--rdzv-id", f"job-{how}", str(JOB), how, str(WHOM), str(TIMEOUT_S)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with (folder / "launcher.log").open("wb") as words:
        process = subprocess.Popen(argv, stdout=words, stderr=words, env=env, start_new_session=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def told(session: Session, whom: int) -> list[Incident]:
    return [incident for incident in session.book.incidents if incident.rank == whom]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["killed", "exception", "hung"])
def test_the_rank_that_failed_first_is_named(tmp_path: Path, how: str) -> None:
    need_module("torch", "pip install torch (the CPU build is enough)")
    logs = tmp_path / "logs"
    logs.mkdir()
    client = Client(tmp_path / "client")
    with node_server(tmp_path / "node", client, ["gpu-001"], fake_driver(tmp_path)) as _:
        plan = replace(plan_of(["gpu-001"]), logs=(f"{logs}/**/*.log",))
        with Session(plan, client.options()) as session:
            watch(session, all_full)
            with job(logs, how) as launched:

                def ended_and_told(_fleet: Fleet, _now: float) -> bool:
                    return launched.poll() is not None and bool(told(session, WHOM))

                watch(session, ended_and_told, seconds=200)
            settle_until = time.monotonic() + 3 * plan.interval_s
            watch(session, lambda _fleet, now: now > settle_until)  # the launcher's last words
            (incident,) = [one for one in session.book.incidents if one.job in (None, f"job-{how}")]
    assert (incident.rank, incident.node) == (WHOM, "gpu-001")
    assert incident.code in CAUSES[how]
    assert f"rank {WHOM}" in incident.sentence
    if how == "exception":
        assert "ValueError: sample 4711 has no label" in incident.sentence
        assert incident.confidence == "high"
    assert incident.followers == RANKS - 1
    assert_scan_says_the_same(logs, how)


def assert_scan_says_the_same(logs: Path, how: str) -> None:
    argv = [sys.executable, "-m", "gpuwatch", "scan", str(logs), "--json"]
    done = subprocess.run(argv, capture_output=True, cwd=ROOT, check=False)
    assert done.returncode == 1, done.stderr
    (incident,) = json.loads(done.stdout)["incidents"]
    assert incident["rank"] == WHOM
    assert incident["class"] in CAUSES[how]
