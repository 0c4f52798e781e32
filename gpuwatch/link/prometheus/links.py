"""Nodes of a Prometheus as links: one thread queries all of them, a few queries per scrape."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from gpuwatch.hosts.plan import Plan
from gpuwatch.hosts.prometheus_target import PrometheusTarget
from gpuwatch.link.prometheus.client import PrometheusClient, PrometheusError
from gpuwatch.link.prometheus.discovery import Found, find
from gpuwatch.link.prometheus.frames import NodeFrames
from gpuwatch.link.prometheus.gpu_query import MAX_TIME, GpuQuery, QueriedNode
from gpuwatch.link.prometheus.history import past_samples
from gpuwatch.link.prometheus.host_query import HostsQuery
from gpuwatch.link.stream.inbox import Arrival, ClockReading, Content, Inbox, LinkStatus
from gpuwatch.link.stream.link import Link
from gpuwatch.wire import AnyRequest, GpuInfo, Sample

LEAST_POLL_S = 2.0
SLOW_INTERVALS, SLOW_S = 2.0, 10.0
"""Hosts, clocks, limits and counters are queried at most every this many intervals and seconds."""
GONE_INTERVALS, GONE_S = 4.0, 60.0
"""A node not scraped for this many intervals and seconds is lost."""
RETRY_S, LONGEST_RETRY_S = 2.0, 60.0


class PrometheusLink:
    """The link of one node of a Prometheus; frames come from a shared pump or from the node's own agent."""

    def __init__(self, node: str, pump: PrometheusPump) -> None:
        self.node = node
        self.pump = pump
        self.agent: Link | None = None
        """The connection to the node itself, once it was entered."""

    def start(self) -> None:
        """Start the pump, once for all links."""
        self.pump.start()

    def send(self, request: AnyRequest) -> bool:
        """Send a request to the agent; return False if there is none."""
        agent = self.agent
        return agent is not None and agent.send(request)

    def retry(self) -> None:
        """Query Prometheus now, for all nodes; connect to the node, if it was entered."""
        self.pump.hurry()
        if (agent := self.agent) is not None:
            agent.retry()

    def hang_up(self, reason: str) -> None:
        """Report the node as lost for this reason; close the connection to it, if there is one."""
        if (agent := self.agent) is not None:
            agent.hang_up(reason)
        self.pump.put(self.node, LinkStatus("lost", reason))

    def close(self) -> None:
        """Stop the shared pump, and end the agent."""
        self.pump.close()
        if (agent := self.agent) is not None:
            agent.close()


