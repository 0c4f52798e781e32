"""A session: it opens the links of a plan and moves what they bring into the fleet. It knows no screen."""

from __future__ import annotations

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import Plan
from gpuwatch.link.inbox import Inbox
from gpuwatch.link.opening import open_links
from gpuwatch.link.options import Ask, LinkOptions


class Session:
    """Start it, call `poll` at any pace, close it. Also a context manager."""

    def __init__(self, plan: Plan, options: LinkOptions | None = None, ask: Ask | None = None) -> None:
        self.plan = plan
        self.inbox = Inbox()
        self.fleet = Fleet(plan)
        self._links = open_links(plan, self.inbox, options or LinkOptions(), ask)

    def start(self) -> None:
        """Start every link; returns at once."""
        self._links.start()

    def poll(self) -> bool:
        """Move all that has arrived into the fleet; True when anything had."""
        arrivals = self.inbox.drain()
        for arrival in arrivals:
            self.fleet.apply(arrival)
        return bool(arrivals)

    def retry(self, node: str | None = None) -> None:
        """Dial lost nodes now instead of after their wait: one by name, or all; returns at once."""
        self._links.retry(node)

    def close(self) -> None:
        """Close every link, within 2 s; nothing of ours runs on any node afterwards."""
        self._links.close()

    def __enter__(self) -> Session:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
