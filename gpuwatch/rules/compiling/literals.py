"""Finds the words without which a pattern cannot match, from its parse tree, for the prefilter."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.rules.compiling.check import characters_of, op, parsed

MAX_VARIANTS = 24
MIN_WORD = 3
"""Minimum letters of a distinctive word."""

MAX_NEEDS = 2
"""Number of groups of words kept per literal; the rarest ones."""

_WORD = re.compile(r"[A-Za-z]+")
_DIGITS = re.compile(r"[0-9]")
Words = tuple[str, ...]

_LETTERS = frozenset(c for c in range(256) if chr(c).isalpha() and c < 128)
BROKEN = ("WorkNCCL", "collective operation", "ran for", "cpp")
"""Texts; a pattern with one of them may match a record that is split into several lines."""
_IN_HEADS = frozenset(("rank", "nccl", "processgroupnccl", "watchdog", "pg"))
"""Words at the head of a record that may be split into several lines."""
_FLAT = re.compile(
    r"(?i)(?:the|and|for|from|with|was|not|has|have|this|that|are|but|could|can|cannot|due|been|before|after|while|"
    r"errors?|failed|fail|failure|warning|warn|info|exception|traceback|rank|ranks|cuda|gpu|nccl|torch|python|"
    r"memory|out|time|timeout|process|kernel|device|step|loss|iteration|epoch|worker|node|line|file|data|value|"
    r"model|training|train|batch|number|size|state|status|message|internal|runtime|unable|invalid|connection|"
    r"received|signal|exit|code|host|task|job|server|client|socket|system|operation|call|function|get|set|"
    r"using|use|run|running|see|you|your|all|new|one|two|raise|return|import|module)\Z"
)


class Literal(Struct, frozen=True):
    """Constant text in a pattern, and its words; each matching line has one of the pattern's literals."""

    text: str
    words: tuple[str, ...]
    """Distinctive words that occur as whole words."""
    parts: tuple[str, ...] = ()
    """Distinctive words at an edge, which may continue beyond it; in lower case."""
    also: tuple[str, ...] = ()
    """Common words that occur as whole words."""
    fold: bool = False
    needs: tuple[Words, ...] = ()
    """Groups of lower-case words.

    One word of each group occurs in the same line, in any case, possibly within a longer word.
    """

    @property
    def weight(self) -> float:
        """Return a number for how distinctive the literal is; larger is rarer."""
        whole = max((_weight(word) for word in self.words), default=0.0)
        part = max((_weight(word) for word in self.parts), default=0.0)
        return max(whole, 0.6 * part) + 0.1 * len(self.also) + 0.02 * min(len(self.text), 40)

    def plain(self) -> dict[str, Any]:
        """Return the literal as data for a node: its text, and the word that selects it in a line's shape."""
        bare = _DIGITS.sub("", self.text.lower() if self.fold else self.text)
        ranked: list[tuple[float, str, bool]] = []
        for found in _WORD.finditer(bare):
            word = found.group()
            whole = len(word) == 1 or (found.start() > 0 and found.end() < len(bare))
            ranked.append(((_weight(word) + 0.01 * len(word)) * (1.0 if whole else 0.6), word, whole))
        plain: dict[str, Any] = {"text": self.text}
        if ranked:
            _, plain["lead"], whole = max(ranked)
            plain.update({"whole": True} if whole else {})
        plain |= {"fold": True} if self.fold else {}
        return plain | ({"needs": [list(group) for group in self.needs]} if self.needs else {})


class _Run(Struct, frozen=True):
    """A stretch of a pattern that matches one of a few texts."""

    texts: frozenset[str]
    left: bool
    """True if no letter can precede the literal text in a match."""
    right: bool = False
    needs: tuple[Words, ...] = ()


@lru_cache(maxsize=4096)
def literals_of(pattern: str) -> tuple[Literal, ...]:
    """Return the literals of which one occurs in every line that the pattern matches.

    Empty if no distinctive word is certain.
    """
    fold = _folds(pattern)
    best = _best(list(parsed(pattern)))
    found = tuple(
        replace(_literal(text, run.left, run.right, fold), needs=_sure(run.needs, pattern, fold))
        for run in best
        for text in sorted(run.texts)
    )
    return found if found and all(_states(each) for each in found) else ()


