"""What a line costs from its bytes to its findings grows with its length, whatever it repeats."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import random
import re
from collections.abc import Iterator
from time import process_time

import pytest

import gpuwatch.agent.logs
from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.agent.patterns.module_pattern import ModulePattern
from gpuwatch.rules.compiling.check import parsed
from gpuwatch.rules.load import load_packs
from tests.packs import patterns_of, rules_and_dialects
from tests.rules.compiling.costs import REPEATED, at_most, sample

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

LONG, SHORT = 1 << 16, 1 << 10
MOST = 3.0
"""Times the cost of the same bytes in lines of 1 KiB."""
NOISE_S = 0.4
"""Of CPU time for 64 KiB, below which nothing is compared: clocks may tick at 10 ms."""
GIVEN_UP_S = 5.0
SHARE = 8
"""So many tests share the pieces."""


def patterns() -> Iterator[str]:
    """Of the rules, and of every module that reads log lines on a node."""
    for entry in load_packs([]).all:
        yield from patterns_of(entry)
    for each in pkgutil.walk_packages(gpuwatch.agent.logs.__path__, "gpuwatch.agent.logs."):
        for value in vars(importlib.import_module(each.name)).values():
            if isinstance(value, re.Pattern | ModulePattern):
                text = value.pattern
                yield text if isinstance(text, str) else text.decode("latin-1")


def pieces() -> list[bytes]:
    """What a line may repeat: common pieces of logs, and texts made from the patterns, whole and cut."""
    pick, made = random.Random(1), list(REPEATED)
    for pattern in dict.fromkeys(patterns()):
        whole = sample(parsed(pattern), pick)
        made += [whole, whole[: pick.randrange(1 + len(whole))] + " "]
    return [each.encode("utf-8", "replace") for each in dict.fromkeys(made) if each.strip()]


def cost_s(data: bytes) -> float:
    scanner = Scanner(rules_and_dialects(), "a.log", itertools.count(1).__next__)
    began = process_time()
    with at_most(GIVEN_UP_S):
        scanner.feed(data, 0, 1.7e9)
        scanner.end()
        scanner.progress()
    return process_time() - began


@pytest.mark.long
@pytest.mark.parametrize("share", range(SHARE))
def test_a_byte_costs_the_same_in_a_long_line(share: int) -> None:
    rules_and_dialects().compile()
    slow = []
    for piece in pieces()[share::SHARE]:
        long = cost_s((piece.replace(b"\n", b" ") * LONG)[: LONG - 1] + b"\n")
        if long > NOISE_S:
            line = (piece.replace(b"\n", b" ") * SHORT)[: SHORT - 1] + b"\n"
            short = cost_s(line * (LONG // SHORT))
            if long > MOST * short:
                slow.append((piece[:80], long, short))
    assert not slow
    assert not rules_and_dialects().suspended
