"""What the prefilter looks for: it must be in every line that a pattern matches."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.rules.compiling.literals import literals_of
from gpuwatch.rules.load import load_packs


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (r"the frobnicator seized up", {"the frobnicator seized up"}),
        (r"frobnicator \d+ of (?P<n>\d+)", {"frobnicator "}),
        (r"(?:frobnicator|gizmotron) died", {"frobnicator died", "gizmotron died"}),
        (r"(?:frobnicator .* one|gizmotron .* two)", {"frobnicator ", "gizmotron "}),
        (r"x+ (?:frobnicator)? broken gizmotron", {" broken gizmotron"}),
        (r"[Ff]robnicator stopped", {"Frobnicator stopped", "frobnicator stopped"}),
        (r"(?=ignored)frobnicator(?!not)", {"frobnicator"}),
        (r"\d+ \w+", set()),
        (r"frobnicator|\d+", set()),
    ],
)
def test_the_most_telling_sure_text(pattern: str, texts: set[str]) -> None:
    assert {each.text for each in literals_of(pattern)} == texts


@pytest.mark.parametrize(
    ("pattern", "words", "parts"),
    [
        (r"seized frobnicator badly", ("frobnicator",), {"seized", "badly"}),
        (r"frobnicator", (), {"frobnicator"}),
        (r"\bfrobnicator\b", ("frobnicator",), set()),
        (r"\d frobnicator:", ("frobnicator",), set()),
        (r"frobnicator\w+", (), {"frobnicator"}),
        (r"(?i)\bFrobnicator\b", ("frobnicator",), set()),
    ],
)
def test_a_word_is_whole_only_where_that_is_sure(
    pattern: str, words: tuple[str, ...], parts: set[str]
) -> None:
    (literal,) = literals_of(pattern)
    assert literal.words == words
    assert set(literal.parts) == parts


@pytest.mark.parametrize(
    ("pattern", "needs"),
    [
        (r"frobnicator \d+ (?:failed|Broke)", {("broke", "failed")}),
        (r"\w+ of \d+ frobnicator .* (?:\d+|broke)", {("of",)} - {("of",)}),
        (r"(?:frobnicator \d+ badly|gizmotron) \d+ ended", {("badly",), ("ended",)}),
        (r"frobnicator in WorkNCCL\(\d+ ran for", set()),
        (r"(?i)frobnicator: \d+ ошибка", set()),
        (r"frobnicator \w+: 79, \w+ №7\d", set()),
        (r"frobnicator: \d+ ошибка", {("ошибка",)}),
    ],
)
def test_words_that_stand_beside_the_most_telling_text(pattern: str, needs: set[tuple[str, ...]]) -> None:
    (found,) = [each for each in literals_of(pattern) if "frobnicator" in each.text]
    assert set(found.needs) == needs


PATTERNS = sorted({
    each
    for rule in load_packs().rules
    for each in (*rule.match, *(rule.general.match if rule.general else ()))
    if not rule.literals
})  # fmt: skip


@given(st.data())
def test_every_text_that_a_pattern_matches_holds_a_literal_with_its_words(data: st.DataObject) -> None:
    pattern = data.draw(
        st.sampled_from([p for p in PATTERNS if "(?" not in p.replace("(?:", "").replace("(?P<", "")])
    )
    line = data.draw(st.from_regex(pattern, alphabet=st.characters(min_codepoint=32, max_codepoint=126)))
    held = [
        each
        for each in literals_of(pattern)
        if (each.text.lower() in line.lower() if each.fold else each.text in line)
        and set(each.words) | set(each.also)
        <= set(re.findall("[A-Za-z]+", line.lower() if each.fold else line))
        and all(any(word in line.lower() for word in group) for group in each.needs)
    ]
    assert held
