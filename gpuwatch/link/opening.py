"""From a plan to its links: the one place that knows which kind of link a node wants."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.hosts.plan import Plan
from gpuwatch.link.inbox import Inbox
from gpuwatch.link.options import Ask, LinkOptions
from gpuwatch.link.protocol import Link


def open_links(plan: Plan, inbox: Inbox, options: LinkOptions, ask: Ask | None = None) -> Sequence[Link]:
    """Make the links of a plan, not yet started. Whatever must be asked of the person is asked here."""
    raise NotImplementedError
