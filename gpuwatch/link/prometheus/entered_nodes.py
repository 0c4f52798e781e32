"""Nodes of a Prometheus that are also connected over ssh, because the operator opened their screen."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import structs
from msgspec.structs import replace

from gpuwatch.link.stream.inbox import Arrival, ArrivalSink, LinkStatus
from gpuwatch.link.stream.link import Link
from gpuwatch.plain import plain
from gpuwatch.shell_command import value
from gpuwatch.wire import Hello

if TYPE_CHECKING:
    from gpuwatch.link.prometheus.links import PrometheusLink, PrometheusPump

MAX_ENTERED = 8
"""Maximum number of connected nodes; for a ninth, the one entered longest ago is disconnected."""
Connect = Callable[[str, ArrivalSink], Link]
"""Creates the link to a node's agent, which puts what arrives into the sink; not started."""


class AgentArrivals:
    """The inbox of an entered node's agent; while the agent is live, it replaces Prometheus as the source."""

    def __init__(self, node: str, pump: PrometheusPump, inbox: ArrivalSink) -> None:
        self._node, self._pump, self._inbox = node, pump, inbox
        self._live = self._closed = False
        self._lock = threading.Lock()

    def put(self, arrival: Arrival) -> None:
        """Pass on what the agent sends while it is live; else show only why it is not."""
        what = arrival.what
        with self._lock:
            if self._closed:
                return
            if not isinstance(what, LinkStatus):
                if self._live:
                    self._inbox.put(self._with_gpus(arrival, what) if isinstance(what, Hello) else arrival)
                return
            if what.phase == "live":
                self._live = True
                self._pump.leave_out(self._node)
                self._inbox.put(arrival)
                return
            self._lose(what.reason or "connecting")

    def _with_gpus(self, arrival: Arrival, hello: Hello) -> Arrival:
        """Return an arrived hello, with the GPUs that Prometheus knows if the agent sees none (no NVML)."""
        if hello.gpus:
            return arrival
        return replace(arrival, what=structs.replace(hello, gpus=self._pump.keep_gpus(self._node)))

    def close(self) -> None:
        """Make Prometheus the source of the node's values again."""
        with self._lock:
            if not self._closed:
                self._lose("")
                self._closed = True

    def _lose(self, reason: str) -> None:
        note = f"over ssh: {plain(reason)}" if reason else ""
        if self._live:
            self._live = False
            self._pump.put(self._node, LinkStatus("lost", note))  # open requests fail
            self._pump.take_back(self._node, note)
        else:
            self._pump.note(self._node, note)


class EnteredNodes:
    """Connects nodes that the operator enters over ssh, at most `MAX_ENTERED` at a time."""

    def __init__(self, links: Mapping[str, PrometheusLink], inbox: ArrivalSink, connect: Connect) -> None:
        """Create the collection; no node is connected yet.

        Args:
            links: By node.
            inbox: Of the session.
            connect: Creates the link to a node's agent.
        """
        self._links, self._inbox, self._connect = links, inbox, connect
        self._entered: OrderedDict[str, AgentArrivals] = OrderedDict()

    def enter(self, node: str) -> None:
        """Connect to a node over ssh, unless it is connected already; does not block.

        Beyond `MAX_ENTERED` nodes, the one that was entered longest ago is left.
        """
        if node in self._entered:
            self._entered.move_to_end(node)
            return
        link = self._links.get(node)
        if link is None:
            return
        if value("node", node) is None:
            link.pump.note(node, "over ssh: the name in Prometheus is not a host name")
            return
        sink = self._entered[node] = AgentArrivals(node, link.pump, self._inbox)
        link.agent = self._connect(node, sink)
        link.agent.start()
        while len(self._entered) > MAX_ENTERED:
            self._leave(*self._entered.popitem(last=False))

    def _leave(self, node: str, sink: AgentArrivals) -> None:
        link = self._links[node]
        agent, link.agent = link.agent, None
        sink.close()
        if agent is not None:
            threading.Thread(target=agent.close, name=f"leaving {node}", daemon=True).start()
