"""One dialect of progress lines: how a framework writes step, loss and speed into its log."""

from __future__ import annotations

from typing import Literal

import msgspec

from gpuwatch.agent.logs.progress.metrics_table import COMMON


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line, and every field that must be read from it."""

    line: str
    gives: dict[str, str] = {}
    """Field -> its number as text; nan, inf and -inf are numbers too."""
    phases_s: dict[str, str] = {}
    """Timer -> seconds as text."""


class Dialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of a pack with `kind: progress`. Patterns are searched anywhere in a normalised line."""

    id: str
    title: str
    """Whose lines these are."""
    match: tuple[str, ...]
    """What reports them: any of these. Named groups are quantities."""
    examples: tuple[Example, ...]
    kind: Literal["progress"] = "progress"
    literals: tuple[str, ...] = ()
    """Texts, one of which stands in every line; derived from `match` where left out."""
    unless: tuple[str, ...] = ()
    """Not where one of these is in the line."""
    words: dict[str, str] = {}
    """What stands before a number (or its rate, such as `tok/s`, behind it) -> the quantity, `-` for none."""
    like: str = COMMON
    """The dialect whose words hold too."""
    plain: bool = False
    """Only the named groups are read."""
    needs: tuple[str, ...] = ()
    """Fields without which a line reports nothing."""
    least: int = 1
    """Fewer fields report nothing."""
    phases: Literal["ms", "s"] | None = None
    """Every word with a number is a timer, in this unit."""
    per_epoch: bool = False
    """Steps begin anew with every epoch."""
    fallback: bool = False
    """Asked only where no other dialect fits."""
    negatives: tuple[str, ...] = msgspec.field(default=(), name="not")
    """Lines that must give nothing in this dialect."""
