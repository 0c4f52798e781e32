"""gpuwatch over simulated ssh nodes, in a process of its own: all its CPU is the links' and the fleet's.

python -m tests.bench.scale.measure NODES SSH_CONFIG
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Sequence

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, Inbox
from gpuwatch.link.stream.options import LinkOptions
from gpuwatch.session import Session
from gpuwatch.wire import Sample
from tests.bench.cpu import rss_bytes
from tests.end_to_end.cluster import watch

SECONDS, SETTLE_S, CONNECT_S = 20.0, 5.0, 480.0
POLL_S = 0.125


class LagInbox(Inbox):
    """An inbox that notes how old each sample is when the session takes it."""

    lags: Sequence[float] = ()

    def drain(self) -> list[Arrival]:
        """Remove and return everything, oldest first."""
        taken, wall = super().drain(), time.time()
        self.lags = [*self.lags, *(wall - each.what.t for each in taken if isinstance(each.what, Sample))]
        return taken


def all_live(fleet: Fleet, now: float) -> bool:
    """Every node is live."""
    return all(node.state(now) == "live" for node in fleet.nodes.values())


def poll(session: Session, seconds: float) -> float:
    """Poll eight times a second for so long; the seconds that it took."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        session.poll()
        time.sleep(POLL_S)
    return time.monotonic() - began


def main(nodes: int, config: str) -> dict[str, float]:
    """Connect, wait until all are live, and measure some seconds."""
    names = [f"gpu-{number:04d}" for number in range(nodes)]
    plan = Plan(tuple(NodeSpec(name) for name in names), interval_s=1.0, source="test")
    cpu, began = time.process_time(), time.monotonic()
    with Session(plan, LinkOptions(ssh_config=config)) as session:
        watch(session, all_live, CONNECT_S)
        connect_s, connect_cpu_s = time.monotonic() - began, time.process_time() - cpu
        poll(session, SETTLE_S)
        session.inbox.__class__ = LagInbox
        inbox = session.inbox
        assert isinstance(inbox, LagInbox)
        frames, switches = session.fleet.version, resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        cpu, own = time.process_time(), time.thread_time()
        wall = poll(session, SECONDS)
        cpu, own = time.process_time() - cpu, time.thread_time() - own
        lags = sorted(inbox.lags)
        return {
            "transport": (cpu - own) / wall,
            "fleet": own / wall,
            "frames_s": (session.fleet.version - frames) / wall,
            "switches_s": (resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - switches) / wall,
            "lag_p50_s": lags[len(lags) // 2],
            "lag_p95_s": lags[int(len(lags) * 0.95)],
            "rss_bytes": rss_bytes(os.getpid()),
            "threads": threading.active_count(),
            "connect_s": connect_s,
            "connect_cpu_s": connect_cpu_s,
            "dropped": inbox.dropped,
        }


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2])))
