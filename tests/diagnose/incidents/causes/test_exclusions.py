"""One example of each row of the table of exclusions: the alert that it excludes, and one that it leaves."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.incidents.causes.exclusions import EXCLUSIONS, Candidates, possible_causes
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.timing import bounds
from tests.diagnose.finding import T0

ROWS = {row.name: row for stage in EXCLUSIONS for row in stage}


def alert(code: str, at: float = 0.0, rank: int | None = None, role: str = "root", **more: object) -> Alert:
    """An error of a rank, in the rank's log, at a place that grows with its time."""
    proof = Proof("line", code, T0 + at, node="n1", file=f"/logs/rank{rank}.log", offset=int(at * 100))
    facts = {
        "id": f"{code} {rank} {at}",
        "code": code,
        "severity": "error",
        "title": code,
        "text": code,
        "proof": (proof,),
        "role": role,
        "node": "n1",
        "rank": rank,
        "first": T0 + at,
        "last": T0 + at,
        **more,
    }
    return Alert(**facts)  # type: ignore[arg-type]


ECC = alert("gpu.xid.ecc", 1, 5)
TIMEOUT = alert("nccl.watchdog_timeout", 600, 2, "first", fields={"ran_ms": 590_000})
LOST_2 = alert("peer.connection_lost", 601, 2, "echo")
EXAMPLES: dict[str, tuple[Alert, tuple[Alert, ...]]] = {
    "role of a consequence": (LOST_2, (ECC,)),
    "time-out": (TIMEOUT, (ECC,)),
    "unknown error line": (alert("rank.error_unexplained", 2, 4), (ECC,)),
    "precursor that passed": (alert("num.grad_nan", 0, 4, severity="warning"), (ECC,)),
    "no error": (alert("gpu.xid.remap", 0, 4, severity="warning"), (ECC,)),
    "barrier of another rank than 0": (alert("c10d.monitored_barrier", 3, 4), (ECC,)),
    "abort by a watchdog": (alert("rank.abort", 602, 2, "first"), (TIMEOUT, ECC)),
    "end of an unknown rank below a time-out": (
        alert("rank.exit_error", 602, None, "first"),
        (alert("c10d.store_wait_timeout", 600, None, "first"), ECC),
    ),
    "outage in which ranks ended": (
        alert("node_lost", 0, severity="critical", kernel=True),
        (alert("job.unwatched_end", 1),),
    ),
    "stopped by its launcher": (alert("launch.agent_signalled", 2, 4), (ECC,)),
    "aftermath of a time-out": (alert("cuda.launch_failure", 640, 6, "first"), (TIMEOUT, ECC)),
    "error that its rank survived": (
        alert("data.loader_timeout", 1, 3),
        (alert("cuda.launch_failure", 400, 3, "first"),),
    ),
    "end after a wait": (alert("rank.exit_error", 602, 2, "first"), (TIMEOUT, ECC)),
    "error code beside an exception elsewhere": (alert("rank.exit_error", 1, 2, "first"), (ECC,)),
    "error code at the end of a wait": (
        alert("rank.exit_error", 600, 4, "first"),
        (TIMEOUT, alert("nccl.watchdog_timeout", 600, 3, "first", fields={"ran_ms": 590_000}), ECC),
    ),
}


def test_each_row_has_an_example() -> None:
    assert set(EXAMPLES) == set(ROWS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_row_excludes_its_example_and_leaves_the_cause(name: str) -> None:
    excluded, others = EXAMPLES[name]
    group = (excluded, *others)
    among = Candidates(group, group, bounds(group))
    cause = others[-1]
    assert (ROWS[name].applies(excluded, among), ROWS[name].applies(cause, among)) == (True, False)
    assert [each.id for each in possible_causes(group, bounds(group))] == [cause.id]


def test_a_line_that_names_the_culprit_stays_after_a_time_out() -> None:
    named = alert("nccl.desync_report", 640, 0, fields={"missing": "5"})
    group = (TIMEOUT, named)
    assert named in possible_causes(group, bounds(group))


@pytest.mark.parametrize(("ended_at", "is_cause"), [(11, True), (600, False)])
def test_an_exit_code_explains_waits_that_began_with_it(ended_at: int, is_cause: bool) -> None:
    """Not those that end in its second: the time-out of its rank may not be read yet."""
    waits = [
        alert("nccl.watchdog_timeout", 600, rank, "first", fields={"ran_ms": 590_000}) for rank in (2, 3)
    ]
    end = alert("rank.exit_error", ended_at, 4, "first")
    group = (*waits, end)
    assert (end in possible_causes(group, bounds(group))) == is_cause
