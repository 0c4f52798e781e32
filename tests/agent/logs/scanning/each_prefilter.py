"""The rules that fire in some bytes, by each of the prefilters."""

from __future__ import annotations

import itertools
from functools import cache

from gpuwatch.agent.logs.matching.prefilter import Prefilter
from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.runs.prefilter import hyperscan_database
from gpuwatch.runs.prefilter.hyperscan_prefilter import HyperscanPrefilter
from gpuwatch.runs.prefilter.piece_prefilter import PiecePrefilter
from tests.agent.logs.scan_lines import NOW
from tests.packs import built_in_rules

ERROR = "rank.error_unexplained"
"""The rule of lines that are logged as errors: a level stands at their beginning, or in a field."""


@cache
def prefilters() -> list[Prefilter]:
    rules = built_in_rules()
    hyperscan = [HyperscanPrefilter(rules)] if hyperscan_database.installed() else []
    return [Prefilter(rules), PiecePrefilter(rules), *hyperscan]


def rules_in(data: bytes, prefilter: Prefilter, feed: int = 1 << 19) -> set[str]:
    scanner = Scanner(built_in_rules(), "/logs/a.log", itertools.count(1).__next__, None, prefilter)
    found = []
    for at in range(0, len(data), feed):
        found += scanner.feed(data[at : at + feed], at, NOW)
    found += scanner.end()
    assert scanner.take_failed() == []
    return {each["rule"] for each in found}
