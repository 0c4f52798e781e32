"""What closed an incident resolves nothing that happens later: the next failure is an incident of its own."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.hosts.plan import Thresholds
from tests.diagnose.finding import PACK
from tests.diagnose.watched_jobs import ONE, Watched
from tests.fleet.jobs.two_jobs import WALL, rank

TRAIN_LOG = "/srv/jobs/sa2/train.log"
FAILED, AGAIN, FAILED_AGAIN = 100.0, 101.0, 160.0
"""Seconds of the first failure, of the restart, and of the second failure."""


class Job(Watched):
    """A job of two ranks, in one log with its launcher; rank 0 alone logs steps."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = True

    def attempt(self, number: int, start: float) -> None:
        ranks = [
            rank(
                each,
                900 + 10 * number + each,
                2,
                master=ONE,
                start=WALL + start,
                launcher=899,
                logs=[f"/srv/jobs/sa2/logs/rank{each}.log"],
            )
            for each in range(2)
        ]
        self.run("n1", *ranks, at=max(1.0, start))
        logs = [wire.LogFile(each.logs[0], pids=[each.pid]) for each in ranks]
        self.list_files("n1", *logs, wire.LogFile(TRAIN_LOG, source="glob", pids=[899]))
        self.pass_to(start + 1.0)

    def end(self, at: float) -> None:
        self.run("n1", at=at)
        self.pass_to(at)

    def steps(self, first: int, begin: float, end: float) -> None:
        for number, at in enumerate(range(int(begin), int(end), 2), first):
            reported = wire.Progress(
                t=WALL + at, seq=4, file="/srv/jobs/sa2/logs/rank0.log", rank=0, offset=10 * at,
                at=WALL + at, timed=True, dialect="x", fields={"step": number},
            )  # fmt: skip
            self.report("n1", reported, at=float(at))
            self.pass_to(float(at))

    def pass_to(self, at: float) -> None:
        if self.seen:
            self.look(at)

    def fails(self, at: float, who: int, rule: str = "data.loader_timeout", *, named: bool = True) -> None:
        """The error, in the rank's log or without a rank in the launcher's, and the ends of the ranks."""
        if named:
            self.find("n1", f"/srv/jobs/sa2/logs/rank{who}.log", rule, at, rank=who, rank_from="process")
        else:
            self.find("n1", TRAIN_LOG, rule, at)
        self.find(
            "n1", TRAIN_LOG, "rank.exit_error", at + 0.2, rank=who, rank_from="field", severity="critical",
            fields={"pid": who}, role="first",
        )  # fmt: skip
        self.find("n1", TRAIN_LOG, "peer.connection_lost", at + 0.3, role="echo")
        self.find("n1", TRAIN_LOG, "launch.siblings_killed", at + 0.4, role="echo", severity="info")

    def judged(self, at: float) -> list[Incident]:
        if not self.seen:
            self.book = AlertBook(PACK, Thresholds())
        for second in range(5):
            self.look(at + 5 * second)
        return sorted(self.book.incidents, key=lambda each: each.first)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("rule", ["data.loader_timeout", "storage.full"])
def test_a_failure_after_a_restart_is_another_incident(rule: str, *, named: bool) -> None:
    job = Job()
    job.attempt(0, 0.0)
    job.steps(0, 10, FAILED)
    job.fails(FAILED, 1, named=named)
    job.attempt(1, AGAIN)
    job.steps(40, AGAIN + 9, FAILED_AGAIN - 5)
    (closed,) = job.judged(FAILED_AGAIN - 25)
    assert (closed.over, closed.rank) == (True, 1)
    job.fails(FAILED_AGAIN, 0, rule, named=named)
    job.end(FAILED_AGAIN + 1)
    first, second = job.judged(FAILED_AGAIN + 5)
    assert (first.id, first.rank, first.over, first.code) == (closed.id, 1, True, "data.loader_timeout")
    assert (second.rank, second.over, second.code) == (0, False, rule)
    assert {alert.state for alert in second.alerts} == {"firing"}
    assert min(alert.first for alert in second.alerts) > WALL + FAILED_AGAIN - 1


