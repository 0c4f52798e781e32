"""Probes that stand still: results of the demo's simulated nodes, whole or as they were on the way there."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import cache

from msgspec.structs import replace

from gpuwatch.clock import SessionClock
from gpuwatch.link.demo.links import EPOCH
from gpuwatch.probe.judging.judge import judge
from gpuwatch.probe.orchestration.conductor import Conductor
from gpuwatch.probe.orchestration.nodes.simulated import Simulation
from gpuwatch.probe.probe_request import ProbeRequest
from gpuwatch.probe.protocol import GpuUser
from gpuwatch.probe.results import ProbedNode, Results
from tests.tui.still import StillSession, demo_session


class StillProbing:
    """Results that only a test changes; what it is asked for is kept."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.keeps_ranks = True
        self.asked: list[str] = []
        self.retested: list[list[tuple[int, int]]] = []

    def confirm(self) -> None:
        """Keep it."""
        self.asked.append("confirm")

    def cancel(self) -> None:
        """Keep it, and end."""
        self.asked.append("cancel")
        self.results.phase = "cancelled"
        self.results.version += 1

    def retest(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Keep which."""
        self.retested.append(list(pairs))


@cache
def _measured(nodes: int) -> tuple[Results, Results]:
    names = [f"gpu-{number:03}" for number in range(1, nodes + 1)]
    simulation = Simulation(names, pace=0)
    conductor = Conductor(
        [simulation.line(name) for name in names], ProbeRequest(), clock=SessionClock(wall=lambda: EPOCH)
    )
    conductor.start()
    seen = -1
    while conductor.results.phase != "asking":
        seen = max(seen, conductor.results.version)
    asking = _copy(conductor.results)
    conductor.confirm()
    assert conductor.wait(60)
    done = _copy(conductor.results)
    conductor.close()
    assert done.phase == "done", done.reason
    return asking, replace(done, ended=EPOCH + 19)


def _copy(results: Results) -> Results:
    copied: Results = pickle.loads(pickle.dumps(results, pickle.HIGHEST_PROTOCOL))  # noqa: S301 - our own
    return copied


def asking(nodes: int = 16) -> Results:
    """The nodes have been looked at; the person is asked."""
    return _copy(_measured(nodes)[0])


def done(nodes: int = 16) -> Results:
    """Measured and judged."""
    return _copy(_measured(nodes)[1])


def running(share: float, nodes: int = 16) -> Results:
    """As it was when so much of the pairs was measured."""
    whole = done(nodes)
    count = int(len(whole.pairs) * share)
    pairs = dict(list(whole.pairs.items())[:count])
    testing = tuple(list(whole.pairs)[count : count + 4 * nodes])
    steps = int(len(whole.collectives) + (whole.all_steps - len(whole.collectives)) * share)
    part = replace(
        whole, phase="pairs", pairs=pairs, testing=testing, gpus={}, counters=[], ended=None, verdict=None,
        done_steps=steps, left_s=11.0,
    )  # fmt: skip
    part.verdict = judge(part)
    return part


def refused(nodes: int = 16) -> Results:
    """A job runs."""
    results = asking(nodes)
    results.phase, results.estimate, results.slots = "refused", None, []
    results.reason = "GPUs are busy: a probe would disturb what runs there; end it first"
    users = [
        GpuUser(pid=40_000 + gpu, name="python train.py", user="ana", memory_bytes=72 << 30)
        for gpu in range(8)
    ]
    results.busy = {f"gpu-{number:03}": list(users) for number in range(1, 4)}
    bare = "no Python with torch (/usr/bin/python3: none); name one with `python:` in the hosts file"
    results.nodes[3] = ProbedNode("gpu-004", None, bare)
    return results


def probe_session(*results: Results, second: float = 52) -> StillSession:
    """The demo with these probes, the newest last."""
    session = demo_session(second)
    session.probes = [StillProbing(each) for each in results]
    return session
