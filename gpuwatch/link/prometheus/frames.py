"""Builds one node's frames from query results: a hello when its GPUs changed, a sample, new Xids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from gpuwatch.agent.kernel.xid_table import meaning
from gpuwatch.link.prometheus.gpu_query import GpuQuery, QueriedGpu, QueriedNode
from gpuwatch.link.prometheus.host_query import QueriedHost
from gpuwatch.link.prometheus.tier_values import built
from gpuwatch.wire import (
    AnyFrame,
    Event,
    GpuInfo,
    GpuMedium,
    GpuSample,
    GpuSlow,
    GpuState,
    Hello,
    Notice,
    Ranks,
    Sample,
    Severity,
)

NO_AGENT = "none"
"""`Hello.python` if there is no agent."""
STATES: dict[str, GpuState] = {"ok": "ok", "lost": "lost", "stuck": "stuck", "unanswered": "unanswered"}
XID_RECENT_S = 3600.0
"""dcgm-exporter's Xids have no time: one present at the start is not reported, later ones are."""


@dataclass
class NodeFrames:
    """Builds the frames of one node; keeps what was sent before, and the frame number."""

    name: str
    interval_s: float
    seq: int = 0
    sent_at: float | None = None
    """The scrape sent last (unix seconds of Prometheus's clock)."""
    inventory: list[GpuInfo] = field(default_factory=list)
    """The GPUs of the last hello, by index."""
    lacks_host: bool = False
    """True if the last query of host values had none for this node."""
    _xids: dict[str, tuple[int, float | None]] = field(default_factory=dict)
    _sent_hello: bool = False
    _sent_notices: list[Notice] = field(default_factory=list)
    """The notices of the last hello."""

    def renew(self) -> None:
        """Make the next calls yield the inventory and the newest scrape again."""
        self._sent_hello, self.sent_at = False, None

    def _number(self) -> int:
        self.seq += 1
        return self.seq

    def hello(self, t: float, node: QueriedNode | None, source: str) -> Iterator[AnyFrame]:
        """Yield a hello and an empty process list if the node's inventory or notices are new or changed."""
        gpus = [] if node is None else [each.info() for each in node.gpus.values()]
        inventory = sorted([each for each in gpus if each is not None], key=lambda each: each.index)
        notices = self._notices(source)
        if self._sent_hello and (inventory, notices) == (self.inventory, self._sent_notices):
            return
        self.inventory, self._sent_notices, self._sent_hello = inventory, notices, True
        yield Hello(
            t=t,
            seq=self._number(),
            host=self.name,
            agent=NO_AGENT,
            python=NO_AGENT,
            pid=0,
            interval_s=self.interval_s,
            gpus=inventory,
            notices=notices,
        )
        yield Ranks(t=t, seq=self._number())  # GPUs are placed by such a list, also by an empty one

    def _notices(self, source: str) -> list[Notice]:
        text = f"values of {source}, scraped every {self.interval_s:.0f} s: no logs, ranks or processes"
        notices = [Notice("prometheus", text)]
        if self.lacks_host:
            notices.append(Notice("no_host_values", f"no CPU, memory, disk or network values in {source}"))
        return notices

    def sample(
        self, t: float, node: QueriedNode | None, host: QueriedHost | None, query: GpuQuery | None
    ) -> Iterator[AnyFrame]:
        """Yield a sample frame of the newest scrape, then an event for each new Xid.

        Fast values that were sent before are left out.
        """
        at = t if node is None or node.scraped_at is None else min(t, node.scraped_at)
        gpus = []
        if node is not None and query is not None:
            is_new = self.sent_at is None or node.scraped_at != self.sent_at
            gpus = [_gpu_sample(each, query, at, with_fast=is_new) for each in node.gpus.values()]
        yield Sample(t=t, seq=self._number(), gpus=gpus, host=None if host is None else host.sample(at))
        if node is not None:
            yield from self._events(t, node)
        self.sent_at = None if node is None else node.scraped_at

    def _events(self, t: float, node: QueriedNode) -> Iterator[Event]:
        for known in node.gpus.values():
            before = self._xids.get(known.uuid)
            if known.xid is None or known.xid == before:
                continue
            self._xids[known.uuid] = known.xid
            code, at = known.xid
            old = at is not None and t - at > XID_RECENT_S
            if old or (at is None and before is None and self.sent_at is None):
                continue
            _, severity, title, remedy = meaning(code, "")
            yield Event(
                t=t if at is None else min(t, at),
                seq=self._number(),
                event="xid",
                title=title,
                severity=cast(Severity, severity),
                gpu=known.uuid,
                code=code,
                remedy=remedy,
                source="prometheus",
            )


def _gpu_sample(known: QueriedGpu, query: GpuQuery, at: float, *, with_fast: bool) -> GpuSample:
    state = STATES.get(known.state, "ok")
    if state == "lost":
        return GpuSample(uuid=known.uuid, state="lost", reason="reported as lost, or no longer in Prometheus")
    medium, slow = known.values.get("medium"), known.values.get("slow")
    return GpuSample(
        uuid=known.uuid,
        state=state,
        fast=query.fast_of(known, at) if with_fast else None,
        medium=built(GpuMedium, {**medium, "t": at}) if medium else None,
        slow=built(GpuSlow, {**slow, "t": at}) if slow else None,
    )
