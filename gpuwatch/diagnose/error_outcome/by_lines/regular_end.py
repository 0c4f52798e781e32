"""Errors that did not end a program: a normal program end or a test result stands below them. Pure.

Text that a model generates, and programs that a test harness runs, print tracebacks too.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.error_outcome.by_lines.later_lines import (
    END_LINES,
    FINAL_REPORT,
    MAX_TRACEBACK_LINES,
    has_finished,
    is_glued,
    is_good,
)
from gpuwatch.diagnose.error_outcome.recovery_by_steps import TRACEBACK
from gpuwatch.runs.files.excerpts.around import Around

CLOSING_LINES = 3
"""Most lines below a traceback for which only a report of the program's end must be among them."""
MIN_VERDICTS = 3
"""Least number of result lines of single tests by which a log counts as that of a test harness."""

_STAMP = pattern_of(r"^\W{0,3}(?:\d{4}[-/]\d\d[-/]\d\d[ T])(\d\d:\d\d:\d\d)")
_VERDICT = pattern_of(
    r"(?i)\b[\w./-]{1,120}: (?:passed|failed|timed? ?out|resolved)\b|\bresolved[:=] ?(?:true|false)\b"
    r"|\b(?:passed|correct|resolved)[:=] ?(?:true|false)\b|^\W{0,4}(?:pass|fail)(?:ed)?\b\W{1,3}[\w./-]*\d"
    r"|\b(?:task|problem|instance|test|item) \S{1,120} (?:passed|failed|solved|unsolved|resolved)\b"
)
"""Matches a harness's result for one problem."""
_PASSED = pattern_of(
    r"^(?:\d{4}-\d\d-\d\dT[\d:.]{8,20}Z )?\W{0,80}\d{1,7} passed\b|\b100% tests passed\b|^OK \("
    r"|^test result: ok\. \d{1,7} passed; 0 failed\b"
    r"|^ok\s{1,8}[\w./-]{1,200}\s{1,8}(?:[\d.]{1,12}s|\(cached\))"
    r"|^Tests: {1,12}(?:\d{1,6} (?:skipped|todo), ){0,2}\d{1,7} passed, \d{1,7} total"
    r"|^\d{1,7} examples?, 0 failures\b"
    r"|\bTests run: \d{1,7}, Failures: 0, Errors: 0\b|\bBUILD SUCCESS(?:FUL)?\b"
    r"|\b(?:[Tt]ests?|[Cc]hecks?|suite|benchmark|run|validation) (?:PASSED|passed)\b"
    r"|^Tests: \d{1,6}, Assertions: \d{1,7}"
    r"(?:, (?:Warnings|Skipped|Deprecations|Risky|Notices): \d{1,6}){0,5}\.$"
)
"""Matches the result of a test run without failures."""
_STATUS_0 = pattern_of(
    r"\b(?:return|exit)(?:ed with)? (?:code|status)[ :=]{1,3}0\.?\s*$"
    r"|^\W{0,4}(?:echo )?(?:(?:exit|rc|ret|status|exit[ _-]?(?:code|status)|return[ _-]?code) ?[=:] ?|exit )"
    r"0\W{0,3}$"
    r"|\u9000\u51fa\u7801[ :\uff1a]{0,3}0\W?$"
)
"""Matches a report of exit status 0 (also in Chinese)."""
_TEST_FAILED = pattern_of(
    r"^(?:FAIL|FAILED)\b|\btest result: FAILED\b|\bBUILD FAIL"
    r"|(?<![\w.])[1-9]\d{0,6} (?:failed|errors?|failures)\b"
)
"""Matches the result of a test run with failures."""


def ended_in_order(around: Around, texts: Sequence[str], *, trains: bool) -> bool:
    """Return True if the log continues to a normal end below a traceback that did not end the program.

    Args:
        around: The lines of the file.
        texts: The lines of the error.
        trains: True if the file has the steps of a training.
    """
    return _closes(around) or (not trains and _is_harness(around, texts))


def passes(around: Around, *, tests: bool = True, died: bool = False) -> bool:
    """Return True if the file ends with a successful test run or with exit status 0.

    Args:
        around: The lines of the file.
        tests: False for the log of a training, in which a result of tests is another program's.
        died: The error ended its process: a status of 0 right below it is another program's, as that of
            `tee` in `train.py | tee log; echo "exit code: $?"`.
    """
    if any(_TEST_FAILED.search(line) for line in around.last[-END_LINES:]):
        return False
    ends = [line for line in around.last[-END_LINES:] if is_good(line)]
    if any(_PASSED.search(line) and "passed" in line.lower() for line in ends):
        return tests
    last = around.last[-1] if around.last else ""
    if not ends or ends[-1] is not last:
        return False
    return bool(_PASSED.search(last)) or (bool(_STATUS_0.search(last)) and not died)


def is_test_run(around: Around) -> bool:
    """Return True if the file ends with the result of tests of which none failed."""
    last = around.last[-END_LINES:]
    return any(_PASSED.search(line) for line in last) and not any(_TEST_FAILED.search(line) for line in last)


def _closes(around: Around) -> bool:
    """Return True if at most CLOSING_LINES lines stand below a traceback and one reports the program's end.

    That line must not be older than the traceback. False if buffered lines follow the traceback: the first of
    those begins in the middle of a line.
    """
    heads = [number for number, line in enumerate(around.above[-MAX_TRACEBACK_LINES:]) if TRACEBACK in line]
    if not heads or is_glued(around) or not 0 < len(around.below) <= CLOSING_LINES:
        return False
    before = _stamp(around.above[-MAX_TRACEBACK_LINES:][: heads[-1]])
    closing = [line for line in around.below if has_finished(line)]
    return before is not None and any((_stamp([line]) or "") >= before for line in closing)


def _stamp(lines: Sequence[str]) -> str | None:
    """Return the timestamp at the start of the last line that has one, as text; None: none has."""
    found = next(filter(None, map(_STAMP.search, reversed(lines))), None)
    return None if found is None else found[0].lstrip("[( ")


def _is_harness(around: Around, texts: Sequence[str]) -> bool:
    """Return True if results of single tests surround a traceback and the log ends with a final report."""
    beside = {*around.above, *texts, *around.below}
    verdicts = sum(_VERDICT.search(line) is not None for line in beside)
    return verdicts >= MIN_VERDICTS and any(
        FINAL_REPORT.search(line) for line in around.last[-CLOSING_LINES:]
    )
