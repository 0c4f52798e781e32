"""Every pattern that a module compiles when it is imported takes time in proportion to the text."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

import pytest

import gpuwatch
from gpuwatch.agent.patterns.module_pattern import ModulePattern
from gpuwatch.rules.compiling.check import parsed
from tests.rules.compiling.costs import REPEATED, TooLongError, at_most, sample, slowest_pump

pytestmark = pytest.mark.long

CHARS, SHARE = 6000, 4
"""Length of the longer text, and its ratio to the shorter one."""
NOISE_S = 0.05
"""Of CPU time, below which nothing is compared: clocks may tick at 10 ms."""
GIVEN_UP_S = 1.0
MOST = 9.0
"""Times the CPU time of the shorter text; a quadratic pattern takes 16."""
ANYWHERE = re.compile(r"(\w+)\.(?:search|sub|subn|finditer|findall|split)\b")
"""Uses of a pattern that try every place of a text; `match` and `fullmatch` try its beginning."""
BOUNDED = frozenset((
    "gpuwatch.fleet.filter.filter._PATTERN",
    "gpuwatch.fleet.filter.filter._TOKEN",
    "gpuwatch.link.start.bundle._SIGNATURE",
    "gpuwatch.runs.placement.owners.HOST",
))  # fmt: skip
"""Patterns whose text is bounded where they are used: names, what a person types, the agent's own source."""
SHORT, SCREENED, LONG = 1 << 10, 1 << 14, 1 << 16
"""Bytes of the texts whose cost per byte is compared, and of the one that shows whether to compare."""
SCREENED_S = 0.02
"""CPU seconds for that one, two ticks of a clock, below which even a quadratic pattern ends within 0.3 s."""
MOST_PER_BYTE = 3.0


def module_patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Name and pattern, also of those in tuples, lists and mappings."""
    for each in pkgutil.walk_packages(gpuwatch.__path__, "gpuwatch."):
        if each.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(each.name)
        except ImportError:  # an optional package
            continue
        for name, value in vars(module).items():
            held: Iterable[object] = value.values() if isinstance(value, dict) else [value]
            held = value if isinstance(value, tuple | list) else held
            for one in held:
                if isinstance(one, ModulePattern):
                    yield f"{each.name}.{name}", re.compile(one.pattern, one.flags_given)
                elif isinstance(one, re.Pattern):
                    yield f"{each.name}.{name}", one


def searched_names() -> set[str]:
    """Patterns that are used to search, as `module.NAME`, in their own module or in one that imports them."""
    folder = Path(gpuwatch.__path__[0])
    found = set()
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        text = path.read_text()
        own = {
            each.asname or each.name: f"{_module(parts, node)}.{each.name}"
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.ImportFrom)
            for each in node.names
        }
        found |= {own.get(name, ".".join((*parts, name))) for name in ANYWHERE.findall(text)}
    return found


def _module(parts: tuple[str, ...], node: ast.ImportFrom) -> str:
    """Return the dotted name of the module that an import in the module `parts` refers to."""
    above = parts[: len(parts) - node.level] if node.level else ()
    return ".".join((*above, *(node.module or "").split(".")))


def pieces(pattern: re.Pattern[Any], common: Iterable[str]) -> list[str]:
    """What a text may repeat: common pieces, and texts that fit the pattern, whole and cut."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    whole = sample(parsed(text), random.Random(1))
    return [each for each in dict.fromkeys((*common, whole, whole[:-1], whole[: len(whole) // 2])) if each]


def cost_s(use: Callable[[Any], object], text: str | bytes) -> float:
    began = process_time()
    try:
        with at_most(GIVEN_UP_S):
            use(text)
    except TooLongError:
        return 4 * GIVEN_UP_S
    return process_time() - began


def slow_patterns(common: Iterable[str]) -> dict[str, list[str]]:
    searched, found = searched_names(), defaultdict(list)
    known = {(one.pattern, one.flags): (name, one) for name, one in module_patterns()}
    for name, pattern in known.values():
        is_searched = name in searched
        for piece in pieces(pattern, common):
            text = (piece * CHARS)[:CHARS]
            given = text if isinstance(pattern.pattern, str) else text.encode("utf-8", "replace")
            for use in (pattern.search,) if is_searched else (pattern.match, pattern.fullmatch):
                long = cost_s(use, given)
                if long > NOISE_S and long > MOST * cost_s(use, given[: len(given) // SHARE]):
                    found[name].append(piece)
    return {name: found[name] for name in found if name not in BOUNDED}


@pytest.mark.timeout(900)
def test_no_module_compiles_a_pattern_that_is_worse_than_linear() -> None:
    assert not slow_patterns((*REPEATED, " ("))


@pytest.mark.timeout(1200)
def test_no_repeat_of_a_modules_pattern_is_worse_than_linear() -> None:
    searched, slow = searched_names(), {}
    for name, pattern in {(one.pattern, one.flags): (name, one) for name, one in module_patterns()}.values():
        text = pattern.pattern
        use = pattern.search if name in searched else pattern.match
        line = slowest_pump(
            use, text if isinstance(text, str) else text.decode("latin-1"), as_bytes=isinstance(text, bytes)
        )
        if line is not None and name not in BOUNDED:
            slow[name] = line[:400]
    assert not slow


def grown(use: Callable[[Any], object], text: Callable[[int], str | bytes]) -> float:
    """Cost per byte of the long text, in multiples of the short one's; 1.0 where screening shows none."""
    if cost_s(use, text(SCREENED)) < SCREENED_S:
        return 1.0
    short, again = text(SHORT), 4 * LONG // SHORT
    shorts = cost_s(lambda given: [use(given) for _ in range(again)], short)
    return min(cost_s(use, text(LONG)) for _ in range(2)) * 4 / max(shorts, NOISE_S)


def repeated(head: str, piece: str, tail: str, as_bytes: bool) -> Callable[[int], str | bytes]:
    def text(size: int) -> str | bytes:
        whole = head + (piece * size)[: max(0, size - len(head) - len(tail))] + tail
        return whole.encode("utf-8", "replace") if as_bytes else whole

    return text


@pytest.mark.timeout(1800)
def test_the_cost_per_byte_of_no_pattern_grows_from_1_to_64_kb() -> None:
    searched, slow = searched_names(), defaultdict(list)
    for name, pattern in {(one.pattern, one.flags): (name, one) for name, one in module_patterns()}.values():
        use = pattern.search if name in searched else pattern.match
        whole = pieces(pattern, ())[:1] or [""]
        for piece in pieces(pattern, (*REPEATED, " (")):
            for head, tail in (("", ""), (whole[0][: len(whole[0]) // 2], whole[0])):
                text = repeated(head, piece, tail, isinstance(pattern.pattern, bytes))
                times = grown(use, text)
                if times > MOST_PER_BYTE and name not in BOUNDED:
                    slow[name].append((piece, head, round(times, 1)))
    assert not slow


def test_a_quadratic_pattern_is_seen() -> None:
    frame = re.compile(r"(.+) \((.*?)(?::(\d{1,9}))?\)$")
    long, short = ((" (" * chars)[:chars] for chars in (CHARS, CHARS // SHARE))
    assert cost_s(frame.match, long) > MOST * cost_s(frame.match, short)
    assert grown(frame.match, repeated("", " (", "", as_bytes=False)) > MOST_PER_BYTE
