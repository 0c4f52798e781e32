"""The words that a pattern cannot match without, taken from its parse tree: what the prefilter looks for."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpuwatch.rules.compiling.check import characters_of, op, parsed

MAX_VARIANTS = 24
MIN_WORD = 3
"""Letters that a word needs to report anything."""

_WORD = re.compile(r"[A-Za-z]+")
_DIGITS = re.compile(r"[0-9]")
_LETTERS = frozenset(c for c in range(256) if chr(c).isalpha() and c < 128)
_FLAT = re.compile(
    r"(?i)(?:the|and|for|from|with|was|not|has|have|this|that|are|but|could|can|cannot|due|been|before|after|while|"
    r"errors?|failed|fail|failure|warning|warn|info|exception|traceback|rank|ranks|cuda|gpu|nccl|torch|python|"
    r"memory|out|time|timeout|process|kernel|device|step|loss|iteration|epoch|worker|node|line|file|data|value|"
    r"model|training|train|batch|number|size|state|status|message|internal|runtime|unable|invalid|connection|"
    r"received|signal|exit|code|host|task|job|server|client|socket|system|operation|call|function|get|set|"
    r"using|use|run|running|see|you|your|all|new|one|two|raise|return|import|module)\Z"
)


@dataclass(frozen=True)
class Literal:
    """Text that stands in every line (of one branch), and what of its words is sure."""

    text: str
    words: tuple[str, ...]
    """Reporting words that stand there whole."""
    parts: tuple[str, ...] = ()
    """Reporting words at an edge, which may go on beyond it; in small letters."""
    also: tuple[str, ...] = ()
    """Common words that stand there whole."""
    fold: bool = False

    @property
    def weight(self) -> float:
        """How distinctive it is."""
        whole = max((_weight(word) for word in self.words), default=0.0)
        part = max((_weight(word) for word in self.parts), default=0.0)
        return max(whole, 0.6 * part) + 0.1 * len(self.also) + 0.02 * min(len(self.text), 40)

    def plain(self) -> dict[str, Any]:
        """As it travels: the text, and the word that leads to it in a line whose digits are gone."""
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
        return plain | ({"fold": True} if self.fold else {})


@dataclass(frozen=True)
class _Run:
    """A stretch of a pattern that matches one of a few texts."""

    texts: frozenset[str]
    left: bool
    """Whether no letter can stand before it."""
    right: bool = False


@lru_cache(maxsize=4096)
def literals_of(pattern: str) -> tuple[Literal, ...]:
    """One of these stands in every line that the pattern matches; empty where no distinctive word is sure."""
    tree = parsed(pattern)
    fold = bool(tree.state.flags & re.IGNORECASE) or "(?i" in pattern
    best = _best(list(tree), False, False)
    found = tuple(_literal(text, run.left, run.right, fold) for run in best for text in sorted(run.texts))
    return found if found and all(_states(each) for each in found) else ()


def declared(text: str, fold: bool) -> Literal:
    """A literal that a pack states itself."""
    return _literal(text, False, False, fold)


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


def _best(items: list[tuple[Any, Any]], left: bool, right: bool) -> tuple[_Run, ...]:
    """The most distinctive runs, of which one is in every match of the sequence."""
    options: list[tuple[_Run, ...]] = []
    stretches = [_Stretch(left)]
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
            inner = [_best(list(each), False, False) for each in _inner_of(code, argument)]
            if all(inner):
                options.append(tuple(run for each in inner for run in each))
        apart = not characters_of(code, argument) & _LETTERS and _at_least_one(code, argument)
        going_on = [_Stretch(apart)]
        if exact is not None:  # with its variants, and without: what stands behind it may report enough
            known = [each for each in stretches[-3:] if len(each.texts) * len(exact) <= MAX_VARIANTS]
            going_on += [each.and_then(exact) for each in known]
        stretches = going_on
    options.extend((each.closed(right),) for each in stretches)
    usable = [each for each in options if each and all("" not in run.texts for run in each)]
    return max(usable, key=_value, default=())


@dataclass(frozen=True)
class _Stretch:
    """A run that is still going on."""

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


def _inner_of(code: Any, argument: Any) -> list[Any]:  # noqa: ANN401
    return list(argument[1]) if code is op.BRANCH else [argument[2]]


def _exact(code: Any, argument: Any) -> frozenset[str] | None:  # noqa: ANN401
    """All texts that an element can match, where they are few."""
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


def _at_least_one(code: Any, argument: Any) -> bool:  # noqa: ANN401
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
