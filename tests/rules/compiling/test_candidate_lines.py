"""Of an ordinary log few lines reach the patterns of a rule: counted, so that no clock decides."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice

import pytest

from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.rules.compiling.compile import compiled
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.model.clues import CLUES
from gpuwatch.runs.prefilter.piece_prefilter import PiecePrefilter
from tests.bench.log_reading.log_lines import text_lines
from tests.bench.log_reading.rank_logs import prose, rank_log

LINES = 3000
ABOUT_PLACES = {"place.rank_on_host", "place.nccl_init", "place.checkpoint_saved", "place.checkpoint_begun"}
"""Rules that are about ordinary lines."""


@pytest.fixture(scope="module")
def ruleset() -> RuleSet:
    return RuleSet(compiled([*load_packs().all, *CLUES]))


def texts() -> Iterator[str]:
    yield from (line + "\n" for line in text_lines(random.Random(1)))


@pytest.mark.parametrize(
    ("lines", "share"),
    [(rank_log(3), 0.02), (texts(), 0.05), (prose(random.Random(1)), 0.05)],
    ids=["ranks", "frameworks", "prose"],
)
def test_few_lines_of_a_sound_log_reach_the_patterns_of_a_rule(
    ruleset: RuleSet, lines: Iterator[str], share: float
) -> None:
    data = "".join(islice(lines, LINES)).encode()
    reached: dict[str, set[int]] = defaultdict(set)
    for at, phrase in PiecePrefilter(ruleset).hits(data):
        for rule in (*phrase.rules, *phrase.recoveries):
            reached[rule.id].add(data.count(b"\n", 0, at))
    shares = {rule: len(found) / LINES for rule, found in reached.items() if rule not in ABOUT_PLACES}
    assert {rule: each for rule, each in shares.items() if each > share} == {}
