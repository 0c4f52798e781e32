"""Launchers themselves, whose own words and folders are the point."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from gpuwatch.session import Session
from tests.drills.jobs import Job, end
from tests.drills.namespaces import Cluster
from tests.parts import SEEN_BY_EVERY_AGENT, need_torch

pytestmark = SEEN_BY_EVERY_AGENT

TRAINS = """
import os, time
for step in range(1, 100000):
    print(f"step {step}/100000 loss 2.5", flush=True)
    time.sleep(0.2)
"""


@pytest.mark.long  # torchrun imports torch, on each node
def test_a_killed_rank_of_torchrun_on_two_nodes_is_named(
    cluster: Cluster, session: Session, tmp_path: Path
) -> None:
    """With --log-dir, --redirects and --tee the exit code stands in torchrun's own output alone."""
    need_torch()
    (tmp_path / "train.py").write_text(TRAINS)
    name = "elastic"
    with ExitStack() as stack:
        launchers = []
        for index, node in enumerate(("n1", "n2")):
            argv = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(index)]
            argv += ["--nproc-per-node", "2", "--rdzv-id", name, "--monitor-interval", "1"]
            argv += ["--master-addr", "127.0.0.1", "--master-port", "29517"]
            argv += ["--log-dir", str(tmp_path / node), "--redirects", "3", "--tee", "3"]
            with (tmp_path / f"launcher-{node}.out").open("wb") as words:
                launcher = cluster[node].start(
                    [*argv, str(tmp_path / "train.py")], {"OMP_NUM_THREADS": "1"}, output=words
                )
            stack.callback(end, launcher)
            launchers.append(launcher)
        run = Job(name, tmp_path, ("n1", "n2"), tuple(launchers), cluster, session)
        run.until(lambda: run.pids().keys() == {0, 1, 2, 3}, seconds=120.0)
        run.until(lambda: run.steps(3), seconds=120.0)
        run.signal(3)
        run.until(lambda: run.named() == [("rank.killed", "n2", 3)], seconds=90.0)
