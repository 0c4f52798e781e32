"""Finds explanations by id, or by words: `link down`, `nan loss`, `why is my gpu idle`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from gpuwatch.diagnose.explanations.explanation import Explanation

MAX_MATCHES = 20
WORD = re.compile(r"[\w.'-]+")
FILLERS = frozenset(
    ("a", "an", "and", "at", "do", "does", "how", "i", "in", "is", "my", "of", "on", "the", "to", "why")
)
"""Words that are left out of a query, unless it has no others."""
ID_SCORE, TITLE_SCORE, WORDS_SCORE, TEXT_SCORE = 6.0, 5.0, 4.0, 1.0
WHOLE_WORD = 1.5
"""Factor by which a whole word counts more than a part of one (`link` in `nvlink`)."""
ENDINGS = ("ing", "ed", "es", "s")
MIN_STEM = 4
"""Least letters of a stem; a shorter one would match in too many words."""
KIND_SCORE = {"topic": 1.0, "condition": 0.6, "rule": 0.5, "metric": 0.4}
"""Kind of explanation -> amount added to its score, so that of equal matches the topic comes first."""


class Matches(Struct, frozen=True):
    """The explanation whose id or title was given (None: none), and the other matches, best first."""

    exact: Explanation | None
    others: tuple[Explanation, ...]


def find(query: str, known: Sequence[Explanation]) -> Matches:
    """Return the explanation with this id or title, and those that contain all words of the query.

    The words are not case-sensitive; FILLERS are left out. At most MAX_MATCHES others, the best first.
    """
    wanted = query.strip().lower()
    exact = next((each for each in known if each.ident.lower() == wanted), None)
    spaced = _spaced(wanted)
    if exact is None:
        exact = next((each for each in known if spaced in (_spaced(each.ident), _spaced(each.title))), None)
    words = WORD.findall(wanted)
    words = [word for word in words if word not in FILLERS] or words
    if not words:
        return Matches(exact, ())
    scored = [(score, each) for each in known if each is not exact and (score := _score(words, each))]
    scored.sort(key=lambda pair: -pair[0])
    return Matches(exact, tuple(each for _, each in scored[:MAX_MATCHES]))


def _score(words: Sequence[str], explanation: Explanation) -> float:
    """Return the score of a match; 0.0 if one of the words is missing."""
    fields = (
        (ID_SCORE, _spaced(explanation.ident)),
        (TITLE_SCORE, _spaced(explanation.title)),
        (WORDS_SCORE, _spaced(" ".join(explanation.words))),
        (TEXT_SCORE, explanation.text.lower()),
    )
    total = KIND_SCORE[explanation.kind]
    for word in words:
        best = max((weight * _hit(_spaced(word), text) for weight, text in fields), default=0.0)
        if not best:
            return 0.0
        total += best
    return total


def _hit(word: str, text: str) -> float:
    return max(_hit_of(form, text) for form in forms_of(word))


def _hit_of(word: str, text: str) -> float:
    if word not in text:
        return 0.0
    return WHOLE_WORD if re.search(rf"\b{re.escape(word)}", text) else 1.0


def forms_of(word: str) -> tuple[str, ...]:
    """Return the word, and its stem without the ending of a plural or a verb: `hangs` and `hang`.

    The word alone if its stem is shorter than MIN_STEM, else twice if it has no such ending.
    """
    stem = next((word.removesuffix(end) for end in ENDINGS if word.endswith(end)), word)
    return (word, stem) if len(stem) >= MIN_STEM else (word,)


def _spaced(text: str) -> str:
    return re.sub(r"[._/-]+", " ", text.lower()).strip()
