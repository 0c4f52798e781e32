"""What a line costs the masks, whatever it repeats: an untrusted line must not hold up a log reader."""

from __future__ import annotations

import random
import re
from time import process_time

import pytest

from gpuwatch.agent.masking import encoded_text, secret_forms, secret_masking, secret_names, secret_phrases
from gpuwatch.agent.masking.secret_masking import masked
from gpuwatch.agent.patterns.module_pattern import ModulePattern
from gpuwatch.rules.compiling.check import parsed
from tests.rules.compiling.costs import REPEATED, sample

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

SIZE = 1 << 13
MOST = 10.0
"""Times the cost of as many bytes of a training log; 24 was measured before the patterns were mended."""
PLAIN = "password step 12 loss 2.3 "


def patterns() -> list[str]:
    modules = (encoded_text, secret_forms, secret_masking, secret_names, secret_phrases)
    return [
        each.pattern
        for module in modules
        for each in vars(module).values()
        if isinstance(each, re.Pattern | ModulePattern) and isinstance(each.pattern, str)
    ]


def pieces() -> list[str]:
    """Texts made from the patterns, whole and cut; their words alone and in pairs."""
    pick, made = random.Random(1), list(REPEATED)
    for pattern in patterns():
        for _ in range(12):
            whole = sample(parsed(pattern), pick)[:200]
            made += [whole, whole[: pick.randrange(1 + len(whole))], whole[pick.randrange(1 + len(whole)) :]]
    words = sorted({word for each in patterns() for word in re.findall(r"[A-Za-z]{3,}", each)})
    ends = (" ", "=", "-", ": ", "' ", "name=value=", "','")
    made += [word + end for word in words for end in ends]
    made += [
        pick.choice(words) + pick.choice(ends) + pick.choice(words) + pick.choice(ends) for _ in range(400)
    ]
    return [each for each in dict.fromkeys(made) if each.strip()]


def cost_s(piece: str) -> float:
    text = (piece * (SIZE // len(piece) + 1))[:SIZE]
    began = process_time()
    masked(text)
    return process_time() - began


@pytest.mark.long
def test_no_repeated_text_costs_the_masks_many_times_a_plain_one() -> None:
    plain = min(cost_s(PLAIN) for _ in range(5))
    slow = {piece: cost for piece in pieces() if (cost := cost_s(piece)) > MOST * plain}
    assert {piece: cost / plain for piece, cost in slow.items() if cost_s(piece) > MOST * plain} == {}
