"""Errors of rule packs."""

from __future__ import annotations

from collections.abc import Sequence


class RulesError(Exception):
    """Raised for packs that cannot be used.

    `problems` are whole lines: `pack.yaml:14:5: rule nccl.x: TEXT`.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


NO_WORD = (
    "no word of three letters or more is certain to be in every matching line; "
    "put one into each alternative of 'match', or list them in 'literals'"
)
