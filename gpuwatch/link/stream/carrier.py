"""A carrier: a two-way byte stream to a command on a node, below a link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable


class CarrierError(Exception):
    """Raised if the stream cannot be opened; the message is one sentence with the remedy, safe to show.

    `final`: a retry cannot help without the user (wrong key, changed host key, bad config).
    """

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class Carrier(Protocol):
    """An open stream to a command. `close` may be called from any thread and wakes a blocked `recv`."""

    def recv(self, limit: int) -> bytes:
        """Wait for up to `limit` bytes; return b"" at the end of the stream."""
        ...

    def send(self, data: bytes) -> None:
        """Write all of `data`; raise OSError if the stream is broken or closed."""
        ...

    def stderr(self) -> str:
        """Return the last lines on stderr of the remote command (or of the child process)."""
        ...

    def exit_status(self, timeout_s: float) -> int | None:
        """Return the command's exit status after the end of its output, or minus the signal that ended it.

        None: it is not known within `timeout_s` seconds, or the stream does not carry it.
        """
        ...

    def close(self) -> None:
        """End the stream and everything started for it; may be called twice."""
        ...


@runtime_checkable
class DirectCarrier(Protocol):
    """A carrier that can also pass received bytes to a function, in a thread of its own."""

    def receive(self, take: Callable[[bytes], None]) -> None:
        """Call `take`, which must not block, with all received bytes; return at the end of the stream.

        Raises:
            OSError: The stream broke.
            Exception: Any exception of `take`, which ends the stream.
        """
        ...

    def ended_alone(self) -> bool:
        """Return True if the command ended while the connection to its node stood."""
        ...

    def waiting(self) -> bool:
        """Return True if bytes have arrived on this machine that nobody has read yet."""
        ...


class Dialer(Protocol):
    """A function that runs a shell command line on one node and returns the carrier to it."""

    def __call__(self, command: str) -> Carrier:
        """Connect to the node, start a command, and return its carrier.

        Raises:
            CarrierError: with the reason.
        """
        ...
