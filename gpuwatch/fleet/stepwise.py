"""Long work over all nodes as a generator: it yields after each step, and its caller decides when it goes on.

The screens handle keys between the steps; every other caller runs all of them at once with `complete`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")
Steps: TypeAlias = Generator[None, None, Result]
"""A generator that yields between its steps, and returns a result."""


def complete(steps: Steps[Result]) -> Result:
    """Run all steps that are left, and return the result.

    Raises:
        Exception: raised by a step.
    """
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: Result = end.value
        return result
