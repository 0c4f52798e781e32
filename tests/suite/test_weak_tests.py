"""Habits that make tests fail for no fault, or bind them to what nobody promised: none of them comes back.

CPU time depends on the machine and its neighbours: count calls (`tests.counted_calls`) or mark a test `long`.
A fixed sleep is too short on a busy machine and too long on others: wait for a condition. A private member
that is replaced ties a test to one implementation. A test module that others import is none: its helpers are.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CLOCKS = {"process_time", "thread_time", "cpu_times", "getrusage"}
CLOCK_USERS = {
    "runs/sessions/sources/test_sources.py": "the ratio of two costs: copies of lists that no call shows",
    "agent/host/test_host.py": "keeps a core busy for a while: the load is what is read",
    "runs/scan/cost/test_bounded_scan.py": "a stand-in for a search that costs CPU time",
    "suite/test_linear_patterns.py": "compares the CPU time of a text with that of a 64th of it",
    "suite/test_module_patterns.py": "compares the CPU time of a text with that of a quarter of it",
    "rules/compiling/test_ambiguity.py": "chooses the costliest word; the limit is a timer of seconds",
    "cli/run/test_relay.py": "counts how often a command wakes the process that passes on its output",
    "rules/compiling/test_hostile_lines.py": "compares the CPU time of a line with that of a quarter of it",
}
SLEEPERS = {
    "end_to_end/tty/test_reopened_terminal.py": "closes a terminal at different moments of the program's end",
    "link/ssh/test_endings.py": "counts how often the process wakes up while nothing happens",
    "agent/logs/files/test_follower.py": "file systems stamp changes in steps of milliseconds",
    "end_to_end/jobs/ended/test_ended_jobs.py": "the kernel stamps starts from a boot time in whole seconds",
}
REPLACERS = {
    "tui/robustness/test_races.py": "Textual has no setting for the delay of its command palette",
    "tui/toolkit/parsed_css.py": "Textual keeps parsed style sheets for one app alone",
}
"""Files that may, each with its reason."""
Tree = ast.Module


@cache
def trees() -> dict[str, Tree]:
    """Path below `tests` -> its syntax tree; benches and fake tools measure and play, they assert nothing."""
    found = {}
    for file in sorted(TESTS.rglob("*.py")):
        path = str(file.relative_to(TESTS))
        if not path.startswith(("bench/", "corpus/")) and file != Path(__file__):
            found[path] = ast.parse(file.read_text())
    return found


def name_of(call: ast.AST) -> str:
    return str(getattr(call, "attr", None) or getattr(call, "id", ""))


def cpu_time_readers(tree: Tree) -> Iterator[ast.AST]:
    """Test functions, not marked `long`, that read a CPU clock, also through functions of their module."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = {node.name: node for node in tree.body if isinstance(node, kinds)}
    reads = {
        name: {name_of(node) for node in ast.walk(function) if isinstance(node, (ast.Name, ast.Attribute))}
        for name, function in functions.items()
    }
    users = CLOCKS
    while more := {name for name, read in reads.items() if read & users} - users:
        users = users | more
    for name, function in functions.items():
        marks = {name_of(mark) for mark in function.decorator_list}
        if name.startswith("test_") and name in users and "long" not in marks:
            yield function


def fixed_sleeps(tree: Tree) -> Iterator[ast.AST]:
    """Sleeps of a test function outside of a loop."""

    def outside(node: ast.AST) -> Iterator[ast.AST]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call) and name_of(child.func) == "sleep":
                yield child
            if not isinstance(child, (ast.While, ast.For, ast.AsyncFor)):
                yield from outside(child)

    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            yield from outside(node)


def is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.endswith("__") for part in name.split("."))


def replaced_members(tree: Tree) -> Iterator[ast.AST]:
    """Private members that are set from outside of their object, directly or by `setattr`."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            path = ast.unparse(target) if isinstance(target, ast.Attribute) else ""
            if is_private(path.removeprefix("self._")) and not path.startswith("self.__"):
                yield node
        if isinstance(node, ast.Call) and name_of(node.func) == "setattr":
            names = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant)]
            if any(is_private(name) for name in names if isinstance(name, str)):
                yield node


def imported_tests(tree: Tree) -> Iterator[ast.AST]:
    """Imports from modules of tests, also in programs that are written as text."""
    for node in ast.walk(tree):
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if module.startswith("tests.") and ".test_" in module:
            yield node


@pytest.mark.parametrize(
    ("habit", "allowed"),
    [
        (cpu_time_readers, CLOCK_USERS),
        (fixed_sleeps, SLEEPERS),
        (replaced_members, REPLACERS),
        (imported_tests, {}),
    ],
    ids=["CPU time", "sleep", "private member", "imported test"],
)
def test_no_test_has_the_habit(habit: Callable[[Tree], Iterator[ast.AST]], allowed: dict[str, str]) -> None:
    found = {path: [node.lineno for node in habit(tree)] for path, tree in trees().items()}  # type: ignore[attr-defined]
    assert {path: lines for path, lines in found.items() if lines and path not in allowed} == {}
    assert {path for path in allowed if not found[path]} == set(), "no exception without its case"


WEAK = """
from tests.one.test_two import three
def took():
    return time.process_time()
def test_a(monkeypatch):
    assert took() < 2
    time.sleep(1)
    thing._inner = 3
    monkeypatch.setattr(module, "_LIMIT", 3)
"""
FINE = """
@pytest.mark.long
def test_b():
    assert process_time() < 2
    while not ready():
        time.sleep(0.01)
    self._own = 3
"""


@pytest.mark.parametrize(
    ("habit", "count"),
    [(cpu_time_readers, 1), (fixed_sleeps, 1), (replaced_members, 2), (imported_tests, 1)],
)
def test_the_habit_is_seen(habit: Callable[[Tree], Iterator[ast.AST]], count: int) -> None:
    assert (len(list(habit(ast.parse(WEAK)))), len(list(habit(ast.parse(FINE))))) == (count, 0)
