"""One example of each row that decides which of several possible causes was first, and whom it names."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpuwatch.diagnose.incidents.causes.first_cause import ORDER, REPLACEMENTS, first_cause
from gpuwatch.diagnose.incidents.causes.root_cause import CULPRIT_ROWS
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.rules.model.failure_class import FailureClass
from tests.diagnose.finding import T0
from tests.diagnose.incidents.causes.rank_errors import alert

RAISED = (2,)
"""The ranks that logged an exception of their own."""
FULL, FULL_1 = alert("storage.full", 20, 4), alert("storage.full", 20, 1)
ORDERED: dict[str, tuple[Alert, Alert]] = {
    "time of the harm": (alert("storage.full", 10, 4), FULL_1),
    "stronger kind of cause": (FULL, alert("peer.connection_lost", 20, 1)),
    "end of a rank that logged an exception": (
        alert("rank.exit_error", 20, 2),
        alert("rank.exit_error", 20, 0),
    ),
    "first entry of a failure table": (
        alert("rank.exit_error", 20, 4, fields={"table_entry": 0}),
        alert("rank.exit_error", 20, 1, fields={"table_entry": 1}),
    ),
    "device before kernel before program": (alert("gpu.lost", 20, 4), FULL_1),
    "place in the logs": (FULL_1, FULL),
}
"""Row -> two candidates: the first is first by this row, and by no row above it."""

LISTS = alert(
    "site.watch", 30, 0, role="root", stated=FailureClass(("names_culprit",)), fields={"culprit_ranks": "3"}
)
OF_3 = alert("storage.full", 10, 3)
MILD = alert("storage.full", 20, 1, proof=(Proof("line", "WARNING: disk full", T0 + 20, node="n1"),))
LOST = alert("peer.connection_lost", 20, 1)
LINK = alert(
    "site.link", 25, None, role="root", severity="warning", stated=FailureClass(explains=("peer_connection",))
)
REPLACED: dict[str, tuple[Sequence[Alert], Sequence[Alert], Alert]] = {
    "failure of a rank that a line lists": ((alert("storage.full", 5, 1), OF_3, LISTS), (), OF_3),
    "the same failure, logged as an error": ((MILD, FULL), (), FULL),
    "warning of a class that explains a lost peer": ((LOST,), (LINK,), LINK),
}
"""Row -> the candidates, further alerts, and the alert that it puts in place of the first one."""

TAKEN = alert("site.taken", 5, None, stated=FailureClass(("takes_members",)))
PAIR = FailureClass(("pairwise_mismatch",))
CULPRITS: dict[str, tuple[Alert, Alert, Sequence[Alert], tuple[int, ...]]] = {
    "ranks that the cause lists": (LISTS, LISTS, (), (3,)),
    "members that were taken, as the others list them": (TAKEN, LISTS, (), (3,)),
    "rank that most reports of a mismatch name": (
        alert("site.pair", 20, 0, stated=PAIR),
        alert("site.pair", 20, 0, stated=PAIR),
        [
            alert("site.pair", 20, rank, stated=PAIR, fields={"peer_rank": peer})
            for rank, peer in ((0, 3), (1, 3), (3, 0))
        ],
        (3,),
    ),
    "ranks with the fewest operations": (
        FULL,
        FULL,
        [
            alert("storage.full", 20, 0, fields={"peer_rank": rank, "lag_op_count": 9 - rank})
            for rank in range(3)
        ],
        (2,),
    ),
}
"""Row -> the cause, the alert that led to it, all alerts, and the ranks that they name."""


def test_each_row_has_an_example() -> None:
    assert list(ORDERED) == [row.name for row in ORDER]
    assert list(REPLACED) == [row.name for row in REPLACEMENTS]
    assert list(CULPRITS) == [row.name for row in CULPRIT_ROWS]


@pytest.mark.parametrize("name", ORDERED)
def test_a_row_of_the_order_decides_between_its_example(name: str) -> None:
    first, second = ORDERED[name]
    decides = next(row for row in ORDER if row.value(first, RAISED) != row.value(second, RAISED))
    assert decides.name == name
    assert [decides.value(first, RAISED)] < [decides.value(second, RAISED)]


@pytest.mark.parametrize("name", REPLACED)
def test_a_replacement_is_the_cause_of_its_example(name: str) -> None:
    candidates, more, cause = REPLACED[name]
    by_row = (row.name for row in REPLACEMENTS if row.find(candidates[0], candidates, [*candidates, *more]))
    assert next(by_row) == name
    assert first_cause(candidates, [*candidates, *more]) == cause
    assert first_cause(candidates[:1], candidates[:1]) == candidates[0]


@pytest.mark.parametrize("name", CULPRITS)
def test_the_lines_of_a_group_name_the_ranks_of_its_example(name: str) -> None:
    cause, best, alerts, ranks = CULPRITS[name]
    found = ((row.name, row.ranks(cause, best, alerts)) for row in CULPRIT_ROWS)
    assert next(each for each in found if each[1]) == (name, ranks)
