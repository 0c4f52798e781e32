"""The agent and the library, which ships alone, judge names of secrets by tables of their own: alike."""

from __future__ import annotations

from itertools import product

import pytest

from gpuwatch.agent.masking import secret_names as agent
from gpuwatch.telemetry.base import secret_names as library

BEFORE = sorted({
    *agent.SECRET_KEYS, *agent._KEY_OF, *agent.PASSES, *agent._TEXT_TOKENS, *library._KEY_OF,
    *library._PASSES, *library._TEXT_TOKENS, "x", "my", "sort", "public", "primary",
})  # fmt: skip
ENDS = sorted({*agent._ENDS, *library._ENDS, *library._SECRET_WORDS, "token", "key", "pass", "auth"})
WITHIN = library._SECRET_WORDS
"""Words that make a key of a document a secret's also where another word follows: `password_file`. In a text,
such a name is no secret's."""


@pytest.mark.parametrize("style", ["{}_{}", "{}-{}", "{}.{}"])
def test_a_name_of_two_words_is_judged_alike(style: str) -> None:
    names = [style.format(*each) for each in product(BEFORE, ENDS) if each[0] not in WITHIN]
    differ = [name for name in names if agent.is_secret_name(name) != library.is_secret_name(name)]
    assert differ == []


def test_what_is_a_secret_in_a_text_is_one_in_a_document() -> None:
    names = ["_".join(each) for each in product(BEFORE, (*ENDS, "file", "id", "count", "size"))]
    names += [first + second.title() for first, second in product(BEFORE, ENDS)]
    assert [name for name in names if agent.is_secret_name(name) and not library.is_secret_name(name)] == []


def test_a_lone_name_is_a_secret_of_a_document_alone() -> None:
    """In a text, `key: value` states nothing of the kind."""
    lone = [name for name in ENDS if library.is_secret_name(name) and not agent.is_secret_name(name)]
    assert set(lone) <= {*library.LONE_NAMES, "pwd", "pat"}
