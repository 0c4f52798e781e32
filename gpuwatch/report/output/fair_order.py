"""Orders what nodes cause by turns, so that one with very much of it takes no other's place in a limit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import count
from typing import TypeVar

T = TypeVar("T")


def in_turn(items: Iterable[T], owner: Callable[[T], Hashable]) -> Iterator[T]:
    """Yield the first item of each owner, then the second of each, and so on; each owner's keep their order.

    Example: of a1 a2 a3 b1 c1 c2, whose owners are a, b and c: a1 b1 c1 a2 c2 a3.
    """
    owned: dict[Hashable, list[T]] = {}
    for item in items:
        owned.setdefault(owner(item), []).append(item)
    for turn in count():
        left = [each for each in owned.values() if turn < len(each)]
        if not left:
            return
        yield from (each[turn] for each in left)
