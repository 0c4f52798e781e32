"""Frames of every kind, with values of the right type and of extreme size, made from the wire's structs."""

from __future__ import annotations

import random
from typing import Any

from msgspec import inspect

from gpuwatch.wire import AnyFrame

INTEGERS = (0, 1, -1, 7, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64, 10**400)
NUMBERS = (0.0, -0.0, 0.5, 1.0, 100.0, -1e12, 1e11, 1.7e9, 1e18, -1e18, 5e-324, 1e308, -1e308)
STRINGS = (
    "",
    "0",
    "x" * 5000,
    "é" * 70_000,
    "\x1b[2J\x00\u202e",
    "[/bold]",
    "../../etc/passwd",
    "nan",
    "gpu-003",
    "kernel log",
    "rank.killed",
    "xid",
    "GPU-1",
    "418207 ; true #",
)
TAME = (0.6, 0.95, 0.99)
"""Shares of ordinary values: a frame with one extreme value reaches deeper than one with many."""


class Extremes:
    """Makes frames from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        kinds = inspect.type_info(AnyFrame)
        assert isinstance(kinds, inspect.UnionType)
        self._kinds = kinds.types
        self._tame = 1.0

    def frame(self) -> dict[str, Any]:
        """One frame as JSON-compatible data."""
        self._tame = self._random.choice(TAME)
        made: dict[str, Any] = self.value(self._random.choice(self._kinds))
        return made

    def part(self, kind: type[Any]) -> Any:
        """What an answer brings, as JSON-compatible data."""
        self._tame = self._random.choice(TAME)
        return self.value(inspect.type_info(kind))

    def value(self, kind: inspect.Type) -> Any:  # noqa: PLR0911 - one return a kind of value
        """A value of a type of msgspec's."""
        pick = self._random
        tame = pick.random() < self._tame
        match kind:
            case inspect.StructType():
                return self._struct(kind)
            case inspect.UnionType():
                return self.value(pick.choice(kind.types))
            case inspect.ListType():
                return [self.value(kind.item_type) for _ in range(pick.choice((0, 1, 1, 2, 3)))]
            case inspect.DictType():
                keys = [pick.choice(STRINGS) for _ in range(pick.choice((0, 1, 2)))]
                return {key: self.value(kind.value_type) for key in keys}
            case inspect.LiteralType():
                return pick.choice(kind.values)
            case inspect.IntType():
                return pick.randrange(8) if tame else pick.choice(INTEGERS)
            case inspect.FloatType():
                return pick.choice((1.0, 50.0, 1.7e9)) if tame else pick.choice(NUMBERS)
            case inspect.StrType():
                return pick.choice(("GPU-1", "a", "gpu-003")) if tame else pick.choice(STRINGS)
            case inspect.BoolType():
                return pick.random() < 0.5
            case inspect.NoneType():
                return None
            case inspect.AnyType():
                return pick.choice((None, 1, "x", [], {}))
        raise AssertionError(f"a kind of value that frames did not have before: {kind}")

    def _struct(self, kind: inspect.StructType) -> Any:
        fields = [each for each in kind.fields if each.required or self._random.random() < 0.7]
        if kind.array_like:
            return [self.value(each.type) for each in kind.fields]
        made = {each.encode_name: self.value(each.type) for each in fields}
        if kind.tag_field is not None:
            made[kind.tag_field] = kind.tag
        return made
