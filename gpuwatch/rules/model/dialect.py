"""One dialect of progress lines: how a framework writes step, loss and speed into its log."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from gpuwatch.agent.logs.progress.metrics_table import COMMON

Scope: TypeAlias = Literal["gpu", "job"]
"""What a logged rate is of: one GPU, or the whole job."""


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An example of a progress line, and the fields and timers that must be read from it."""

    line: str
    gives: dict[str, str] = {}
    """Field -> its number as text; nan, inf and -inf are numbers too."""
    phases_s: dict[str, str] = {}
    """Timer -> seconds as text."""


class Dialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of a pack with `kind: progress`. Patterns are searched anywhere in a normalised line."""

    id: str
    title: str
    """The framework that writes these lines."""
    match: tuple[str, ...]
    """Patterns, any of which identifies the dialect. Named groups are quantities."""
    examples: tuple[Example, ...]
    kind: Literal["progress"] = "progress"
    literals: tuple[str, ...] = ()
    """Texts, one of which occurs in every line; derived from `match` if left out."""
    unless: tuple[str, ...] = ()
    """A line that contains one of these does not match."""
    words: dict[str, str] = {}
    """The word before a number (or its rate, such as `tok/s`, after it) -> the quantity, `-` for none."""
    like: str = COMMON
    """The dialect whose words apply too."""
    plain: bool = False
    """True if only the named groups are read."""
    needs: tuple[str, ...] = ()
    """Fields without which a line is ignored."""
    least: int = 1
    """A line with fewer fields is ignored."""
    phases: Literal["ms", "s"] | None = None
    """If set, every word with a number is a timer, in this unit."""
    per_epoch: bool = False
    """True if step numbers restart with every epoch."""
    fallback: bool = False
    """True if the dialect is tried only after all others."""
    tokens_of: Scope | None = None
    """The scope of its tokens per second; None: unknown."""
    tflops_of: Scope | None = None
    """The scope of its TFLOP/s; None: unknown."""
    engine: str | None = None
    """The inference server that writes these lines."""
    logs_failures: bool = False
    """True if a failed request has a line; otherwise the error rate is unknown."""
    links: tuple[str, ...] = ()
    """Addresses of real logs with such lines."""
    sources: tuple[str, ...] = ()
    """Addresses of the program text that prints them, if no log is public."""
    negatives: tuple[str, ...] = msgspec.field(default=(), name="not")
    """Lines that must not match this dialect."""