class PrometheusPump:
    """The thread that queries Prometheus and puts all nodes' frames into the inbox."""

    def __init__(
        self, target: PrometheusTarget, nodes: Sequence[str], inbox: Inbox, interval_s: float
    ) -> None:
        self.target, self.nodes = target, tuple(nodes)
        self._client = PrometheusClient(target)
        self._inbox = inbox
        self._interval_s = interval_s
        self._frames = {name: NodeFrames(name, interval_s) for name in nodes}
        self._short = {name.partition(".")[0]: name for name in nodes}
        self._live: set[str] = set()
        self._lost: set[str] = set()
        self._left_out: set[str] = set()
        """Nodes whose agents deliver their frames."""
        self._gpus_only: set[str] = set()
        """Nodes in `_left_out` whose agents see no GPU: their GPU values are delivered."""
        self._renewed: set[str] = set()
        """Nodes whose inventory is to be sent again."""
        self._notes: dict[str, str] = {}
        """Node -> text that is shown as the reason beside a live node."""
        self._gpus: GpuQuery | None = None
        self._hosts: HostsQuery | None = None
        self._slow_s = max(SLOW_S, SLOW_INTERVALS * interval_s)
        self._slow_at = -self._slow_s
        self._failures = 0
        self._wake, self._closing = threading.Event(), threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, once."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="prometheus", daemon=True)
                self._thread.start()

    def hurry(self) -> None:
        """Start the next round of queries now."""
        self._wake.set()

    def close(self) -> None:
        """Stop the thread; a query in progress is abandoned."""
        self._closing.set()
        self._wake.set()

    def put(self, node: str, what: Content) -> None:
        """Put an item of a node into the inbox."""
        self._inbox.put(Arrival(node, time.monotonic(), what))

    def leave_out(self, node: str) -> None:
        """Deliver no more frames of a node from Prometheus, since its agent delivers them."""
        self._left_out.add(node)
        self._notes.pop(node, None)

    def keep_gpus(self, node: str) -> list[GpuInfo]:
        """Deliver a node's GPU values, although its agent delivers the rest; return its GPUs."""
        self._gpus_only.add(node)
        return self._frames[node].inventory

    def take_back(self, node: str, note: str) -> None:
        """Resume delivering a node's frames from Prometheus, its inventory first, and report the node live.

        `note`: the text shown with the node.
        """
        self._notes[node] = note
        self._renewed.add(node)
        self._left_out.discard(node)
        self._gpus_only.discard(node)
        self.put(node, LinkStatus("live", note))
        self.hurry()

    def note(self, node: str, text: str) -> None:
        """Show this text with a node while Prometheus has values of it; "" for none."""
        if self._notes.get(node, "") != text:
            self._notes[node] = text
            if node in self._live:
                self.put(node, LinkStatus("live", text))

    def _run(self) -> None:
        while not self._closing.is_set():
            wait_s = max(LEAST_POLL_S, self._interval_s / 2)
            try:
                self._ask()
                self._failures = 0
            except PrometheusError as error:
                wait_s = min(LONGEST_RETRY_S, RETRY_S * 2**self._failures)
                self._failures += 1
                self._lose(self.nodes, f"{self.target.name}: {error}", time.monotonic() + wait_s)
            self._wake.wait(wait_s)
            self._wake.clear()

    def _lose(self, nodes: Iterable[str], reason: str, retry_at: float | None = None) -> None:
        for name in nodes:
            if name in self._left_out:
                continue
            if retry_at is not None or name not in self._lost:
                self.put(name, LinkStatus("lost", reason, retry_at))
            self._live.discard(name)
            self._lost.add(name)

    def _node_of(self, host: str) -> str | None:
        """Return the node of the plan for a host name with or without domain; None if unknown."""
        return host if host in self._frames else self._short.get(host.partition(".")[0])

    def _ask(self) -> None:
        """Run one round of queries and deliver it; the first one also reads the inventory and the history."""
        first = self._gpus is None and self._hosts is None
        if first:
            self._begin(find(self._client))
        asked_at, (server, query_s) = time.time(), self._server_time()
        clock = ClockReading(server - asked_at - query_s / 2, query_s / 2)
        if self._gpus is not None:
            self._gpus.sources()
            if first:
                self._gpus.inventory()
            self._gpus.tier("fast")
            self._gpus.moments()
        slow = time.monotonic() - self._slow_at >= self._slow_s
        if first:
            self._deliver(server, clock, first=True)
        if slow:
            self._ask_slowly()
        self._deliver(server, clock, again=slow)

    def _begin(self, found: Found) -> None:
        self._gpus = None if found.gpus is None else GpuQuery(self._client, found.gpus, self.nodes)
        self._hosts = HostsQuery(self._client, node_exporter=found.node_exporter)

    def _server_time(self) -> tuple[float, float]:
        """Return (unix seconds of Prometheus's clock, seconds that the query took).

        Raises:
            PrometheusError: the server does not report a valid time.
        """
        began = time.monotonic()
        answers = self._client.instant("vector(1)")
        if not answers:
            raise PrometheusError("the answer is not from a Prometheus server")
        if not 0 < answers[0].value[0] < MAX_TIME:
            raise PrometheusError("it reports no valid time")
        return answers[0].value[0], time.monotonic() - began

    def _ask_slowly(self) -> None:
        """Query slowly changing values: two tiers of the GPUs, and the hosts."""
        self._slow_at = time.monotonic()
        if self._gpus is not None:
            self._gpus.tier("medium")
            self._gpus.tier("slow")
        if self._hosts is not None:
            self._hosts.ask(self._node_of)

    def _deliver(
        self, server: float, clock: ClockReading, *, first: bool = False, again: bool = False
    ) -> None:
        """Put the frames of every node that was scraped since the last call into the inbox.

        Args:
            server: Prometheus's clock (unix seconds).
            clock: The comparison of that clock with ours.
            first: Deliver the history before.
            again: The hosts were queried for this call; also deliver the scrape that was sent before.
        """
        gpus = {} if self._gpus is None else self._gpus.nodes
        hosts = {} if self._hosts is None else self._hosts.hosts
        past = self._past(server) if first else {}
        limit_s = max(GONE_S, GONE_INTERVALS * self._interval_s)
        gone = []
        for name, frames in self._frames.items():
            node, host = gpus.get(name), hosts.get(name)
            if self._has_agent(name, frames, server, node):
                continue
            scraped = None if node is None else node.scraped_at
            if scraped is None and host is None:
                gone.append(name)
                continue
            if scraped is not None and server - scraped > limit_s:
                gone.append(name)
                continue
            if name not in self._live:
                self._live.add(name)
                self._lost.discard(name)
                self.put(name, LinkStatus("live", self._notes.get(name, "")))
                self.put(name, clock)
            if again:
                frames.lacks_host = host is None
            for frame in frames.hello(server, node, self.target.name):
                self.put(name, frame)
            for sample in past.get(name, ()):
                self.put(name, sample)
            if again or scraped is None or scraped != frames.sent_at:
                for frame in frames.sample(server, node, host, self._gpus):
                    self.put(name, frame)
        reason = f"{self.target.name} has no samples of this node from the last {limit_s:.0f} s"
        self._lose(gone if not first else [], reason)
        if self._hosts is not None:
            self._hosts.hosts = {}

    def _has_agent(self, name: str, frames: NodeFrames, server: float, node: QueriedNode | None) -> bool:
        """Return True if a node's agent delivers its frames.

        GPU values are then put into the inbox if the agent does not see the GPUs.
        """
        if name in self._left_out:
            if name in self._gpus_only and node is not None and node.scraped_at != frames.sent_at:
                for frame in frames.sample(server, node, None, self._gpus):
                    self.put(name, frame)
            return True
        if name in self._renewed:
            self._renewed.discard(name)
            self._live.discard(name)
            frames.renew()
        return False

    def _past(self, server: float) -> Mapping[str, Sequence[Sample]]:
        gpus = self._gpus
        if gpus is None:
            return {}
        count = sum(len(node.gpus) for node in gpus.nodes.values())
        try:
            return past_samples(self._client, gpus, server, self._interval_s, count)
        except PrometheusError:
            return {}  # a server without history still has current values


def prometheus_links(target: PrometheusTarget, plan: Plan, inbox: Inbox) -> list[PrometheusLink]:
    """Return the links of the plan's nodes that are read from a Prometheus."""
    names = [spec.name for spec in plan.nodes if spec.link == "prometheus"]
    pump = PrometheusPump(target, names, inbox, plan.interval_s)
    return [PrometheusLink(name, pump) for name in names]
