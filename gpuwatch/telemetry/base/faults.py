"""Contains faults in what the library measures or writes: they are logged and never end a training."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

_LOG = logging.getLogger("gpuwatch.telemetry")
CONTAINED_ERRORS = (ArithmeticError, ValueError, OSError, RecursionError)
"""Exceptions that values and files of a training cause; others, as for a wrong argument, are raised."""
F = TypeVar("F", bound="Callable[..., Any]")
_seen: dict[str, int] = {}


def faults() -> dict[str, int]:
    """Return name of a method -> how many of its calls failed so far in this process."""
    return dict(_seen)


def contained(method: F) -> F:
    """Wrap a method so that it returns None if it raises one of CONTAINED_ERRORS; the first is logged.

    Other exceptions propagate.
    """
    name = method.__qualname__

    @functools.wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return method(*arguments, **options)
        except CONTAINED_ERRORS as error:
            if name not in _seen:
                _LOG.warning("%s failed, the training continues: %s", name, error, exc_info=True)
            _seen[name] = _seen.get(name, 0) + 1
            return None

    return cast(F, call)
