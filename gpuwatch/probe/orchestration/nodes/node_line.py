"""The interface of a node for the conductor: it receives orders and sends messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from msgspec import Struct

from gpuwatch.probe.protocol import AnyNodeMessage, AnyOrder


class Lost(Struct, frozen=True):
    """The last message of a connection: the node sends nothing more."""

    reason: str
    """One sentence, safe to show."""


Received: TypeAlias = AnyNodeMessage | Lost
OnMessage: TypeAlias = Callable[[str, Received], None]
"""A function that is called with (node, message), from any thread; it must not block."""


class NodeLine(Protocol):
    """The connection to one node's launcher."""

    node: str
    labels: Mapping[str, str]

    def open(self, receive: OnMessage) -> None:
        """Connect and start the launcher; returns at once.

        `Lost` is the last message, also after a failure.
        """
        ...

    def send(self, order: AnyOrder) -> bool:
        """Send an order without waiting; return False if there is no launcher."""
        ...

    def close(self) -> None:
        """End the launcher and everything that it started, within 2 s.

        May be called twice, from any thread.
        """
        ...
