"""Decides when a first report is complete.

It is complete when every node has reported everything twice (or cannot) and its logs are searched. Rates
(throttle time, GPM activity, CPU, traffic) need two readings; Prometheus holds rates, so one is enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from gpuwatch.diagnose.missing_ranks.unreaped import may_be_reaped
from gpuwatch.diagnose.missing_ranks.unstarted import lacks_cpu_shares
from gpuwatch.fleet.nodes.missing_text import has_no_host_values
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.link.agent.backoff import RetryPace
from gpuwatch.report.once.problems.pending import lists_processes, pending_of, waited_for
from gpuwatch.session import Session

POLL_S = 0.05
COLD_S = 10.0
"""Seconds that a driver takes to start if no process holds it open; without --wait, a report waits for it."""
PATIENT_S = 15.0
"""With at least this wait in seconds, the report also waits for nodes that refuse a connection at first.

With a shorter wait it reports them.
"""
HANG_S = 15.0
"""Further seconds to wait, without --wait, for the answers of silent ranks, which take up to 10 s."""
LAST_POLLS = 50
"""Maximum number of updates after the wait, in which received data is judged."""

Progress: TypeAlias = Callable[[Sequence[Node], float], None]
"""A function that is called at every poll with the nodes still waited for and the seconds left."""


def silent(_nodes: Sequence[Node], _left_s: float) -> None:
    """Show no progress."""


class FirstReport:
    """Decides whether a first report is complete.

    Query it after every poll: it remembers the first values.
    """

    def __init__(self, until: float = 0.0) -> None:
        """Create the check. It also waits for a lost node whose link is tried again before `until`.

        `until`: monotonic seconds.
        """
        self._first: dict[tuple[str, str], float] = {}
        self._until = until

    def missing(self, nodes: Iterable[Node], now: float) -> list[Node]:
        """Return the nodes for which a report is still incomplete."""
        return [node for node in nodes if not self.settled(node, now)]

    def settled(self, node: Node, now: float) -> bool:
        """Return True if the node is lost for good, or all from it has arrived and its logs are searched."""
        if node.state(now) == "lost":
            return not self._comes_back(node, now)
        if node.state(now) == "stale":
            return False  # it reports again or is lost soon: its logs may not be searched yet
        if not lists_processes(node) and node.spec.link == "prometheus":
            return _has_scrape(node)
        parts = [self._twice(node, "", node.host_at), listed(node), not _waits(node, now)]
        parts += [not node.events_held, not may_be_reaped(node), _lists_holders(node)]
        parts.append(not lacks_cpu_shares(node, now))
        parts += [
            not waited_for(gpu) and self._twice(node, uuid, gpu.fast_at) and gpu.medium is not None
            for uuid, gpu in node.gpus.items()
            if gpu.state == "ok" or (waited_for(gpu) and not hangs(node, gpu, now))
        ]
        return all(parts)

    def _comes_back(self, node: Node, now: float) -> bool:
        """Return True if a lost node is connected for the first time, or tried again soon, before `until`.

        Errors that need the operator (a wrong key) are retried too late to wait for. A refusal by sshd's
        MaxStartups is retried in time.
        """
        retry_at, most_s = node.link.retry_at, RetryPace().most_s
        soon = retry_at is not None and retry_at < self._until and retry_at - now <= most_s
        return now < self._until and (soon or (node.link.phase == "connecting" and node.hello is None))

    def _twice(self, node: Node, part: str, at: float | None) -> bool:
        return at is not None and at > self._first.setdefault((node.name, part), at)


def _has_scrape(node: Node) -> bool:
    """Return True if a node of a Prometheus has its values; the values of its host arrive last."""
    answered = all(gpu.fast_at is not None or gpu.state == "lost" for gpu in node.gpus.values())
    return answered and (node.host_at is not None or has_no_host_values(node))


def _lists_holders(node: Node) -> bool:
    """Return True if the process list is not older than the first values of any GPU.

    Also if the node lists no processes at all (`lists_processes`).
    """
    firsts = [gpu.first_fast_at for gpu in node.gpus.values() if gpu.first_fast_at is not None]
    return not lists_processes(node) or (node.processes_at or 0.0) >= max(firsts, default=0.0)


def _waits(node: Node, now: float) -> bool:
    return any(each.may_answer for each in pending_of(node, now))


def cold(nodes: Iterable[Node], now: float) -> bool:
    """Return True if a live node's driver is starting: neither it nor any of its GPUs has answered yet."""
    return any(starting(node, now) for node in nodes)


def starting(node: Node, now: float) -> bool:
    """Return True if the driver of a live node, or every GPU of the node, has not answered yet."""
    silent = bool(node.gpus) and all(waited_for(gpu) for gpu in node.gpus.values())
    return node.state(now) == "live" and (node.driver_starting is not None or silent)


def hangs(node: Node, gpu: Gpu, now: float) -> bool:
    """Return True if a GPU without values is stuck for longer than a driver needs, while another responds."""
    stuck_s = gpu.stuck_s(now) if gpu.state == "stuck" else None
    answered = any(other.fast_at is not None for other in node.gpus.values())
    return answered and stuck_s is not None and stuck_s > COLD_S


def listed(node: Node) -> bool:
    """Return True if the node lists a log file of its ranks, or no rank writes one.

    A file is listed shortly after its rank appears.
    """
    written = {path for process in node.processes if process.rank is not None for path in process.logs}
    return not written or not written.isdisjoint(file.path for file in node.logs)


def wait_for_first_report(
    session: Session,
    longest_s: float,
    progress: Progress = silent,
    *,
    cold_s: float = 0.0,
    hang_s: float = 0.0,
) -> None:
    """Poll a started session until every node and server has settled, or for `longest_s` seconds.

    A recording is polled once.

    Args:
        session: The session with the nodes.
        longest_s: Maximum seconds to wait.
        progress: Called with the missing nodes and the seconds left.
        cold_s: Further seconds to wait while the driver of a node is starting.
        hang_s: Further seconds to wait while the ranks of a job that may hang are queried.
    """
    if session.recorded:
        session.poll()
        return
    began = since = time.monotonic()
    first = FirstReport(began + longest_s if longest_s >= PATIENT_S else 0.0)
    is_judged = False
    while True:
        session.poll()
        now = time.monotonic()
        nodes = session.fleet.nodes.values()
        missing = first.missing(nodes, now)
        if cold_s and cold(nodes, now):
            since = min(now, began + cold_s)
        asks = session.awaits_hang_answers
        deadline = since + longest_s + (hang_s if asks else 0.0)
        waits = session.book.behind or session.line_queries.waiting or session.fleet.servers.is_waiting
        if now >= deadline:
            break
        if not (missing or waits or asks):
            if is_judged:
                break
            is_judged = True
            session.book.judge_now()  # whether a silent job hangs is checked at intervals only
            continue
        progress(missing, deadline - now)
        time.sleep(min(POLL_S, deadline - now))
    session.book.judge_now()
    for _ in range(LAST_POLLS):
        if not session.book.behind:
            return
        session.poll()
