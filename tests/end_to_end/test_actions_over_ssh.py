"""Actions on a node that is reached by a real ssh: a rank is ended, a GPU reset, and both are noted."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gpuwatch.diagnose.actions.action import ActionKind, ActionOutcome, ActionTarget
from gpuwatch.diagnose.actions.offers import possible_actions
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.session import Session
from tests.end_to_end.cluster import ROOT, fake_driver, plan_of, watch
from tests.kernel_log import for_nodes
from tests.parts import SEEN_BY_EVERY_AGENT
from tests.servers.sshd import Client, Sshd, setenv

pytestmark = [pytest.mark.long, *SEEN_BY_EVERY_AGENT]
WAIT_S = 300.0
RESET = '#!/bin/sh\necho "GPU $3 was successfully reset."\necho "$*" >> {called}\n'
RANK = "import time\nwhile True:\n    print('step 1/100 loss 2.0', flush=True)\n    time.sleep(1)\n"


def pids(node: Node) -> set[int]:
    """The processes of rank 3."""
    return {each.pid for each in node.processes if each.rank == 3}


def act(session: Session, target: ActionTarget, kind: ActionKind) -> ActionOutcome:
    """The outcome of an action that was offered and confirmed."""
    action = next(each for each in possible_actions(target, session.fleet) if each.kind == kind)
    run = session.act(action, target)
    watch(session, lambda _fleet, _now: run.outcome is not None, WAIT_S)
    assert run.outcome is not None
    return run.outcome


def test_a_rank_ends_and_a_gpu_is_reset(tmp_path: Path) -> None:
    driver, client, called = fake_driver(tmp_path), Client(tmp_path / "client"), tmp_path / "called"
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "nvidia-smi").write_text(RESET.format(called=called))
    (programs / "nvidia-smi").chmod(0o755)
    found = {key: value for key, value in driver.env().items() if key.startswith(("FAKE_", "LD_LIBRARY"))}
    home = {"HOME": str(tmp_path / "sshd" / "home"), "PATH": f"{programs}:{os.environ['PATH']}"}
    line = "SetEnv " + setenv({**home, **found, **for_nodes()})
    numbers = {"RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "node-1"}
    with (
        Sshd(tmp_path / "sshd", client=client, names=("node-1",), lines=(line,)),
        (tmp_path / "rank-3.log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-c", RANK], env={**os.environ, **numbers}, stdout=log, cwd=ROOT
        ) as rank,
    ):
        try:
            with closing(Session(plan_of(["node-1"]), client.options())) as session:
                session.start()
                node = session.fleet.nodes["node-1"]
                watch(session, lambda _fleet, _now: rank.pid in pids(node) and len(node.gpus) == 8, WAIT_S)
                done = act(session, ActionTarget("node-1", gpu=2), "reset_gpu")
                assert (done.exit_status, done.problem) == (0, "")
                (asked,) = called.read_text().splitlines()
                assert asked == f"--gpu-reset -i {node.gpu_list()[2].info.uuid}"
                done = act(session, ActionTarget("node-1", rank=3), "end_rank")
                assert (done.exit_status, done.problem) == (0, "")
                watch(session, lambda _fleet, _now: rank.poll() is not None, WAIT_S)
                watch(session, lambda _fleet, _now: not pids(node), WAIT_S)
        finally:
            rank.kill()
