"""Plays faults in a process with its own network, processes and mounts, and a clock that can jump."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.chaos.invariants import Outcome
from tests.chaos.scene.shifted_clock import WallClock, compiled
from tests.end_to_end.cluster import ROOT
from tests.parts import need, need_compiler
from tests.workers.isolation import DRIVER_PIDS

OWN = ("--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
BEGIN = (
    "ip link set lo up && ip address add 127.0.0.2/8 dev lo && mkdir -p /run/netns && "
    'mount -t tmpfs none /run/netns && env "$@"; exit $?'
)
LIMIT_S = 1_500.0


def played(names: Sequence[str], env: Mapping[str, str], program: str = "tests.chaos.play") -> list[Outcome]:
    """Play these faults in one scene; their outcomes. `env`: where no person's settings count.

    Raises:
        AssertionError: something that must come never came; with the end of the program's output.
    """
    need_compiler()
    for part in ("sshd", "ip", "iptables"):
        need(part)
    with tempfile.TemporaryDirectory(prefix="gpuwatch-chaos-") as folder:
        (work := Path(folder) / "work").mkdir()
        outcomes = Path(folder) / "outcomes"
        clock = WallClock(compiled(work), work / "clock-cockpit").variables
        argv = [need("unshare"), *OWN, "sh", "-c", BEGIN, "sh", *(f"{k}={v}" for k, v in clock.items())]
        done = subprocess.run(
            [*argv, sys.executable, "-m", program, str(work), str(outcomes), *names],
            cwd=ROOT,
            env={**env, DRIVER_PIDS: "own"},
            stdout=subprocess.DEVNULL,
            stderr=None if "CHAOS_LOUD" in env else subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-6000:]
        return [Outcome(**each) for each in json.loads(outcomes.read_text())]
