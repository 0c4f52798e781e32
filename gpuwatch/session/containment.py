"""A node whose frames cannot be processed or judged, or cost too much, loses its link; no other node does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic, thread_time

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.node_limits import TooManyError
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.link.stream.limits import TokenBucket
from gpuwatch.plain import plain

CPU_SHARE, CPU_BURST_S = 0.25, 3.0
"""Share of a core that processing one node's frames may use; an agent with 8 GPUs takes 0.05 %."""
JUDGED_AT_S = (0.0, 3.0, 30.0)
"""Each node is judged alone at these times from now, in seconds: some checks require a duration."""
MAX_UPDATES = 50


class Containment:
    """Takes arrivals into the fleet, and judges it."""

    def __init__(self, fleet: Fleet, hang_up: Callable[[str, str], None]) -> None:
        """`hang_up` closes the link of a node, for a reason that is shown."""
        self._fleet = fleet
        self._hang_up = hang_up
        self.faults: deque[Exception] = deque(maxlen=100)
        """Exceptions that frames have caused; each has closed the link of the node that sent the frame."""
        self._cpu_time: dict[str, TokenBucket] = {}
        """Node -> CPU seconds that taking in its frames may take."""

    def apply(self, arrival: Arrival) -> None:
        """Take one arrival into the fleet."""
        began = thread_time()
        try:
            self._fleet.apply(arrival)
            self._charge(arrival.node, thread_time() - began)
        except TooManyError as error:
            self.faults.append(error)
            self._hang_up(arrival.node, f"{error}; no agent does that, so the link was closed")
        except Exception as error:
            if isinstance(arrival.what, LinkStatus):
                raise
            self.faults.append(error)
            kind = type(arrival.what).__name__.lower()
            self._hang_up(
                arrival.node,
                f"a {kind} frame of this node could not be processed, please report it: {plain(repr(error))}",
            )

    def _charge(self, node: str, cpu_s: float) -> None:
        budget = self._cpu_time.setdefault(node, TokenBucket(CPU_SHARE, CPU_BURST_S))
        if not budget.spend(cpu_s, monotonic()):
            self._hang_up(
                node,
                f"the frames of this node took more than {CPU_SHARE:.0%} of a core to process; "
                "no agent does that, so the link was closed",
            )

    def judge(self, book: AlertBook, new_book: Callable[[], AlertBook], now: float, wall: float) -> AlertBook:
        """Update the alert book and return the one to use from now on.

        A node whose facts cannot be judged is forgotten, and the others are judged by a renewed book.

        Raises:
            Exception: raised by the book, if no single node causes it.
        """
        try:
            book.update(self._fleet, now, wall)
        except Exception as error:
            self.faults.append(error)
            found = culprits(self._fleet, new_book, now, wall)
            if not found:
                raise
            for node in found:
                self._fleet.forget(node)
                self._hang_up(
                    node,
                    f"a report of this node could not be judged, please report it: {plain(repr(error))}",
                )
            return book.renewed()
        return book


def culprits(fleet: Fleet, new_book: Callable[[], AlertBook], now: float, wall: float) -> list[str]:
    """The nodes of which each, judged alone by a new book, raises an exception."""
    return [name for name in fleet.nodes if _raises(fleet.only(name), new_book(), now, wall)]


def _raises(fleet: Fleet, book: AlertBook, now: float, wall: float) -> bool:
    try:
        for later in JUDGED_AT_S:
            for _ in range(MAX_UPDATES):
                book.update(fleet, now + later, wall + later)
                if not book.behind:
                    break
    except Exception:  # the same one, in all likelihood: it is counted where it came first
        return True
    return False