def _folds(pattern: str) -> bool:
    return bool(parsed(pattern).state.flags & re.IGNORECASE) or "(?i" in pattern


def _sure(groups: tuple[Words, ...], pattern: str, fold: bool) -> tuple[Words, ...]:
    """Return the groups of words that stand as they are in the physical line of every match.

    Empty if a match may be split into several lines. `fold`: the pattern ignores case.
    """
    if any(word in pattern for word in BROKEN):
        return ()
    return tuple(each for each in groups if not fold or all(map(_has_one_case, each)))


def _has_one_case(word: str) -> bool:
    return word.isascii() or word.upper() == word


@lru_cache(maxsize=8192)
def declared(text: str, fold: bool, pattern: str) -> Literal:
    """Return the literal for a text that a pack declares itself; `fold`: it is found in any case."""
    groups = _rarest(_groups_of(pattern), frozenset({text}))
    return replace(_literal(text, False, False, fold), needs=_sure(groups, pattern, _folds(pattern)))


@lru_cache(maxsize=4096)
def _groups_of(pattern: str) -> set[Words]:
    return _groups(_options(list(parsed(pattern))))


def _states(literal: Literal) -> bool:
    return any(len(word) >= MIN_WORD for word in _WORD.findall(literal.text))


@lru_cache(maxsize=8192)
def _weight(word: str) -> float:
    if len(word) < MIN_WORD:
        return 0.0
    return 0.5 if _FLAT.match(word) else min(len(word), 14)


@lru_cache(maxsize=8192)
def _literal(text: str, left: bool, right: bool, fold: bool) -> Literal:
    words, parts, also = set(), set(), set()
    for found in _WORD.finditer(text):
        word = found.group().lower() if fold else found.group()
        whole = (found.start() > 0 or left) and (found.end() < len(text) or right)
        if whole and _weight(word) >= MIN_WORD:
            words.add(word)
        elif whole:
            also.add(word)
        elif _weight(word) > MIN_WORD:
            parts.add(word.lower())
    return Literal(text, _ranked(words), _ranked(parts), tuple(sorted(also)), fold)


def _ranked(words: set[str]) -> tuple[str, ...]:
    return tuple(sorted(words, key=lambda word: (-_weight(word), word)))


def _options(items: list[tuple[Any, Any]]) -> list[tuple[_Run, ...]]:
    """Return sets of literal texts; every match of the pattern contains at least one text of each set."""
    options: list[tuple[_Run, ...]] = []
    stretches = [_Stretch(False)]
    flat = _opened(items)
    for index, (code, argument) in enumerate(flat):
        exact = _exact(code, argument)
        if exact is not None and len(exact) == 1:
            stretches = [each.and_then(exact) for each in stretches]
            continue
        if code is op.AT:
            options.extend((each.closed(True),) for each in stretches)
            stretches = [each if each.texts != {""} else _Stretch(True) for each in stretches]
            continue
        if code in (op.ASSERT, op.ASSERT_NOT):
            continue
        bounded = not _may_begin_with_letter(flat[index:])
        options.extend((each.closed(bounded),) for each in stretches)
        if code is op.BRANCH or (code in (op.MAX_REPEAT, op.MIN_REPEAT) and argument[0] > 0):
            inner = [_best(list(each)) for each in _inner_of(code, argument)]
            if all(inner):
                options.append(tuple(run for each in inner for run in each))
        apart = not characters_of(code, argument) & _LETTERS and _at_least_one(code, argument)
        going_on = [_Stretch(apart)]
        if exact is not None:  # with its variants, and without: the text behind it may be distinctive enough
            known = [each for each in stretches[-3:] if len(each.texts) * len(exact) <= MAX_VARIANTS]
            going_on += [each.and_then(exact) for each in known]
        stretches = going_on
    options.extend((each.closed(False),) for each in stretches)
    return [each for each in options if each and all("" not in run.texts for run in each)]


def _best(items: list[tuple[Any, Any]]) -> tuple[_Run, ...]:
    """Return the most distinctive set of literal texts of which every match of the pattern contains one."""
    options = _options(items)
    chosen = max(options, key=_value, default=())
    others = _groups([each for each in options if each is not chosen])
    return tuple(replace(run, needs=_rarest({*run.needs, *others}, run.texts)) for run in chosen)


