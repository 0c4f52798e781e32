"""From a plan to its links: the one place that knows which kind of link a node wants."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Protocol

from gpuwatch.hosts.plan import Plan
from gpuwatch.link.agent_link import CLOSE_S, AgentLink, Switchboard
from gpuwatch.link.command import CommandDialer
from gpuwatch.link.descriptors import make_room
from gpuwatch.link.inbox import Inbox
from gpuwatch.link.local import dial_local
from gpuwatch.link.log_wishes import LogWishes
from gpuwatch.link.options import Ask, LinkOptions
from gpuwatch.link.protocol import Link
from gpuwatch.link.slots import ConnectSlots
from gpuwatch.wire import AnyRequest


class Closable(Protocol):
    """Something that ends."""

    def close(self) -> None:
        """End it."""
        ...


class Links:
    """The links of a plan, and what they share."""

    def __init__(
        self, links: Sequence[Link], dialing: Sequence[Closable] = (), shared: Sequence[Closable] = ()
    ) -> None:
        """Hold links.

        Args:
            links: In the order of the plan.
            dialing: What may still be connecting; closed together with the links.
            shared: Closed last.
        """
        self.all = tuple(links)
        self._dialing = tuple(dialing)
        self._shared = tuple(shared)

    def start(self) -> None:
        """Start every link; returns at once."""
        for link in self.all:
            link.start()

    def send(self, node: str, request: AnyRequest) -> bool:
        """Hand a request to a node's agent; False when its link is not live or there is no agent."""
        return any(link.send(request) for link in self.all if link.node == node)

    def retry(self, node: str | None = None) -> None:
        """Let the links that wait for their next attempt dial now: that of one node, or all of them."""
        for link in self.all:
            if node is None or link.node == node:
                link.retry()

    def close(self) -> None:
        """Close all of them at once: 200 links take as long as the slowest, and that at most 2 s."""
        ending = [*self.all, *self._dialing]
        threads = [threading.Thread(target=each.close, name="closing", daemon=True) for each in ending]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + CLOSE_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        for shared in self._shared:
            shared.close()


def open_links(plan: Plan, inbox: Inbox, options: LinkOptions, ask: Ask | None = None) -> Links:
    """Make the links of a plan, not yet started. Whatever must be asked of the person is asked here."""
    real = [spec for spec in plan.nodes if spec.link != "demo"]
    make_room(len(real))
    slots = ConnectSlots(options.connect_workers)
    board = Switchboard(inbox, plan.interval_s, slots, logs=LogWishes(plan))
    by_name: dict[str, Link] = {}
    dialing: list[Closable] = []
    if len(real) < len(plan.nodes):
        from gpuwatch.link.demo.links import demo_links  # noqa: PLC0415 - only the demo pays for it

        by_name = {link.node: link for link in demo_links(plan, inbox)}
    over_ssh = [spec for spec in real if spec.link == "ssh"]
    if over_ssh:
        from gpuwatch.link.ssh.dialing import SshDialing  # noqa: PLC0415 - paramiko is 100 ms

        ssh = SshDialing(over_ssh, options, ask)
        dialing.append(ssh)
        by_name |= {spec.name: AgentLink(spec, ssh.dialer(spec), board) for spec in over_ssh}
    for spec in real:
        if spec.link == "command":
            by_name[spec.name] = AgentLink(spec, CommandDialer(spec), board)
        elif spec.link == "local":
            by_name[spec.name] = AgentLink(spec, dial_local, board)
    return Links([by_name[spec.name] for spec in plan.nodes], dialing, [board])
