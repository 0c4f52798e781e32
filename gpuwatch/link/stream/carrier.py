"""A carrier: a two-way byte stream to a command on a node, below a link."""

from __future__ import annotations

from typing import Protocol


class CarrierError(Exception):
    """The stream cannot be opened; the message is one sentence with the remedy, safe to show.

    `final`: a retry cannot help without the user (wrong key, changed host key, bad config).
    """

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class Carrier(Protocol):
    """An open stream. `close` may be called from any thread and wakes a blocked `recv`."""

    def recv(self, limit: int) -> bytes:
        """Wait for bytes; b"" is the end of the stream."""
        ...

    def send(self, data: bytes) -> None:
        """Write all of it, or raise OSError."""
        ...

    def stderr(self) -> str:
        """The last lines on stderr of the remote side (or of the child, for a command)."""
        ...

    def exit_status(self, timeout_s: float) -> int | None:
        """The command's exit status after the end of its output; minus a signal.

        None: not available within `timeout_s` seconds, or not transported.
        """
        ...

    def close(self) -> None:
        """End the stream and everything started for it; may be called twice."""
        ...


class Dialer(Protocol):
    """Opens a carrier that runs `command` on one node (a shell command line, the loader)."""

    def __call__(self, command: str) -> Carrier:
        """Connect and start the command.

        Raises:
            CarrierError: with the reason.
        """
        ...
