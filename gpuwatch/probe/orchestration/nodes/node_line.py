"""One node as the conductor sees it: orders go there, what is stated there comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from gpuwatch.probe.protocol import AnyNodeMessage, AnyOrder


@dataclass(frozen=True)
class Lost:
    """The last word of a line: this node states no more."""

    reason: str
    """One sentence, safe to show."""


Received: TypeAlias = AnyNodeMessage | Lost
OnMessage: TypeAlias = Callable[[str, Received], None]
"""(node, what was stated), from any thread; must not block."""


class NodeLine(Protocol):
    """The way to one node's launcher."""

    node: str
    labels: Mapping[str, str]

    def open(self, receive: OnMessage) -> None:
        """Connect and start the launcher; returns at once. `Lost` is the last word, also after a failure."""
        ...

    def send(self, order: AnyOrder) -> bool:
        """Hand an order over without waiting; False when nobody is there to take it."""
        ...

    def close(self) -> None:
        """End the launcher and all that it started, within 2 s. Safe to call twice, from any thread."""
        ...
