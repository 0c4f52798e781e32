"""docs/requirements.md: a row for each statement, its tests and commands exist, and its counts are right."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from gpuwatch.cli.main import COMMANDS

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "requirements.md").read_text()
STATEMENTS = {"000": 42, "001": 34, "002": 34, "003": 38, "004": 54, "card": 7}
"""Statements of each guide: no row may be lost."""
MIN_DONE = 191
"""Raise it with the rows; no change may lower it."""


def rows() -> list[list[str]]:
    """Document, statement, what does it, tests, status."""
    table = PAGE.partition("| document | statement |")[2].splitlines()[2:]
    return [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in table if line.startswith("|")
    ]


def test_every_statement_has_its_row_and_the_counts_are_right() -> None:
    found = rows()
    assert {len(row) for row in found} == {5}
    assert Counter(row[0].split()[0] for row in found) == STATEMENTS
    counts = Counter(row[4] for row in found)
    assert counts.keys() <= {"done", "partly", "not done"}
    stated = re.search(r"\*\*(\d+) done, (\d+) partly, (\d+) not done, of (\d+)\.\*\*", PAGE)
    assert stated is not None
    assert [int(number) for number in stated.groups()] == [
        *(counts[status] for status in ("done", "partly", "not done")),
        len(found),
    ]
    assert counts["done"] >= MIN_DONE


def test_the_tests_that_prove_a_row_exist() -> None:
    for document, statement, _, tests, status in rows():
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", tests)
        assert bool(named) or status == "not done", (document, statement)
        for path, test in named:
            source = (TESTS / path).read_text()
            assert re.search(rf"^(?:async )?def {test}\(", source, re.MULTILINE), (path, test)


def test_the_commands_of_a_row_exist() -> None:
    for document, statement, does, _, status in rows():
        for word in re.findall(r"`gpuwatch ([a-z]+)", does):
            assert word in COMMANDS or status == "not done", (document, statement, word)
