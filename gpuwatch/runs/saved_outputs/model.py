"""The types of the tool-output readers: line, finding, protocol; exit statuses as failure classes."""

from __future__ import annotations

import time
from calendar import timegm
from typing import Protocol, runtime_checkable

from msgspec import Struct, field

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.rules.model import rule_ids
from gpuwatch.wire import Severity

Fields = dict[str, str | int | float]

_DATE = pattern_of(
    r"\b[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d)"
    r"(?: (?P<zone>[A-Z]{3,5}))? (?P<year>20\d\d)\b"
)


class ToolLine(Struct, frozen=True):
    """One line of a tool's output."""

    text: str
    """The text of the line, without line end and host prefix."""
    offset: int
    """Offset of the line from the start of the file (bytes)."""


class ToolFinding(Struct, frozen=True):
    """A problem that a tool's output reports (of a GPU, node, pod or job), with a class of the rule packs."""

    rule: str
    severity: Severity
    line: ToolLine
    """The decisive line."""
    fields: Fields = field(default_factory=dict)
    above: tuple[str, ...] = ()
    """Headings above the line."""
    at: float | None = None
    """When the tool ran, or when the reported event happened (unix seconds)."""
    host: str | None = None
    """The node of the problem, if the output names it; else None."""
    by_driver: bool = True
    """True if the problem is of a GPU and reported by its driver."""


class ToolReader(Protocol):
    """Reads one output of a tool, line by line."""

    def take(self, line: ToolLine) -> bool:
        """Process a line; return False if the output ended before it."""

    def findings(self) -> list[ToolFinding]:
        """Return the findings, once the output has ended."""


@runtime_checkable
class GpuList(Protocol):
    """A tool reader that lists GPUs."""

    def gpus(self) -> dict[str, int]:
        """Return PCI address -> index, for GPUs listed with both."""


def date_in(text: str) -> float | None:
    """Return the time (unix seconds) in a date as `date` or nvidia-smi print it; local time unless UTC.

    None: the text has no date.
    """
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


BY_SIGNAL = {
    6: rule_ids.PROC_ABORT,
    7: rule_ids.PROC_BUS_ERROR,
    4: rule_ids.PROC_ILLEGAL_INSTR,
    9: rule_ids.PROC_SIGKILL,
    11: rule_ids.PROC_SEGFAULT,
    15: rule_ids.PROC_SIGTERM,
}


def of_exit_code(code: str) -> str | None:
    """Return the class of an exit status `137` (128 + signal) or `-9`; None: no known signal."""
    number = int(code) if code.lstrip("-").isdecimal() and len(code) < 6 else 0
    return BY_SIGNAL.get(number - 128 if number > 128 else -number)