def test_a_failure_of_the_second_attempt_is_reported_while_the_third_one_trains() -> None:
    job = Job()
    job.attempt(0, 0.0)
    job.steps(0, 10, FAILED)
    job.fails(FAILED, 1)
    job.attempt(1, AGAIN)
    job.steps(40, AGAIN + 9, FAILED_AGAIN - 5)
    job.fails(FAILED_AGAIN, 1, "storage.full")
    job.attempt(2, FAILED_AGAIN + 1)
    job.steps(60, FAILED_AGAIN + 10, FAILED_AGAIN + 40)
    first, second = job.judged(FAILED_AGAIN + 42)
    assert [(each.rank, each.code, each.over) for each in (first, second)] == [
        (1, "data.loader_timeout", True),
        (1, "storage.full", True),
    ]
    assert first.closed != second.closed


@pytest.mark.parametrize("named", [True, False])
def test_the_ranks_of_later_attempts_are_no_culprits_of_the_first_failure(*, named: bool) -> None:
    """No attempt trains: the failures are one incident, with the cause and the rank of the first one."""
    job = Job()
    job.attempt(0, 0.0)
    job.steps(0, 10, FAILED)
    job.fails(FAILED, 1, named=named)
    for number in (1, 2):
        begin = AGAIN + 10 * (number - 1)
        job.attempt(number, begin)
        job.fails(begin + 8, 0, "storage.full", named=named)
    job.end(AGAIN + 20)
    (incident,) = job.judged(AGAIN + 22)
    assert (incident.rank, incident.code, incident.over) == (1, "data.loader_timeout", False)


@pytest.mark.parametrize("runs", [True, False])
def test_who_comes_later_finds_the_same_two(*, runs: bool) -> None:
    """The logs alone show that the job trained between its failures."""
    job = Job()
    job.seen = False
    if runs:
        job.attempt(1, AGAIN)
    else:
        logs = [(f"/srv/jobs/sa2/logs/rank{each}.log", [each]) for each in range(2)]
        files = [
            wire.LogFile(path, source="found", last_at=WALL + 161.0, ranks=ranks)
            for path, ranks in [*logs, (TRAIN_LOG, [])]
        ]
        job.list_files("n1", *files)
    job.steps(0, 10, FAILED)
    job.fails(FAILED, 1, named=False)
    job.steps(40, AGAIN + 11, FAILED_AGAIN - 5)
    job.fails(FAILED_AGAIN, 0, "storage.full", named=False)
    if runs:
        job.end(FAILED_AGAIN + 1)
    found = job.judged(FAILED_AGAIN + 5)
    assert [(each.rank, each.code) for each in found if not each.over] == [(0, "storage.full")]


def test_a_rank_that_went_on_resolves_no_later_failure() -> None:
    job = Job()
    job.attempt(0, 0.0)
    job.steps(0, 10, FAILED)
    job.find(
        "n1", "/srv/jobs/sa2/logs/rank0.log", "rank.exit_error", FAILED, rank=0, rank_from="process",
        severity="critical", role="first",
    )  # fmt: skip
    job.steps(60, FAILED + 2, FAILED_AGAIN - 5)
    assert all(each.over for each in job.judged(FAILED_AGAIN - 25))
    job.fails(FAILED_AGAIN, 1)
    job.end(FAILED_AGAIN + 1)
    found = job.judged(FAILED_AGAIN + 5)
    assert [(each.rank, each.code) for each in found if not each.over] == [(1, "data.loader_timeout")]


@pytest.mark.parametrize(("until", "is_note"), [(130.0, True), (104.0, False)])
def test_an_error_without_a_rank_is_a_note_while_all_ranks_step_on(until: float, *, is_note: bool) -> None:
    """A thread of some rank raised, in the launcher's log: no process ended."""
    job = Job()
    job.attempt(0, 1.0)
    job.steps(1, 10.0, FAILED)
    job.find("n1", TRAIN_LOG, "python.exception", FAILED, role="first")
    job.steps(60, FAILED + 1.0, until)
    for second in range(3):
        job.pass_to(until + 2.0 * second)
    (alert,) = [each for each in job.book.alerts.values() if each.code == "python.exception"]
    assert (alert.severity == "info") is is_note
