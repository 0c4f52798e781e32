"""The interface of links for the session: start, send requests, close."""

from __future__ import annotations

from typing import Protocol

from gpuwatch.wire import AnyRequest


class Link(Protocol):
    """The link to one node: delivers its frames into an inbox until closed; reconnects automatically."""

    node: str

    def start(self) -> None:
        """Start; does not block. Progress and failures arrive as `LinkStatus` in the inbox."""
        ...

    def send(self, request: AnyRequest) -> bool:
        """Send a request to the agent; return False if the link is not live."""
        ...

    def retry(self) -> None:
        """Connect now instead of at `LinkStatus.retry_at`; no effect if no attempt is pending."""
        ...

    def hang_up(self, reason: str) -> None:
        """Close the connection for a reason; it is then reconnected. Does not block."""
        ...

    def close(self) -> None:
        """End the remote agent and every thread of this link; returns within 2 s."""
        ...
