"""One example of each causal link: the alert that it leads to, and a similar one that it does not."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.incidents.causes.explaining_error import LINKS, explained
from gpuwatch.diagnose.model.alert import Alert
from tests.diagnose.incidents.causes.rank_errors import alert

ENDED = alert("rank.exit_error", 20, 2, "/launcher.log")
ENDED_UNNAMED = alert("rank.exit_error", 20, None, "/launcher.log")
KILLED = alert("rank.killed", 20, 2, "/launcher.log")
EXAMPLES: dict[str, tuple[Alert, Alert, Alert]] = {
    "class that explains it": (
        KILLED,
        alert("oom.host.kernel", 19, None, "kernel", kernel=True),
        alert("oom.host.kernel", 19, None, "kernel", kernel=True, node="n2"),
    ),
    "earlier error of the rank": (ENDED, alert("storage.full", 10, 2), alert("storage.full", 10, 3)),
    "error above the launcher's line": (
        ENDED,
        alert("storage.full", 10, None, "/launcher.log"),
        alert("storage.full", 10, None, "/other.log"),
    ),
    "only exception": (
        ENDED_UNNAMED,
        alert("python.exception", 18, 3),
        alert("python.exception", 30, 3),
    ),
    "last lost peer": (
        ENDED,
        alert("peer.connection_lost", 19, None, "/launcher.log"),
        alert("peer.connection_lost", 21, None, "/launcher.log"),
    ),
}
"""Name -> effect, its cause, and an alert that is no cause: elsewhere, of another rank, or later."""


def first_link(effect: Alert, alerts: tuple[Alert, ...]) -> tuple[str, list[Alert]] | None:
    """The first row that finds causes among the alerts, and these."""
    found = ((row.name, row.find(alerts, effect)) for row in LINKS if row.of(effect))
    return next((each for each in found if each[1]), None)


def test_each_link_has_an_example() -> None:
    assert list(EXAMPLES) == [row.name for row in LINKS]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_link_leads_to_its_example_only(name: str) -> None:
    effect, cause, other = EXAMPLES[name]
    assert first_link(effect, (effect, cause)) == (name, [cause])
    assert first_link(effect, (effect, other)) is None
    assert explained(effect, (effect, cause)).code == cause.code
    assert explained(effect, (effect, other)).code == effect.code


def test_the_cause_of_a_rank_s_end_without_a_rank_is_that_rank_s() -> None:
    for name in ("error above the launcher's line", "last lost peer"):
        effect, cause, _ = EXAMPLES[name]
        assert (cause.rank, explained(effect, (effect, cause)).rank) == (None, 2)
