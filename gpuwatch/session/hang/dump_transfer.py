"""Transfers dumps from one node to the cockpit piece by piece, bounded and without blocking."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpuwatch.fleet.pending_request import Asked
from gpuwatch.number_text import scaled_text
from gpuwatch.plain import plain
from gpuwatch.wire import DumpPiece

MAX_DUMP_BYTES = 64_000_000
"""Largest dump in bytes. A full ring of 2,000 entries is about 2 MB; larger files are not fetched."""
PACE_S = 0.1
"""Seconds between two pieces from a node; with the agent's piece size, at most 4 MB/s per link."""
SILENCE_S = 20.0
"""Seconds without a piece after which a node is given up."""


class Pieces(Protocol):
    """Interface of a session: requests for pieces of dumps."""

    def ask_dump_piece(self, node: str, pid: int, prefix: str, name: str, offset: int) -> Asked:
        """Request a piece of a dump; the answer is a `wire.DumpPiece`."""
        ...


@dataclass
class DumpFileTransfer:
    """The transfer of one dump."""

    job: str | None
    rank: int
    node: str
    pid: int
    """The process whose environment led to the dump, by pid."""
    prefix: str
    name: str
    size: int
    mtime: float
    at: float
    """Time of writing, unix seconds on our clock."""
    taken: int = 0
    """Bytes received."""
    why: str | None = None
    """Why the dump could not be fetched; None: no problem."""
    attempts: int = field(default=0, repr=False)

    @property
    def path(self) -> str:
        """The path of the dump, as its job sees it."""
        return self.prefix + self.name


class DumpTransfer:
    """Fetches the dumps of one node into folders, as `rank_N.gz`."""

    def __init__(
        self,
        session: Pieces,
        node: str,
        transfers: Sequence[DumpFileTransfer],
        folder: Callable[[DumpFileTransfer], Path],
        clock: Callable[[], float],
    ) -> None:
        """Create the transfer of a node's dumps; the next `update` starts it.

        Args:
            session: Requests pieces from the node.
            node: The name of the node.
            transfers: The dumps of this node, in the order of the transfer.
            folder: Returns the folder for a dump.
            clock: Monotonic seconds.
        """
        self.node = node
        self._session = session
        self._left = list(transfers)
        self._folder = folder
        self._clock = clock
        self._asked: Asked | None = None
        self._asked_at = -PACE_S

    @property
    def over(self) -> bool:
        """True if every dump has arrived or failed."""
        return not self._left

    def update(self) -> None:
        """Store the piece of a dump that arrived, and request the next one; give up after a long silence."""
        now = self._clock()
        if self._asked is not None:
            if not self._asked.done:
                if now - self._asked_at > SILENCE_S:
                    self.give_up(f"no answer in {SILENCE_S:.0f} s")
                return
            asked, self._asked = self._asked, None
            self._take(self._left[0], asked)
        if self._left and now - self._asked_at >= PACE_S:
            transfer = self._left[0]
            if transfer.size > MAX_DUMP_BYTES:
                self._end(transfer, too_big(transfer.size))
                return
            self._asked_at = now
            self._asked = self._session.ask_dump_piece(
                self.node, transfer.pid, transfer.prefix, transfer.name, transfer.taken
            )

    def give_up(self, why: str) -> None:
        """Mark all remaining dumps as failed, with this reason."""
        for transfer in list(self._left):
            self._end(transfer, why)
        self._asked = None

    def _take(self, transfer: DumpFileTransfer, asked: Asked) -> None:
        piece, why = asked.read(DumpPiece)
        if piece is None:
            self._end(transfer, plain(why or "no answer"))
            return
        try:
            data = base64.b64decode(piece.packed, validate=True)
        except ValueError as error:
            self._end(transfer, f"an answer that cannot be read: {error}")
            return
        if piece.size_bytes > MAX_DUMP_BYTES or transfer.taken + piece.bytes > MAX_DUMP_BYTES:
            self._end(transfer, too_big(max(piece.size_bytes, transfer.taken + piece.bytes)))
        elif (piece.mtime, piece.size_bytes) != (transfer.mtime, transfer.size):
            self._again(transfer, piece)
        else:
            self._keep(transfer, piece, data)

    def _keep(self, transfer: DumpFileTransfer, piece: DumpPiece, data: bytes) -> None:
        try:
            with (self._folder(transfer) / f"rank_{transfer.rank}.gz").open("ab") as file:
                file.write(data)
        except OSError as error:
            self.give_up(f"it cannot be kept here: {(error.strerror or str(error)).lower()}")
            return
        transfer.taken += piece.bytes
        if piece.bytes <= 0 or transfer.taken >= transfer.size:
            self._end(
                transfer, None if transfer.taken == transfer.size else "it was truncated while it was read"
            )

    def _again(self, transfer: DumpFileTransfer, piece: DumpPiece) -> None:
        """Restart the transfer of a dump that was rewritten meanwhile; mark it as failed the second time."""
        if transfer.attempts:
            self._end(transfer, "it was being written while it was read")
            return
        transfer.attempts += 1
        transfer.at += piece.mtime - transfer.mtime
        transfer.taken, transfer.size, transfer.mtime = 0, piece.size_bytes, piece.mtime
        (self._folder(transfer) / f"rank_{transfer.rank}.gz").unlink(missing_ok=True)

    def _end(self, transfer: DumpFileTransfer, why: str | None) -> None:
        transfer.why = why
        self._left.remove(transfer)
        if why is not None:
            (self._folder(transfer) / f"rank_{transfer.rank}.gz").unlink(missing_ok=True)


def too_big(size: int) -> str:
    """Return the sentence that explains why a dump of `size` bytes is not fetched."""
    return (
        f"{scaled_text(size, 1000)}B, more than the {scaled_text(MAX_DUMP_BYTES, 1000)}B that are fetched: "
        "read it there with gpuwatch flight"
    )
