"""Creates the links of a plan."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.agent.agent_link import CLOSE_S, AgentLink, LinkContext
from gpuwatch.link.agent.login_slots import ConnectSlots
from gpuwatch.link.demo.clock import DemoClock
from gpuwatch.link.dialers import Dialers, dial_local
from gpuwatch.link.start.log_settings import LogConfig
from gpuwatch.link.stream.carrier import Dialer
from gpuwatch.link.stream.inbox import ArrivalSink, Inbox
from gpuwatch.link.stream.link import Link
from gpuwatch.link.stream.options import Ask, LinkOptions
from gpuwatch.wire import AnyRequest

ENTERED_INTERVAL_S = 1.0
"""Seconds between samples of a node that Prometheus names, once it is entered."""


class Closable(Protocol):
    """An object with `close`."""

    def close(self) -> None:
        """Close it."""
        ...


class Links:
    """The links of a plan, and their shared objects."""

    def __init__(
        self,
        links: Sequence[Link],
        dialing: Sequence[Closable] = (),
        shared: Sequence[Closable] = (),
        dialers: Dialers | None = None,
        enter: Callable[[str], None] | None = None,
    ) -> None:
        """Combine links that exist already.

        Args:
            links: In the order of the plan.
            dialing: Objects that may still be connecting; closed together with the links.
            shared: Objects that all links use; closed last.
            dialers: For further connections to a node.
            enter: Called with a node whose screen was opened.
        """
        self.all = tuple(links)
        self._of_node: dict[str, list[Link]] = {}
        for link in links:
            self._of_node.setdefault(link.node, []).append(link)
        self._dialing = tuple(dialing)
        self._shared = tuple(shared)
        self._dialers = dialers
        self._enter = enter

    def start(self) -> None:
        """Start every link; does not block."""
        for link in self.all:
            link.start()

    def send(self, node: str, request: AnyRequest) -> bool:
        """Send a request to a node's agent; return False if its link is not live or has no agent."""
        return any(link.send(request) for link in self._of_node.get(node, ()))

    def dialer(self, node: str) -> Dialer | None:
        """Return the dialer for another connection to a node; None if it has none (demo, Prometheus)."""
        return None if self._dialers is None else self._dialers.of(node)

    def enter(self, node: str) -> None:
        """Connect to a node of a Prometheus, as its screen was opened; do nothing for other nodes."""
        if self._enter is not None:
            self._enter(node)

    def retry(self, node: str | None = None) -> None:
        """Reconnect links that wait for their next attempt: that of `node`, or all if it is None."""
        for link in self.all:
            if node is None or link.node == node:
                link.retry()

    def hang_up(self, node: str, reason: str) -> None:
        """Close the connection to a node for a reason that is shown; the node is reconnected later."""
        for link in self.all:
            if link.node == node:
                link.hang_up(reason)

    def close(self) -> None:
        """Close all links concurrently, within 2 s, then the shared objects."""
        ending = [*self.all, *self._dialing]
        threads = [threading.Thread(target=each.close, name="closing", daemon=True) for each in ending]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + CLOSE_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        for shared in self._shared:
            shared.close()


def open_links(
    plan: Plan,
    inbox: Inbox,
    options: LinkOptions,
    ask: Ask | None = None,
    earlier: Mapping[str, Sequence[str]] | None = None,
    clock: DemoClock | None = None,
) -> Links:
    """Return the links of a plan, not started. All prompts to the user happen here.

    Args:
        plan: The nodes.
        inbox: Takes what the links deliver.
        options: How links are opened.
        ask: Asks the user for a passphrase or password.
        earlier: Node -> folders of logs that were followed there in earlier sessions.
        clock: The clock of simulated nodes; None: that of the machine.
    """
    dialers = Dialers(plan, options, ask)
    slots = ConnectSlots(options.connect_workers)
    board = LinkContext(inbox, plan.interval_s, slots, logs=LogConfig(plan, earlier))
    by_name: dict[str, Link] = {}
    enter: Callable[[str], None] | None = None
    if any(spec.link == "demo" for spec in plan.nodes):
        from gpuwatch.link.demo.links import demo_links  # noqa: PLC0415 - only the demo pays for it

        by_name = {link.node: link for link in demo_links(plan, inbox, clock=clock)}
    if options.prometheus is not None:
        from gpuwatch.link.prometheus.entered_nodes import EnteredNodes  # noqa: PLC0415 - likewise
        from gpuwatch.link.prometheus.links import prometheus_links  # noqa: PLC0415 - likewise

        of_server = {link.node: link for link in prometheus_links(options.prometheus, plan, inbox)}
        by_name |= of_server
        if options.enter_nodes:
            enter = EnteredNodes(of_server, inbox, partial(_entered, plan, dialers, board)).enter
    for spec in plan.nodes:
        dialer = dialers.of(spec.name)
        if dialer is not None and "kube_namespace" in spec.labels:
            from gpuwatch.link.kube.pod_link import PodLink  # noqa: PLC0415 - likewise

            by_name[spec.name] = PodLink(spec, dialer, dial_local, plan, board)
        elif dialer is not None:
            by_name[spec.name] = AgentLink(spec, dialer, board)
    return Links([by_name[spec.name] for spec in plan.nodes], [dialers], [board], dialers, enter)


def _entered(plan: Plan, dialers: Dialers, board: LinkContext, node: str, sink: ArrivalSink) -> Link:
    """Return the link to the agent of a node that a Prometheus names.

    It reads logs, ranks and values every second.
    """
    spec = NodeSpec(node)
    logs = LogConfig(replace(plan, discover=True))
    context = replace(board, inbox=sink, interval_s=ENTERED_INTERVAL_S, logs=logs)
    return AgentLink(spec, dialers.on_demand(spec), context)
