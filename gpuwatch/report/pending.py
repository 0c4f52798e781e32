"""What has not answered when a report is due: neither healthy nor unhealthy, not known yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gpuwatch.diagnose.node_checks import STARTING
from gpuwatch.fleet.node import Gpu, Node
from gpuwatch.fleet.readings import no_answer

Part: TypeAlias = Literal["node", "driver", "gpu", "host"]


@dataclass(frozen=True)
class Pending:
    """One part of a node that a report is due of, and that has told nothing."""

    node: str
    part: Part
    text: str
    gpu: Gpu | None = None
    waited_s: float | None = None
    """Seconds that it has been waited for."""

    @property
    def place(self) -> str:
        """`node` or `node GPU 3`."""
        return self.node if self.gpu is None else f"{self.node} GPU {self.gpu.info.index}"


def pending(nodes: Iterable[Node], now: float) -> list[Pending]:
    """Everything that is due and not known yet, node by node."""
    return [each for node in nodes for each in pending_of(node, now)]


def pending_of(node: Node, now: float) -> Iterator[Pending]:
    """What one node has not told. Of a lost or stale node nothing is waited for: that is a finding."""
    if node.state(now) == "connecting":
        waited = None if node.link_at is None else max(0.0, now - node.link_at)
        yield Pending(node.name, "node", "no answer yet", waited_s=waited)
    elif node.state(now) == "live" and node.hello is None:
        yield Pending(node.name, "node", "no answer yet from its agent")
    elif node.state(now) == "live":
        yield from _driver(node, now)
        if node.host_at is None:
            yield Pending(node.name, "host", "no answer yet about the host")


def _driver(node: Node, now: float) -> Iterator[Pending]:
    notices = node.hello.notices if node.hello else ()
    for notice in notices:
        if notice.code == STARTING:
            yield Pending(node.name, "driver", notice.text)
    for gpu in node.gpu_list():
        if waited_for(gpu) and gpu.state != "stuck":  # stuck is a finding, with the same weight
            yield Pending(node.name, "gpu", no_answer(gpu, now), gpu, gpu.stuck_s(now))


def waited_for(gpu: Gpu) -> bool:
    """Whether a GPU has told no values yet and still may: stuck at start is what a cold driver looks like."""
    return gpu.fast_at is None and gpu.state != "lost"
