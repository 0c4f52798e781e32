"""1, 50, 200 and 1,000 simulated nodes through gpuwatch, and bare readers of 200 of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench.cpu import Row
from tests.bench.scale.nodes import simulated_nodes
from tests.end_to_end.cluster import ROOT

COUNTS = (1, 50, 200, 1000)
PEERS = ("paramiko", "asyncssh", "openssh")
PEER_NODES = 200
MAX_SHARE, MAX_BYTES = 0.25, 400e6
"""Of 1,000 nodes."""


def measured(folder: Path, nodes: int, module: str, *words: str) -> dict[str, float]:
    """What a module prints about so many nodes."""
    with simulated_nodes(folder, nodes) as config:
        argv = [sys.executable, "-m", module, str(nodes), str(config), *words]
        done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def rows(folder: Path) -> Sequence[Row]:
    """Two lines for each number of nodes, one for each bare reader."""
    found = []
    for nodes in COUNTS:
        seen = measured(folder / str(nodes), nodes, "tests.bench.scale.measure")
        share, most = seen["transport"] + seen["fleet"], nodes == COUNTS[-1]
        text = f"{share:.1%} of a core ({seen['transport']:.1%} links, {seen['fleet']:.1%} fleet)"
        lag = f"lag {seen['lag_p50_s']:.2f} s, 95 % within {seen['lag_p95_s']:.2f} s"
        found += [
            Row(
                f"{nodes:,} simulated nodes x 8 GPUs at 1 Hz over ssh",
                f"{text}; {lag}; connected in {seen['connect_cpu_s']:.1f} s of CPU",
                f"<= {MAX_SHARE:.0%}" if most else "",
                share <= MAX_SHARE if most else None,
                share,
            ),
            Row(
                "their memory",
                f"{seen['rss_bytes'] / 1e6:.0f} MB, {seen['threads']:.0f} threads",
                f"<= {MAX_BYTES / 1e6:.0f} MB" if most else "",
                seen["rss_bytes"] <= MAX_BYTES if most else None,
                seen["rss_bytes"],
            ),
        ]
    for way in PEERS:
        seen = measured(folder / way, PEER_NODES, "tests.bench.scale.peers", way)
        text = f"{seen['share']:.1%} of a core, {seen['rss_mb']:.0f} MB"
        found.append(
            Row(f"{PEER_NODES} of them read by {way} alone, nothing decoded", text, "", None, seen["share"])
        )
    return found
