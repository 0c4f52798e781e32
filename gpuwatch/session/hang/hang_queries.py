"""Queries the ranks of a suspected hang automatically: RAS, /proc, py-spy --nonblocking.

Each hang is queried once, and a second time only if the first answer is not conclusive: unchanged lines show
that a rank does not move, which one reading cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuwatch.clock import SYSTEM, SessionClock
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.hang.answer import HangAnswer, answer_of, confirmed
from gpuwatch.diagnose.hang.hang_watch import CODE

if TYPE_CHECKING:
    from gpuwatch.diagnose.hang.combined_verdict import HangReport
    from gpuwatch.session.hang.hang_query import HangQuery
    from gpuwatch.session.hang.node_requests import NodeRequests

MAX_READING_S = 10.0
"""Seconds after which a node that has not answered is given up."""
AGAIN_S = 20.0
"""Seconds between two queries of one silence; a working rank moves in that time."""
MAX_READINGS = 2
"""Most queries during one silence of a job."""


@dataclass
class AutomaticQuery:
    """The automatic query about one period in which a job logs nothing."""

    query: HangQuery
    at: float
    """When the ranks were queried (unix seconds)."""
    answer: HangAnswer | None = None
    over: bool = False
    kept: bool = False
    """True if an incident stores the answer."""
    readings: int = 1

    @property
    def settled(self) -> bool:
        """True if no further query follows: it would add nothing, or `MAX_READINGS` were made."""
        return self.readings >= MAX_READINGS or (
            self.answer is not None and (self.answer.settles or self.answer.repeated)
        )


class HangQueries:
    """Queries the ranks of jobs that are suspected to hang. Call `update` after every poll.

    It does not block.
    """

    def __init__(
        self,
        session: NodeRequests,
        book: Callable[[], AlertBook],
        clock: SessionClock = SYSTEM,
    ) -> None:
        """Create the automatic queries; nothing is requested yet.

        Args:
            session: Sends the requests.
            book: Returns the current alert book, which names the suspected jobs and stores the answers.
            clock: The clock of the session.
        """
        self._session = session
        self._book = book
        self._clock = clock
        self._queries: dict[str, AutomaticQuery] = {}
        """Job -> query about its current silence."""

    def update(self) -> None:
        """Query the ranks of newly suspected jobs, and process the answers; after some, query once more."""
        self._book().hangs.awaits_answers = True
        suspected = self._book().suspected_hangs
        if not suspected and not self._queries:
            return
        for job in [job for job in self._queries if job not in suspected]:
            del self._queries[job]  # the job moved on: its next silence is another hang
        for job in suspected - self._queries.keys():
            self._queries[job] = AutomaticQuery(self._inquiry(job), self._clock.wall())
        for job, query in self._queries.items():
            if not query.over:
                self._take(job, query)
            elif not query.settled and self._clock.wall() >= query.at + AGAIN_S:
                query.query, query.at, query.over = self._inquiry(job), self._clock.wall(), False
                query.readings += 1
            if query.answer is not None and not query.kept:
                query.kept = self._keep(job, query.answer)

    @property
    def waiting(self) -> bool:
        """True while ranks of a job with signs of a hang are queried, will be, or their answer is judged."""
        hangs = self._book().hangs
        return any(
            (query := self._queries.get(job)) is None
            or not (query.over and query.settled)
            or hangs.is_held(job, self._clock.monotonic())
            for job in hangs.unreported
        )

    def hang_report(self, job: str | None) -> HangReport | None:
        """Return the report on a job's ranks in its current hang.

        None: the ranks were not queried, or an answer is outstanding.
        """
        query = self._queries.get(job or "")
        return query.query.hang_report(self._session.fleet) if query is not None and query.over else None

    def _inquiry(self, job: str) -> HangQuery:
        from gpuwatch.session.hang.hang_query import HangQuery  # noqa: PLC0415 - loaded when a job hangs

        return HangQuery(self._session, silent_job=job, longest_s=MAX_READING_S, clock=self._clock)

    def _take(self, job: str, query: AutomaticQuery) -> None:
        query.query.update()
        query.over = query.query.over
        answer = answer_of(query.query.hang_report(self._session.fleet), query.at) if query.over else None
        if answer is not None:
            query.answer = answer if query.answer is None else confirmed(query.answer, answer)
            query.kept = False
            self._book().hangs.answer(job, query.answer)

    def _keep(self, job: str, answer: HangAnswer) -> bool:
        """Store the answer in the incident of this hang; return False if no such incident exists yet."""
        name = f"{CODE}@{job}"
        for incident in self._book().incidents:
            if any(alert.id == name and alert.state == "firing" for alert in incident.alerts):
                if incident.hang_check is None or incident.hang_check.at < answer.hang_check.at:
                    self._book().keep_hang_check(incident.id, answer.hang_check)
                return True
        return False
