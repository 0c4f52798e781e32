"""The inbox: a bounded queue for everything that links receive, drained by the session.

Reader threads only append (0.1-0.2 us); nothing is posted to the screen per frame.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from gpuwatch.link.stream.login_facts import LoginFacts
from gpuwatch.wire import AnyFrame, Sample

Phase: TypeAlias = Literal["connecting", "live", "lost"]


class LinkStatus(Struct, frozen=True):
    """The state of a link, without staleness, which follows from the age of the last frame."""

    phase: Phase
    reason: str = ""
    """Why the link has its state: one sentence with the remedy, safe to show."""
    retry_at: float | None = None
    """Monotonic time of the next attempt; None: none is planned."""
    attempt: int = 0
    noise: str = ""
    """Output of the login shell before the agent's start."""
    start_s: float | None = None
    """Seconds from the remote command to the agent's start marker; slow rc files show here."""
    login: LoginFacts | None = None
    """How the ssh connection was made; None before it is, and for other links."""


class ClockReading(Struct, frozen=True):
    """One comparison of a node's clock with ours, from a ping and its reply."""

    offset_s: float
    """Node clock minus our clock."""
    error_s: float
    """Half of the round trip: the offset is right within this."""


class Refused(Struct, frozen=True):
    """A report of received bytes that were no frame; it is counted and shown, never fatal."""

    reason: str
    """The newest reason."""
    count: int = 1


Content: TypeAlias = AnyFrame | LinkStatus | ClockReading | Refused


class Arrival(Struct, frozen=True):
    """An item received from a node: frame, link status, clock reading or refusal; with its time."""

    node: str
    at: float
    what: Content
    line: bytes | None = None
    """The line of JSON that `what` was decoded from, unsanitized; None: not kept."""


class ArrivalSink(Protocol):
    """The interface of a consumer of arrivals, which any thread may call."""

    def put(self, arrival: Arrival) -> None:
        """Append; does not block."""
        ...


BEHIND = "gpuwatch was behind and dropped the oldest samples"


class Inbox:
    """A bounded queue of arrivals. When full, the oldest `Sample`, else the oldest entry, is dropped.

    The next `drain` reports the dropped arrivals of each node as `Refused`, which is counted and shown.
    """

    def __init__(self, limit: int = 20_000) -> None:
        self._queue: deque[Arrival] = deque()
        self._lock = threading.Lock()
        self._limit = limit
        self._losses: Counter[str] = Counter()
        """Node -> arrivals dropped since the last `drain`."""
        self._lost_at = 0.0
        self.dropped = 0

    def put(self, arrival: Arrival) -> None:
        """Append an arrival; any thread may call it."""
        with self._lock:
            self._queue.append(arrival)
            if len(self._queue) > self._limit:
                self._drop_one()

    def drain(self) -> list[Arrival]:
        """Remove all arrivals and return them, oldest first."""
        with self._lock:
            taken, self._queue = self._queue, deque()
            losses, self._losses = self._losses, Counter()
        lost = [Arrival(node, self._lost_at, Refused(BEHIND, count)) for node, count in losses.items()]
        return [*lost, *taken]

    def _drop_one(self) -> None:
        oldest = next((i for i, each in enumerate(self._queue) if isinstance(each.what, Sample)), 0)
        lost = self._queue[oldest]
        del self._queue[oldest]
        self.dropped += 1
        self._losses[lost.node] += 1
        self._lost_at = lost.at
