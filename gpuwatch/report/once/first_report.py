"""When a first report is complete: every node has stated everything twice, or cannot, its logs are searched.

Twice, because rates (throttle time, GPM activity, CPU, traffic) need two readings, and verdicts rest on them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from gpuwatch.diagnose.missing_ranks.unreaped import may_be_reaped
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.link.agent.backoff import RetryPace
from gpuwatch.report.once.pending import pending_of, waited_for
from gpuwatch.session import Session

POLL_S = 0.05
COLD_S = 10.0
"""A driver that no process holds open takes so long to start; a report without --wait waits for it."""
PATIENT_S = 15.0
"""Who waits so long wants an answer of nodes that refuse at first, too; a short report states that they
do."""
LAST_POLLS = 50
"""After the wait: what has come is judged to its end, as long as that takes no more updates than this."""

Progress: TypeAlias = Callable[[Sequence[Node], float], None]
"""Reported the nodes that are waited for and the seconds left, at every poll."""


def silent(_nodes: Sequence[Node], _left_s: float) -> None:
    """State nothing while waiting."""


class FirstReport:
    """Ask it after every poll; it remembers the first reading that it saw of each part."""

    def __init__(self, until: float = 0.0) -> None:
        """`until`: a lost node whose link dials again before this moment (monotonic) is waited for."""
        self._first: dict[tuple[str, str], float] = {}
        self._until = until

    def missing(self, nodes: Iterable[Node], now: float) -> list[Node]:
        """The nodes that a report would still miss something of."""
        return [node for node in nodes if not self.settled(node, now)]

    def settled(self, node: Node, now: float) -> bool:
        """The node is lost, or all of it has come, the quick tiers twice, and its logs are searched."""
        if node.state(now) == "lost":
            return not self._comes_back(node, now)
        if node.state(now) == "stale":
            return False  # it reports again or is lost soon: its logs may not be searched yet
        parts = [self._twice(node, "", node.host_at), listed(node), not _waits(node, now)]
        parts += [not node.events_held, not may_be_reaped(node)]
        parts += [
            not waited_for(gpu) and self._twice(node, uuid, gpu.fast_at) and gpu.medium is not None
            for uuid, gpu in node.gpus.items()
            if gpu.state == "ok" or (waited_for(gpu) and not hangs(node, gpu, now))
        ]
        return all(parts)

    def _comes_back(self, node: Node, now: float) -> bool:
        """A refusal may pass, as of an sshd that has too many logins under way (MaxStartups).

        What needs a person (a wrong key) is tried again so late that nothing is waited for.
        """
        retry_at, most_s = node.link.retry_at, RetryPace().most_s
        soon = retry_at is not None and retry_at < self._until and retry_at - now <= most_s
        return now < self._until and (soon or (node.link.phase == "connecting" and node.hello is None))

    def _twice(self, node: Node, part: str, at: float | None) -> bool:
        return at is not None and at > self._first.setdefault((node.name, part), at)


def _waits(node: Node, now: float) -> bool:
    return any(each.may_answer for each in pending_of(node, now))


def cold(nodes: Iterable[Node], now: float) -> bool:
    """Whether a live node's driver is starting: it or none of its GPUs has answered yet."""
    return any(starting(node, now) for node in nodes)


def starting(node: Node, now: float) -> bool:
    """Whether the driver of a live node or none of its GPUs has answered yet."""
    silent = bool(node.gpus) and all(waited_for(gpu) for gpu in node.gpus.values())
    return node.state(now) == "live" and (node.driver_starting is not None or silent)


def hangs(node: Node, gpu: Gpu, now: float) -> bool:
    """Whether a GPU without values is stuck longer than a driver takes to start, beside one that answers."""
    stuck_s = gpu.stuck_s(now) if gpu.state == "stuck" else None
    answered = any(other.fast_at is not None for other in node.gpus.values())
    return answered and stuck_s is not None and stuck_s > COLD_S


def listed(node: Node) -> bool:
    """Whether the log files that its ranks write are known: they are listed a moment after the ranks."""
    written = {path for process in node.processes if process.rank is not None for path in process.logs}
    return not written or not written.isdisjoint(file.path for file in node.logs)


def wait_for_first_report(
    session: Session,
    longest_s: float,
    progress: Progress = silent,
    *,
    cold_s: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Poll a started session until every node has settled, or for `longest_s` seconds.

    Args:
        session: Where the nodes are.
        longest_s: Seconds to wait at most.
        progress: Called with what is waited for.
        cold_s: Seconds to wait longer while the driver of a node is starting.
        clock: Monotonic seconds.
        pause: Sleeps.
    """
    if session.recorded:
        session.poll()
        return
    began = since = clock()
    first = FirstReport(began + longest_s if longest_s >= PATIENT_S else 0.0)
    while True:
        session.poll()
        now = clock()
        nodes = session.fleet.nodes.values()
        missing = first.missing(nodes, now)
        if cold_s and cold(nodes, now):
            since = min(now, began + cold_s)
        deadline = since + longest_s
        if now >= deadline or not (missing or session.book.behind or session.line_queries.waiting):
            break
        progress(missing, deadline - now)
        pause(min(POLL_S, deadline - now))
    session.book.judge_now()
    for _ in range(LAST_POLLS):
        if not session.book.behind:
            return
        session.poll()
