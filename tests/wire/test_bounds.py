"""Every number, text, list and table that a node sends has bounds in the wire's types, whatever holds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import inspect

from gpuwatch import wire

PACKED = {"DumpPiece.packed", "ProcessProfile.packed", "RasAnswer.packed"}
"""Compressed data: the frame's size bounds it, and its reader what it unpacks to."""
ANY = {"Reply.data"}
"""Read by the type that the request expects."""


def answers() -> list[type[Any]]:
    return [
        each
        for each in vars(wire).values()
        if isinstance(each, type) and (each.__doc__ or "").startswith("The answer to `")
    ]


def unbounded(kind: inspect.Type, place: str, seen: set[type[Any]]) -> Iterator[str]:
    """The places (`Struct.field`) of values without a bound."""
    match kind:
        case inspect.StructType():
            if kind.cls not in seen:
                seen.add(kind.cls)
                for field in kind.fields:
                    yield from unbounded(field.type, f"{kind.cls.__name__}.{field.name}", seen)
        case inspect.UnionType():
            for each in kind.types:
                yield from unbounded(each, place, seen)
        case inspect.ListType():
            yield from [place] if kind.max_length is None else []
            yield from unbounded(kind.item_type, place, seen)
        case inspect.DictType():
            yield from [place] if kind.max_length is None else []
            yield from unbounded(kind.key_type, place, seen)
            yield from unbounded(kind.value_type, place, seen)
        case inspect.IntType() | inspect.FloatType():
            lowest = kind.gt if kind.ge is None else kind.ge
            highest = kind.lt if kind.le is None else kind.le
            yield from [place] if lowest is None or highest is None else []
        case inspect.StrType():
            yield from [place] if kind.max_length is None else []
        case inspect.LiteralType() | inspect.BoolType() | inspect.NoneType():
            pass
        case _:
            yield place


def test_every_value_of_a_frame_or_answer_has_bounds() -> None:
    seen: set[type[Any]] = set()
    found = set(unbounded(inspect.type_info(wire.AnyFrame), "", seen))
    for kind in answers():
        found |= set(unbounded(inspect.type_info(kind), "", seen))
    assert found == PACKED | ANY
    assert len(seen) > 50
