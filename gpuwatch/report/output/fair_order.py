"""Orders items by turns of their owners, so that a node with many of them does not use up a limit alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import count
from typing import TypeVar

T = TypeVar("T")


def in_turn(items: Iterable[T], owner: Callable[[T], Hashable]) -> Iterator[T]:
    """Yield the first item of each owner, then the second of each, and so on, in each owner's order.

    Example: the items a1 a2 a3 b1 c1 c2 of the owners a, b and c become a1 b1 c1 a2 c2 a3.
    """
    owned: dict[Hashable, list[T]] = {}
    for item in items:
        owned.setdefault(owner(item), []).append(item)
    for turn in count():
        left = [each for each in owned.values() if turn < len(each)]
        if not left:
            return
        yield from (each[turn] for each in left)
