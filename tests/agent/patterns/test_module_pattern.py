"""A pattern that is compiled at its first use does what a compiled one does."""

from __future__ import annotations

import re

import pytest

from gpuwatch.agent.patterns.module_pattern import pattern_of

TEXT = r"(?P<word>[a-z]{3})(\d)?"


def test_it_has_what_a_compiled_pattern_has() -> None:
    lazy, compiled = pattern_of(TEXT, re.IGNORECASE), re.compile(TEXT, re.IGNORECASE)
    line = "abc1 DEF xy9"
    assert [hit.span() for hit in lazy.finditer(line)] == [hit.span() for hit in compiled.finditer(line)]
    assert lazy.sub("-", line) == compiled.sub("-", line)
    assert (lazy.findall(line), lazy.split(line)) == (compiled.findall(line), compiled.split(line))
    for name in ("pattern", "flags", "groups", "groupindex"):
        assert getattr(lazy, name) == getattr(compiled, name)
    for name in ("search", "match", "fullmatch"):
        found, expected = (getattr(each, name)("DEF2") for each in (lazy, compiled))
        assert found.groups() == expected.groups()
    assert pattern_of(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_a_mistake_is_found_at_the_first_use_and_other_attributes_are_not_there() -> None:
    wrong = pattern_of("(")
    with pytest.raises(re.error):
        wrong.search("")
    with pytest.raises(AttributeError):
        pattern_of("a").scanner  # type: ignore[attr-defined]  # noqa: B018 - that is the test
