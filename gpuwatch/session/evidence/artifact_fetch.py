"""Fetches artifacts from the nodes piece by piece, into the spool of a bundle. Non-blocking."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuwatch.fleet.pending_request import Asked
from gpuwatch.plain import plain
from gpuwatch.session.evidence.artifact_listing import ArtifactRequests, NodeArtifact
from gpuwatch.session.evidence.log_parts import LogPart
from gpuwatch.session.evidence.spool import Spool, SpooledLog
from gpuwatch.wire import DumpPiece, unpacked

PACE_S = 0.05
"""Seconds between two pieces from a node; with the agent's piece size, at most 5 MB/s per link."""
SILENCE_S = 30.0
"""Seconds without a piece after which the artifacts of a node are given up."""
MAX_PIECE_BYTES = 8 << 20
"""Most bytes that a piece may decompress to; an agent sends half of that."""
GZIP = 16 + zlib.MAX_WBITS
CHANGED = "it was written while it was read"
BUSY = "the same request is still running"
"""The answer of an agent that still reads a piece for an earlier request."""


@dataclass
class ArtifactFetched:
    """One artifact and the state of its fetch."""

    found: NodeArtifact
    part: LogPart
    spooled: SpooledLog
    over: bool = False
    trouble: str | None = None
    """Why it is incomplete."""

    @property
    def fetched_bytes(self) -> int:
        """Bytes fetched so far."""
        return min(self.spooled.next, self.found.artifact.size)

    def end(self, trouble: str | None = None) -> None:
        """Mark the fetch of the artifact as over; `trouble`: why the artifact is incomplete."""
        self.over, self.trouble = True, trouble


class ArtifactFetch:
    """Fetches artifacts, of each node one after the other. Call `update` after every poll until `over`."""

    def __init__(
        self,
        session: ArtifactRequests,
        found: Sequence[NodeArtifact],
        spool: Spool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the fetch of these artifacts; nothing is requested yet.

        Raises:
            OSError: the spool cannot be written.
        """
        self._session, self._spool, self._clock = session, spool, clock
        self.files = [fetched(each, spool) for each in found]
        self.bytes = sum(each.artifact.size for each in found)
        """Total size of the artifacts in bytes."""
        self._asked: dict[str, tuple[ArtifactFetched, Asked]] = {}
        """Node -> the open request."""
        self._asked_at: dict[str, float] = {}
        self._moved_at: dict[str, float] = {}
        """Node -> when its first piece was requested, or its last one arrived (monotonic seconds)."""

    @property
    def over(self) -> bool:
        """True if nothing more will arrive."""
        return all(file.over for file in self.files)

    @property
    def done(self) -> int:
        """Number of artifacts that are complete or given up."""
        return sum(file.over for file in self.files)

    @property
    def fetched_bytes(self) -> int:
        """Bytes fetched so far."""
        return sum(file.fetched_bytes for file in self.files)

    def update(self) -> None:
        """Store the pieces that have arrived, and request the next one of each node.

        Raises:
            OSError: the spool cannot be written, as on a full disk.
        """
        now = self._clock()
        for node, (file, asked) in list(self._asked.items()):
            is_late = now - self._moved_at[node] > SILENCE_S
            if asked.done:
                del self._asked[node]
                if asked.error != BUSY or is_late:
                    self._moved_at[node] = now
                    self._take(file, asked)
            elif is_late:
                del self._asked[node]
                for each in self._left(node):
                    each.end(f"no answer in {SILENCE_S:.0f} s")
        for node in {file.found.node for file in self.files if not file.over} - self._asked.keys():
            if now - self._asked_at.get(node, -math.inf) >= PACE_S:
                file = self._left(node)[0]
                found = file.found
                asked = self._session.ask_job_piece(node, found.log, found.artifact.path, file.spooled.next)
                self._asked[node], self._asked_at[node] = (file, asked), now
                self._moved_at.setdefault(node, now)

    def _left(self, node: str) -> list[ArtifactFetched]:
        return [file for file in self.files if file.found.node == node and not file.over]

    def _take(self, file: ArtifactFetched, asked: Asked) -> None:
        piece, why = asked.read(DumpPiece)
        if piece is None:
            file.end(plain(why or "no answer"))
            return
        size, taken = file.found.artifact.size, file.spooled.next
        try:
            data = unpacked(piece.packed, MAX_PIECE_BYTES, GZIP)
        except ValueError:
            file.end("an answer that cannot be read")
            return
        if piece.size_bytes < size or (piece.size_bytes == size and piece.mtime != file.found.mtime):
            file.end(CHANGED)  # a file that only grew is read up to the size in the listing
            return
        data = data[: size - taken]
        done = taken + len(data) >= size
        self._spool.append(file.part, file.spooled, data, taken + len(data), done=done)
        if done or not data:
            file.end(None if done else CHANGED)


def fetched(found: NodeArtifact, spool: Spool) -> ArtifactFetched:
    """Return the state of an artifact's fetch, with what an earlier run has left in the spool.

    Raises:
        OSError: the spool cannot be written.
    """
    size, mtime = found.artifact.size, found.mtime
    part = LogPart(found.node, found.path, size, f"{size} {mtime}", whole=True)
    spooled = spool.begin(part)
    return ArtifactFetched(found, part, spooled, over=spooled.done or not size)
