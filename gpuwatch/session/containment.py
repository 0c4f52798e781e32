"""Isolates faulty nodes: the link of a node whose frames fail, or cost too much CPU, is closed.

All other nodes stay connected.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic, thread_time

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.node_limits import TooManyError
from gpuwatch.fleet.stepwise import Steps
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.link.stream.limits import TokenBucket
from gpuwatch.plain import plain

CPU_SHARE, CPU_BURST_S = 0.25, 3.0
"""CPU budget for the frames of one node: share of a core, and burst in seconds.

The frames of an agent with 8 GPUs take 0.05 %.
"""
QUICK_S = 0.001
"""A frame that takes no longer by the clock is charged that time: reading the CPU time of the thread costs as
much as an ordinary frame.
"""
MARK_S = 0.01
"""Seconds after which the thread's CPU time is read again."""
ARRIVALS_A_STEP = 8
"""A sample of 8 GPUs takes 0.1 ms."""
JUDGED_AT_S = (0.0, 3.0, 30.0)
"""Offsets in seconds from now at which a suspected node is judged alone; some checks need a duration."""
MAX_UPDATES = 50


class Containment:
    """Applies arrivals to the fleet and judges it; closes the link of a node that causes an exception."""

    def __init__(self, fleet: Fleet, hang_up: Callable[[str, str], None]) -> None:
        """Create the containment of a fleet.

        `hang_up` closes the link of a node, for a reason that is shown.
        """
        self._fleet = fleet
        self._hang_up = hang_up
        self.faults: deque[Exception] = deque(maxlen=100)
        """Exceptions that frames caused; each has closed the link of its node."""
        self._cpu_time: dict[str, TokenBucket] = {}
        """Node -> CPU budget for its frames, in seconds."""
        self._marked_at, self._mark = -inf, 0.0
        """When the thread's CPU time was last read (monotonic), and what it was."""
        self._charged = 0.0
        """CPU time charged since then."""

    def applying(
        self, arrivals: Sequence[Arrival], link_changed: Callable[[str, LinkStatus], None]
    ) -> Steps[None]:
        """Apply arrivals in steps of about a millisecond. `link_changed` gets each change of a link."""
        for number, arrival in enumerate(arrivals, 1):
            self.apply(arrival)
            if isinstance(arrival.what, LinkStatus):
                link_changed(arrival.node, arrival.what)
            if number % ARRIVALS_A_STEP == 0:
                yield

    def apply(self, arrival: Arrival) -> None:
        """Apply one arrival to the fleet.

        If that fails or has taken too much CPU time, close the node's link.

        Raises:
          Exception: raised by a change of the link itself.
        """
        began = monotonic()
        if began - self._marked_at > MARK_S:
            self._marked_at, self._mark, self._charged = began, thread_time(), 0.0
        try:
            self._fleet.apply(arrival)
            self._charge(arrival.node, self._spent(monotonic() - began))
        except TooManyError as error:
            self.faults.append(error)
            self._hang_up(arrival.node, f"{error}, which is not the output of an agent; the link was closed")
        except Exception as error:
            if isinstance(arrival.what, LinkStatus):
                raise
            self.faults.append(error)
            kind = type(arrival.what).__name__.lower()
            self._hang_up(
                arrival.node,
                f"a {kind} frame of this node could not be processed, please report it: {plain(repr(error))}",
            )

    def _spent(self, wall_s: float) -> float:
        """Return the CPU time (seconds) to charge for a frame that took `wall_s`; add it to the time charged.

        It is `wall_s`, but above `QUICK_S` at most the thread's CPU time that is not charged yet.
        """
        if wall_s > QUICK_S:
            wall_s = min(wall_s, max(0.0, thread_time() - self._mark - self._charged))
        self._charged += wall_s
        return wall_s

    def _charge(self, node: str, cpu_s: float) -> None:
        budget = self._cpu_time.setdefault(node, TokenBucket(CPU_SHARE, CPU_BURST_S))
        if not budget.spend(cpu_s, monotonic()):
            self._hang_up(
                node,
                f"the frames of this node took more than {CPU_SHARE:.0%} of a core to process; "
                "an agent's frames take less, so the link was closed",
            )

    def judging(
        self, book: AlertBook, new_book: Callable[[], AlertBook], now: float, wall: float
    ) -> Steps[AlertBook]:
        """Update the alert book in steps, and return the book to use from now on.

        If the judgement raises an exception, the nodes that cause it are dropped, and a new book judges the
        others.

        `wall`: unix seconds.

        Raises:
            Exception: raised by the book, if no single node causes it.
        """
        try:
            yield from book.updating(self._fleet, now, wall)
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
    """Return the names of the nodes that raise an exception when a new book judges each of them alone.

    `wall`: unix seconds.
    """
    return [name for name in fleet.nodes if _raises(fleet.only(name), new_book(), now, wall)]


def _raises(fleet: Fleet, book: AlertBook, now: float, wall: float) -> bool:
    try:
        for later in JUDGED_AT_S:
            for _ in range(MAX_UPDATES):
                book.update(fleet, now + later, wall + later)
                if not book.behind:
                    break
    except Exception:  # probably the same fault, which is already counted
        return True
    return False
