"""Confines a fault of gpuwatch over the content of one file to that file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar, cast

from gpuwatch.plain import plain

Arguments = ParamSpec("Arguments")
Part = TypeVar("Part")
Result = TypeVar("Result")

MAX_TOGETHER = 16
"""Most parts that are left out because they raise an error only together with others."""
MAX_FAULT = 300
"""Most characters of an error in a report."""


def contained(
    made: Callable[Arguments, Result], *given: Arguments.args, **named: Arguments.kwargs
) -> tuple[Result | None, str | None]:
    """Return (result, None), or (None, the fault): the content of one file must not end the whole scan.

    If the variable GPUWATCH_DEBUG is set, the exception is raised.

    Raises:
        MemoryError: no memory is left, which is no fault over one file.
    """
    try:
        return made(*given, **named), None
    except MemoryError:
        raise
    except Exception as error:  # of any kind: the readers meet lines that nobody has foreseen
        if os.environ.get("GPUWATCH_DEBUG"):
            raise
        why = plain(repr(error))[:MAX_FAULT]
        return None, f"not fully read, by an error in gpuwatch, please report it ({why})"


def from_sound(
    made: Callable[[Sequence[Part]], Result],
    parts: Sequence[Part],
    *,
    most: int = MAX_TOGETHER,
    alone: bool = True,
) -> tuple[Result, dict[int, str]]:
    """Return what `made` makes of the parts, and index -> fault of those left out as they raise an error.

    Parts that raise an error alone are left out first, unless `alone` is False; then the last one of the
    fewest first parts that raise an error together. After `most` of these, all are left out. `made` must
    accept an empty sequence.
    """
    result, fault = contained(made, parts)
    if fault is None:
        return cast("Result", result), {}
    singly = [contained(made, [part])[1] for part in parts] if alone else []
    faults = {at: why for at, why in enumerate(singly) if why is not None}
    sound = [at for at in range(len(parts)) if at not in faults]
    for _ in range(min(most, len(sound))):
        result, fault = contained(made, [parts[at] for at in sound])
        if fault is None:
            return cast("Result", result), faults
        faults[sound.pop(_first_failing(made, [parts[at] for at in sound]))] = fault
    return made([]), {**faults, **dict.fromkeys(sound, fault or "")}


def _first_failing(made: Callable[[Sequence[Part]], object], parts: Sequence[Part]) -> int:
    """Return the index of the last one of the fewest first parts that raise an error together."""
    low, high = 0, len(parts)
    while high - low > 1:
        middle = (low + high) // 2
        if contained(made, parts[:middle])[1] is None:
            low = middle
        else:
            high = middle
    return high - 1
