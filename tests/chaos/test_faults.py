"""Every fault of the table: what must be shown is shown, all comes back, and no invariant is broken."""

from __future__ import annotations

import os

import pytest

from tests.chaos.apart import played
from tests.chaos.faults.table import FAULTS, OF_MANY, SHORT
from tests.end_to_end.cluster import ROOT
from tests.workers.isolation import own_processes


@pytest.fixture
def namespaces() -> None:
    if os.geteuid() != 0 or not own_processes():
        pytest.skip("no namespaces of one's own are permitted here")


def broken(*names: str) -> list[str]:
    return [f"{outcome.fault}: {text}" for outcome in played(names, os.environ) for text in outcome.broken()]


@pytest.mark.usefixtures("namespaces")
@pytest.mark.timeout(600)
def test_usual_faults_of_nodes_one_after_the_other_break_no_invariant() -> None:
    assert broken(*SHORT) == []


@pytest.mark.long
@pytest.mark.usefixtures("namespaces")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [name for name in [*FAULTS, *OF_MANY] if name not in SHORT])
def test_a_fault_breaks_no_invariant(name: str) -> None:
    assert broken(name) == []


def test_the_documentation_has_a_row_for_each_fault() -> None:
    rows = (ROOT / "docs/faults.md").read_text().splitlines()
    whats = [*(fault.what for fault in FAULTS.values()), *(fault.what for fault in OF_MANY.values())]
    lacking = [what for what in whats if not any(row.startswith(f"| {what} |") for row in rows)]
    assert lacking == []
