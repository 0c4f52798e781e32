"""Tracebacks above the regular end of their program's log, which therefore did not end it. Pure.

Text that a model samples, and programs that a test harness runs, print tracebacks of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuwatch.diagnose.error_outcome.later_lines import (
    FINAL_REPORT,
    MAX_TRACEBACK_LINES,
    has_finished,
    is_glued,
)
from gpuwatch.diagnose.error_outcome.recovery_by_steps import TRACEBACK
from gpuwatch.runs.files.around import Around

CLOSING_LINES = 3
"""Below the traceback of a program that had nothing left to do but to report its end."""
MIN_VERDICTS = 3
"""So many lines about single tests are those of a harness."""

_STAMP = re.compile(r"^\W{0,3}(?:\d{4}[-/]\d\d[-/]\d\d[ T])(\d\d:\d\d:\d\d)")
_VERDICT = re.compile(
    r"(?i)\b[\w./-]{1,120}: (?:passed|failed|timed? ?out|resolved)\b|\bresolved[:=] ?(?:true|false)\b"
    r"|\b(?:passed|correct|resolved)[:=] ?(?:true|false)\b|^\W{0,4}(?:pass|fail)(?:ed)?\b\W{1,3}[\w./-]*\d"
    r"|\b(?:task|problem|instance|test|item) \S{1,120} (?:passed|failed|solved|unsolved|resolved)\b"
)
"""What a harness states of one problem, whose program it ran."""


def ended_in_order(around: Around, texts: Sequence[str], *, trains: bool) -> bool:
    """Whether the log of a traceback ends with the end of its program, which the traceback did not bring.

    Args:
        around: The lines of the file.
        texts: Those of the error.
        trains: The file holds the steps of a training.
    """
    return _closes(around) or (not trains and _is_harness(around, texts))


def _closes(around: Around) -> bool:
    """Whether the program logged its end, and nothing else, right below a traceback, in the order of time.

    Lines of a buffer below a traceback begin in the middle of a line, and the traceback with them.
    """
    heads = [number for number, line in enumerate(around.above[-MAX_TRACEBACK_LINES:]) if TRACEBACK in line]
    if not heads or is_glued(around) or not 0 < len(around.below) <= CLOSING_LINES:
        return False
    before = _stamp(around.above[-MAX_TRACEBACK_LINES:][: heads[-1]])
    closing = [line for line in around.below if has_finished(line)]
    return before is not None and any((_stamp([line]) or "") >= before for line in closing)


def _stamp(lines: Sequence[str]) -> str | None:
    """The time of the last line, as it is written."""
    found = _STAMP.search(lines[-1]) if lines else None
    return None if found is None else found[0].lstrip("[( ")


def _is_harness(around: Around, texts: Sequence[str]) -> bool:
    """Whether lines about single tests surround a traceback, and the log ends with their report."""
    beside = {*around.above, *texts, *around.below}
    verdicts = sum(_VERDICT.search(line) is not None for line in beside)
    return verdicts >= MIN_VERDICTS and any(
        FINAL_REPORT.search(line) for line in around.last[-CLOSING_LINES:]
    )
