"""A pattern that reads a quantity looks at the begin of its text alone, however it is applied."""

from __future__ import annotations

import re

import pytest

from gpuwatch.agent.logs.progress import quantities
from tests.rules.compiling.costs import at_most

PATTERNS = {name: value for name, value in vars(quantities).items() if isinstance(value, re.Pattern)}
PIECES = (" ", "9", ".", "1.", "-1.", "1,111", "1 d", "1 h ", "1 d1 h1 m", "1K", '"', "1 day, ")


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("name", ["_QUANTITY", "_SPELLED", "_ABBREVIATED"])
def test_a_quantity_is_searched_for_in_time_that_grows_with_the_text(name: str, piece: str) -> None:
    line = (piece * 16_384)[:16_384] + "\x01"
    with at_most(1.0):
        PATTERNS[name].search(line)
