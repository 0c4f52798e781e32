"""What every link is to the session: something that starts, answers requests and closes."""

from __future__ import annotations

from typing import Protocol

from gpuwatch.wire import AnyRequest


class Link(Protocol):
    """Delivers a node's frames into an inbox until closed; reconnects by itself."""

    node: str

    def start(self) -> None:
        """Begin; returns at once. Progress and failures arrive as `LinkStatus` in the inbox."""
        ...

    def send(self, request: AnyRequest) -> bool:
        """Hand a request to the agent; False when the link is not live."""
        ...

    def retry(self) -> None:
        """Try again now instead of at `LinkStatus.retry_at`; nothing where no attempt is waited for."""
        ...

    def hang_up(self, reason: str) -> None:
        """End the connection, which is then lost for this reason and dialled again; returns at once."""
        ...

    def close(self) -> None:
        """End the remote agent and every thread of this link; returns within 2 s."""
        ...
