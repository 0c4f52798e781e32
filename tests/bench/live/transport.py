"""200 simulated nodes at 1 Hz through paramiko: CPU of the process with the links, and what it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from gpuwatch.session import Session
from tests.bench.cpu import Row
from tests.end_to_end.cluster import ROOT, plan_of, watch
from tests.servers.sshd import Client, Sshd

NODES = 200
SECONDS = 20.0


def measure(folder: Path) -> dict[str, float]:
    """Runs in a process of its own, so that its CPU is the transport's."""
    client = Client(folder / "client")
    names = [f"gpu-{number:03d}" for number in range(NODES)]
    agent = f"{sys.executable} {Path(__file__).with_name('simulated_agent.py')}"
    with Sshd(folder / "sshd", client=client, names=names, lines=(f"ForceCommand {agent}",)) as sshd:
        threads, files = threading.active_count(), _open_files()
        with Session(plan_of(names), client.options()) as session:
            watch(
                session,
                lambda fleet, now: all(node.state(now) == "live" for node in fleet.nodes.values()),
                180,
            )
            frames, wall = session.fleet.version, time.monotonic()
            cpu, own = time.process_time(), time.thread_time()
            while time.monotonic() - wall < SECONDS:
                session.poll()
                time.sleep(0.125)
            cpu, own, wall = time.process_time() - cpu, time.thread_time() - own, time.monotonic() - wall
            frames = session.fleet.version - frames
        left_threads, left_files = threading.active_count() - threads, _open_files() - files
        remote = _remote_left(sshd)
    return {
        "transport": (cpu - own) / wall,
        "fleet": own / wall,
        "us": cpu / frames * 1e6,
        "threads": left_threads,
        "files": left_files,
        "remote": remote,
    }


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count, not paths


def _remote_left(sshd: Sshd) -> int:
    deadline = time.monotonic() + 10
    while sshd.sessions() and time.monotonic() < deadline:
        time.sleep(0.1)
    return len(sshd.sessions())


def rows(folder: Path) -> Sequence[Row]:
    """The transport's line of the table."""
    argv = [sys.executable, "-m", "tests.bench.live.transport", str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=True)
    seen = json.loads(done.stdout.splitlines()[-1])
    left = seen["threads"] + seen["files"] + seen["remote"]
    return [
        Row(
            f"{NODES} nodes x 8 GPUs at 1 Hz through paramiko: transport and decoding",
            f"{seen['transport']:.1%} of a core",
            "<= 8 %",
            seen["transport"] <= 0.08,
            seen["transport"],
        ),
        Row(
            "the same: the fleet with its histories",
            f"{seen['fleet']:.1%} of a core",
            "",
            None,
            seen["fleet"],
        ),
        Row(
            "threads, descriptors, remote processes left after exit",
            f"{seen['threads']}, {seen['files']}, {seen['remote']}",
            "0, 0, 0",
            left == 0,
            left,
        ),
    ]


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
