"""Finds the places of phrases in a text."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

    from .ruleset import Phrase


def places_in(data: bytes, phrases: "Iterable[Phrase]", apart: int = 1) -> "list[int]":
    """Return the byte offsets of phrases in a text, in ascending order.

    A phrase's place less than `apart` bytes behind its previous one is left out, unless it is the last.
    """
    lowered = data.lower()
    found: set[int] = set()
    for phrase in phrases:
        searched = lowered if phrase.fold else data
        for word in {phrase.text, phrase.plain}:
            at = searched.find(word)
            while at >= 0:
                found.add(at)
                at = searched.find(word, at + max(apart, len(word)))
            at = searched.rfind(word)
            if at >= 0:
                found.add(at)
    return sorted(found)
