"""Classes of named values like those of `dataclasses`, which cost a training script less to import.

`dataclasses` imports `inspect` (6 ms of CPU) and compiles code for each class (1 ms). Type checkers see
`dataclass` itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["record", "record_names"]

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(cls: type | None = None, *, frozen: bool = False) -> Any:
        """Give a class `__init__`, `__repr__` and `__eq__` for its annotated names, in their order.

        `frozen` adds `__hash__`; only type checkers refuse an assignment.
        """
        if cls is None:
            return lambda decorated: record(decorated, frozen=frozen)
        names = record_names(cls)
        known = frozenset(names)
        defaults = {name: getattr(cls, name) for name in names if hasattr(cls, name)}
        finish = getattr(cls, "__post_init__", None)

        def set_values(self: Any, *values: Any, **named: Any) -> None:
            given = dict(zip(names, values), **named)
            self.__dict__.update(defaults)
            self.__dict__.update(given)
            if self.__dict__.keys() != known or len(given) != len(values) + len(named):
                wrong = sorted(self.__dict__.keys() ^ known) or names
                raise TypeError(f"{cls.__name__}: unknown, missing or repeated: {', '.join(wrong)}")
            if finish is not None:
                finish(self)

        cls.__init__ = set_values
        cls.__repr__ = _as_text
        cls.__eq__ = _equals
        cls.__hash__ = _hash if frozen else None
        return cls

    def _as_text(self: Any) -> str:
        values = ", ".join([f"{name}={self.__dict__[name]!r}" for name in record_names(type(self))])
        return f"{type(self).__qualname__}({values})"

    def _equals(self: Any, other: object) -> Any:
        return self.__dict__ == other.__dict__ if other.__class__ is self.__class__ else NotImplemented

    def _hash(self: Any) -> int:
        return hash(tuple([self.__dict__[name] for name in record_names(type(self))]))


def record_names(cls: type) -> tuple[str, ...]:
    """Return the names of the values of a record, in their order."""
    return tuple(cls.__annotations__)
