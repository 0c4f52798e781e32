"""docs/requirements.md: a row for each statement, its tests and commands exist, and its counts are right."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

from gpuwatch.cli.main import COMMANDS

TESTS = Path(__file__).parents[2]
PAGE = (TESTS.parent / "docs" / "requirements.md").read_text()
STATEMENTS = {"000": 42, "001": 34, "002": 34, "003": 38, "004": 54, "card": 7}
"""Statements of each guide: no row may be lost."""
NAMED_IN_TESTS = ("001", "002", "004")
"""The guides whose statements have a test that names the guide and the line."""
MIN_DONE = 205
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


def test_a_test_names_the_document_and_line_of_each_row() -> None:
    missing = []
    for place, statement, _, tests, _ in rows():
        document, _, line = place.partition(" ")
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", tests)
        if document in NAMED_IN_TESTS and not any(
            int(line) in lines_named(document, *each) for each in named
        ):
            missing.append((place, statement))
    assert missing == []


def lines_named(document: str, path: str, test: str) -> set[int]:
    """The lines of a document that the docstring of a test names: `Document 002, lines 9 to 16 and 117`."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == test:
            text = " ".join((ast.get_docstring(node) or "").split())
            break
    else:
        return set()
    numbers = r"\d+(?: to \d+)?(?: \([^)]*\))?"
    found: set[int] = set()
    for listed in re.findall(rf"(?i)document {document}, lines? ((?:{numbers}(?:, | and )?)+)", text):
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", re.sub(r"\([^)]*\)", "", listed)):
            found |= set(range(int(first), int(last or first) + 1))
    return found


@cache
def tree_of(path: str) -> ast.Module:
    return ast.parse((TESTS / path).read_text())


def test_the_commands_of_a_row_exist() -> None:
    for document, statement, does, _, status in rows():
        for word in re.findall(r"`gpuwatch ([a-z]+)", does):
            assert word in COMMANDS or status == "not done", (document, statement, word)
