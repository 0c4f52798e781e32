"""Patterns that may take for ever are refused by construction; the verdict is compared with the cost."""

from __future__ import annotations

import re
from itertools import product
from time import process_time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gpuwatch.rules.compiling.ambiguity import WINDOW_CHARS, check_pattern
from gpuwatch.rules.compiling.check import PatternError
from tests.rules.compiling.costs import at_most

ENDLESS = [
    "x*" * 200,
    r"(a{1,9})+$",
    r"(?:aa?)+$",
    r"(?:a?a)+$",
    r"(\w\d?)+$",
    r"(?:x|x)*y",
    r"(?i)(?:ab|AB)+c",
    r"(?i:(?:kb|\u212ab)+)c",
    r"(.*)(.*)(.*)(.*)(.*)(.*)(.*)x",
    r"(?:a+ba*)+$",
    r"(?:a*a*,)+$",
    r"(x?y?)*z",
    r"(?:(?:a|b)+)+c",
    r"(a|b|ab)*c",
    r"(?:a(?:b?|c?))*d",
    r"(?:(?=(a+)+b)a)*",
    r"\d+\.?\d+X",
    r"error (\S+)(\S+).*X",
    r"(?:.*a){12}x",
    r"x(?:(?i:a)|A)+!",
    r"x(?i:(?:(?-i:a)|b|A)+)!",
    r"(?:(?:a){0,40}){1,9}#",
    r"(?:\d{1,40}){9}x",
    r"(?:x|\w{0,90}){1,8}#",
    r"\d{1,900}\d{1,900}\d{1,900}x",
    r"\d{1,9}\d{1,9}\d{1,9}\d{1,9}\d{1,9}\d{1,9}\d{1,9}x",
    "a?" * 60 + "b",
    "(?:a|ab|b)" * 40 + "#",
    "(?:(?:a|ab|b){0,6}){6}#",
    r"(.*)\1\1x",
    r"(?:(?!a+b).)+c",
    r"(?:a(?!.*z))+b",
    r"(?=(\w+)){0,200}x",
]
ORDINARY = [
    r"(?:\w+\s)+:",
    r"\[(?:\d+, )*\d+\]",
    r"word .*? after .*",
    r"rank (\d+).*step (\d+)",
    r"error (\S+).*X",
    r"(?<!\d)\d+\.\d+ it/s",
    r"(?:[^,]+,){2,}x",
    r"(?:(?!ab).)+c",
    r"(?:foo|far|bar)+c",
    r"(?:(?:\d+)\.)+x",
    r"(?:\d{14}:)+",
    r"\d{1,3}(?:\.\d{1,3}){3}:\d{1,5}",
    r"(?:\w{1,40} ){1,9}x",
    r"\d{4}-\d{1,2}-\d{1,2} (?:\d{1,2}:){2}\d{1,9}",
    r"(?i)(?:a|A)+$",  # a class of two letters: `re` reads it so
]


@pytest.mark.parametrize("pattern", ENDLESS)
def test_a_pattern_that_may_take_for_ever_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="may never end"):
        check_pattern(pattern)


@pytest.mark.parametrize("pattern", ORDINARY)
def test_an_ordinary_pattern_is_taken(pattern: str) -> None:
    check_pattern(pattern)


ALPHABET = "aA1 ,"
ATOMS = st.sampled_from(["a", "A", "1", " ", ",", r"\d", r"\w", r"\s", r"\S", ".", "[a1]", "[^,]", "[^a]"])
TIMES = st.sampled_from(["*", "+", "?", "{0,40}", "{1,9}", "{2}", "*?", "+?"])


def larger(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(parts, TIMES).map(lambda two: f"(?:{two[0]}){two[1]}"),
        st.lists(parts, min_size=2, max_size=4).map("".join),
        st.lists(parts, min_size=2, max_size=3).map(lambda some: f"(?:{'|'.join(some)})"),
        parts.map(lambda one: f"(?i:{one})"),
        parts.map(lambda one: f"(?!{one})"),
    )


PATTERNS = st.recursive(ATOMS, larger, max_leaves=7)
WORDS = ["".join(word) for size in (1, 2, 3) for word in product(ALPHABET, repeat=size)]
SHORT = 256
SHORT_S, LONG_S = 1.0, 20.0


def taken(pattern: str) -> bool:
    try:
        check_pattern(pattern)
    except PatternError:
        return False
    return True


@given(PATTERNS)
@example(r"(?:a?1?,)*")
@example(r"(?:(?:a|1) ?)*")
@example(r".*,.*,")
@settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_taken_comes_to_an_end(pattern: str) -> None:
    search_all(pattern)


@pytest.mark.long
@pytest.mark.timeout(1200)
@given(PATTERNS)
@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
def test_more_of_what_is_taken_comes_to_an_end(pattern: str) -> None:
    search_all(pattern)


def search_all(pattern: str) -> None:
    """Search texts of every short word repeated; then of the costliest one a whole window."""
    pattern += "#"
    if not taken(pattern):
        return
    compiled, costs = re.compile(pattern), {}
    for word in WORDS:
        began = process_time()
        with at_most(SHORT_S):
            compiled.search((word * SHORT)[:SHORT] + "!")
        costs[word] = process_time() - began
    worst = max(WORDS, key=costs.__getitem__)
    with at_most(LONG_S):
        compiled.search((worst * WINDOW_CHARS)[:WINDOW_CHARS] + "!")
