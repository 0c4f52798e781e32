"""A job of real ranks that hangs, for as long as a test needs it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cli.running import ROOT
from tests.parts import need

JOB = Path(__file__).with_name("hang_job.py")
RANKS, WHOM = 4, 2
PATIENCE_S = 240.0


@contextlib.contextmanager
def hanging_job(
    folder: Path, more: Mapping[str, str] | None = None
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The job's id and its ranks in order, rank 2 in `data_loader_next`, the others in an all_reduce.

    `more` is put into their environment: see hang_job.
    """
    job = f"hanging-{os.getpid()}"
    ranks: list[subprocess.Popen[bytes]] = []
    for rank in range(RANKS):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "TORCHELASTIC_RUN_ID": job}
        env |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **(more or {})}
        env["TORCH_WORKER_SERVER_SOCKET"] = str(folder / f"{rank}.sock")
        argv = [sys.executable, str(JOB), str(folder)]
        ranks.append(subprocess.Popen(argv, env=env, cwd=ROOT, stderr=subprocess.DEVNULL))
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not all((folder / f"ready{rank}").exists() for rank in range(RANKS)):
            assert time.monotonic() < deadline, "the ranks do not come up"
            assert all(each.poll() is None for each in ranks)
            time.sleep(0.05)
        yield job, ranks
    finally:
        for each in ranks:
            each.kill()
        for each in ranks:
            each.wait()


@contextlib.contextmanager
def sleeping_ranks(ras_address: str, python: Path = Path(sys.executable)) -> Iterator[str]:
    """Four processes with a rank's variables that only sleep, and name this address of RAS; the job's id."""
    job = f"sleeping-{os.getpid()}"
    ranks = []
    for rank in range(RANKS):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "TORCHELASTIC_RUN_ID": job}
        env["NCCL_RAS_ADDR"] = ras_address
        env |= {"PATH": "/usr/bin:/bin", "VIRTUAL_ENV": "", "CONDA_PREFIX": ""}
        ranks.append(subprocess.Popen([python, "-c", "import time; time.sleep(600)"], env=env))
    try:
        yield job
    finally:
        for each in ranks:
            each.kill()
        for each in ranks:
            each.wait()


def py_spy() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    path = str(beside) if beside.exists() else need("py-spy")
    probe = subprocess.run([path, "dump", "--pid", str(os.getpid())], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"py-spy cannot look into processes here: {probe.stderr.decode()[-200:]}")
    return path
