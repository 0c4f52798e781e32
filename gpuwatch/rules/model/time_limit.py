"""Stops a scan that does not end by itself, and reports the rule that was searched."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.agent.logs.scanning.scanner import Scanner

T = TypeVar("T")
EXCERPT_S = 2.0
"""CPU seconds for a few lines, which normally take milliseconds."""
IN_RULE_SHARE = 0.25
"""Fraction of the allowed CPU time; a rule searched for less time is not the endless one."""
ENDLESS = "took too long on a line of {}"


class EndlessError(Exception):
    """Raised if a scan took too much CPU time; `rule` is the id of the rule that was searched, else ""."""

    def __init__(self, rule: str) -> None:
        super().__init__(f"searching for {rule} timed out" if rule else "the scan timed out")
        self.rule = rule


class TimeLimit:
    """Limits the CPU time of work with one set of rules; has no effect outside the main thread."""

    def __init__(self, ruleset: RuleSet) -> None:
        self._rule, self._entered_at, self._least_s = "", 0.0, 0.0
        self._searches = self._searches_before = 0
        """Searches begun so far: now, and when the limit was last checked."""
        self._seconds = self._ends_at = 0.0
        ruleset.entered, ruleset.left = self._enter, self._leave

    @contextmanager
    def of(self, seconds: float, in_all: float = 0.0) -> Iterator[None]:
        """Limit the CPU time of the `with` block; without effect outside the main thread.

        Args:
            seconds: The limit of the block. With `in_all`: that of one search, or of the work between two;
                it may take twice as long before it is noticed.
            in_all: The limit of the whole block, in seconds; 0: none, so that `seconds` is.

        Raises:
            EndlessError: A limit was exceeded.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._rule, self._least_s = "", IN_RULE_SHARE * seconds
        self._seconds, self._searches_before = seconds, self._searches
        self._ends_at = time.process_time() + in_all if in_all else 0.0
        before = signal.signal(signal.SIGPROF, self._ended)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            signal.signal(signal.SIGPROF, before)

    def _ended(self, _number: int, _frame: FrameType | None) -> None:
        if not self._ends_at:
            is_endless = time.process_time() - self._entered_at >= self._least_s
        elif self._searches == self._searches_before:
            is_endless = True
        elif time.process_time() < self._ends_at:
            self._searches_before = self._searches
            signal.setitimer(signal.ITIMER_PROF, self._seconds)
            return
        else:
            is_endless = False
        raise EndlessError(self._rule if is_endless else "")

    def _enter(self, rule: str) -> None:
        self._rule = rule
        self._searches += 1
        if not self._ends_at:  # else the number of searches suffices: the clock takes as long as a search
            self._entered_at = time.process_time()

    def _leave(self) -> None:
        self._rule = ""


def scanned(
    ruleset: RuleSet, file: str, new: Callable[[], Scanner], scan: Callable[[Scanner], T], tries: int = 20
) -> T | None:
    """Return the result of `scan` on a few lines, without the rules that hang; None if it still hangs.

    Args:
        ruleset: A rule that exceeds the time limit is suspended in it.
        file: Name for the message about that.
        new: Creates a scanner.
        scan: Scans the lines with it.
        tries: How many rules may be suspended.
    """
    try:
        with TimeLimit(ruleset).of(EXCERPT_S):
            return scan(new())
    except EndlessError as error:
        ruleset.suspend(error.rule or "(none)", ENDLESS.format(file), file)
        return scanned(ruleset, file, new, scan, tries - 1) if error.rule and tries else None