def _groups(options: list[tuple[_Run, ...]]) -> set[Words]:
    """Return each option's longest words, unless they are too many or one is too short or too common."""
    found = {tuple(sorted({_longest_word(text) for run in each for text in run.texts})) for each in options}
    return {
        words
        for words in found
        if len(words) <= MAX_VARIANTS and all(map(_is_word, words)) and _IN_HEADS.isdisjoint(words)
    }


def _rarest(groups: set[Words], texts: frozenset[str]) -> tuple[Words, ...]:
    """Return the MAX_NEEDS rarest groups of words, without groups of which every text has a word anyway."""
    apart = [each for each in groups if not all(_holds(text, each) for text in texts)]
    return tuple(sorted(apart, key=lambda each: (len(each) - min(map(_weight, each)), each))[:MAX_NEEDS])


def _longest_word(text: str) -> str:
    """Return the longest word of a text, lower-case if ASCII.

    For a text without letters, the longest part between its spaces.
    """
    word = max(_WORD.findall(text) or text.split(), key=len, default="")
    return word.lower() if word.isascii() else word


def _is_word(word: str) -> bool:
    """Return True if a word is long enough, and unchanged in a line without digits."""
    plain = word.isalpha() and len(word) >= MIN_WORD
    return plain if word.isascii() else not any(map(str.isdecimal, word))


def _holds(text: str, words: Words) -> bool:
    return any(word in text.lower() for word in words)


class _Stretch(Struct, frozen=True):
    """A `_Run` that is being extended: the texts so far, and whether a letter may precede them (`left`)."""

    left: bool
    texts: frozenset[str] = frozenset({""})

    def and_then(self, exact: frozenset[str]) -> _Stretch:
        return _Stretch(self.left, frozenset(a + b for a in self.texts for b in exact))

    def closed(self, right: bool) -> _Run:
        return _Run(self.texts, self.left, right)


def _value(runs: tuple[_Run, ...]) -> float:
    literals = [_literal(text, run.left, run.right, False) for run in runs for text in run.texts]
    if not all(_states(each) for each in literals):
        return -math.inf
    return min(each.weight for each in literals) * (1 - 0.03 * math.log2(len(literals)))


def _opened(items: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    for code, argument in items:
        if code is op.SUBPATTERN:
            found.extend(_opened(list(argument[3])))
        else:
            found.append((code, argument))
    return found


def _inner_of(code: Any, argument: Any) -> list[Any]:
    return list(argument[1]) if code is op.BRANCH else [argument[2]]


def _exact(code: Any, argument: Any) -> frozenset[str] | None:
    """Return all texts that a regex element can match, if they are few; else None."""
    if code is op.LITERAL:
        return frozenset({chr(argument)})
    if code is op.IN and len(argument) <= 3 and all(kind is op.LITERAL for kind, _ in argument):
        return frozenset(chr(value) for _, value in argument)
    if code is op.BRANCH:
        parts = [_exact_sequence(_opened(list(branch))) for branch in argument[1]]
        return None if None in parts else frozenset().union(*(part for part in parts if part is not None))
    if code in (op.MAX_REPEAT, op.MIN_REPEAT) and argument[0] == 0 and argument[1] == 1:
        inner = _exact_sequence(_opened(list(argument[2])))
        return None if inner is None else inner | {""}
    return None


def _exact_sequence(items: list[tuple[Any, Any]]) -> frozenset[str] | None:
    texts: frozenset[str] = frozenset({""})
    for code, argument in items:
        exact = _exact(code, argument)
        if exact is None or len(texts) * len(exact) > MAX_VARIANTS:
            return None
        texts = frozenset(a + b for a in texts for b in exact)
    return texts


def _at_least_one(code: Any, argument: Any) -> bool:
    return bool(argument[0] > 0) if code in (op.MAX_REPEAT, op.MIN_REPEAT) else code is not op.GROUPREF


def _may_begin_with_letter(items: list[tuple[Any, Any]]) -> bool:
    code, argument = items[0]
    if code in (op.MAX_REPEAT, op.MIN_REPEAT) and argument[0] == 0:
        return (
            bool(characters_of(code, argument) & _LETTERS)
            or len(items) == 1
            or _may_begin_with_letter(items[1:])
        )
    return bool(characters_of(code, argument) & _LETTERS)
