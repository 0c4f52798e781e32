"""What the readers of tool outputs have in common: a line, a finding, and the protocol of a reader."""

from __future__ import annotations

import re
import time
from calendar import timegm
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from gpuwatch.wire import Severity

Fields = dict[str, str | int | float]

_DATE = re.compile(
    r"\b[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d)"
    r"(?: (?P<zone>[A-Z]{3,5}))? (?P<year>20\d\d)\b"
)


@dataclass(frozen=True, slots=True)
class ToolLine:
    """One line of a tool's output."""

    text: str
    """Without line end and without the prefix that names a host."""
    offset: int
    """Bytes from the start of the file."""


@dataclass(frozen=True, slots=True)
class ToolFinding:
    """What a tool reports about one GPU, in the classes of the rule packs."""

    rule: str
    severity: Severity
    line: ToolLine
    """The line that decides."""
    fields: Fields = field(default_factory=dict)
    above: tuple[str, ...] = ()
    """Headings that the line stands under."""
    at: float | None = None
    """When the tool ran, or when what it reports about happened (unix seconds)."""
    host: str | None = None
    """The node that it is about, where the output states it."""
    by_driver: bool = True
    """About a GPU, by its driver."""


class ToolReader(Protocol):
    """Reads one output of one tool, line by line."""

    def take(self, line: ToolLine) -> bool:
        """Read a line; False: the output has ended before it."""

    def findings(self) -> list[ToolFinding]:
        """What was found, once the output has ended."""


@runtime_checkable
class GpuList(Protocol):
    """A reader of a tool that lists GPUs."""

    def gpus(self) -> dict[str, int]:
        """PCI address -> index of the GPUs that it lists with both."""


def date_in(text: str) -> float | None:
    """The time of a date as `date` and nvidia-smi print it (unix seconds); without UTC, of this time zone."""
    found = _DATE.search(text)
    if found is None:
        return None
    try:
        parts = time.strptime(
            f"{found['month']} {found['day']} {found['clock']} {found['year']}", "%b %d %X %Y"
        )
    except ValueError:
        return None
    return float(timegm(parts)) if found["zone"] == "UTC" else time.mktime(parts)
