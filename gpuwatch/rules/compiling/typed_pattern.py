"""Regular expressions that a person types on a screen: checked as those of rules are, and bounded in time.

Python's search cannot be interrupted, so its cost is limited before: a pattern sees as many characters of a
line as keep its estimated steps below a limit. Many lines that are each slow are limited by the CPU time of
all searches together.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache

from gpuwatch.rules.compiling.ambiguity import checked_tree, estimated_steps
from gpuwatch.rules.compiling.check import PatternError
from gpuwatch.rules.compiling.choices import ways

MAX_PATTERN_CHARS = 1000
MIN_WINDOW, MAX_WINDOW = 200, 65_536
"""Characters of a line that are searched: at least, or the pattern is refused, and at most."""
MAX_LINE_STEPS = 3e7
"""Estimated steps of a search of one line: 0.1 to 0.3 s of CPU time at worst."""
MAX_CPU_S = 1.0
CPU_SHARE = 0.05
"""A pattern may take `MAX_CPU_S` of CPU time, and this share of the time since it was typed."""

_ENDS = re.compile(r"^(?:\.\*)+(?=.)|(?<!\\)(?:\.\*){1,8}$")
"""The parts of a pattern that a search does not need: `.*` at either end."""


class TypedPattern:
    """A regular expression that a user typed; `is_given_up` once its searches have taken too long."""

    def __init__(
        self,
        text: str,
        *,
        ignore_case: bool | None = None,
        max_chars: int = MAX_WINDOW,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """Check and compile a pattern.

        Args:
            text: The pattern.
            ignore_case: None: if the pattern has no capital letter.
            max_chars: Characters of a line that are searched at most.
            clock: The time in seconds.
            cpu_clock: The CPU time of this thread in seconds.

        Raises:
            PatternError: It is no regular expression, or its search may take too long.
        """
        self.text = text
        self.ignore_case = text == text.lower() if ignore_case is None else ignore_case
        self.window, self._pattern = _compiled(text, self.ignore_case)
        self.window = min(self.window, max_chars)
        self.is_given_up = False
        self._clock, self._cpu_clock = clock, cpu_clock
        self._began, self._spent_s = clock(), 0.0

    def search(self, text: str) -> bool | None:
        """Return True if the searched part of a line has a match; None: unknown, the pattern is given up."""
        spans = self.spans(text, most=1)
        return None if spans is None else bool(spans)

    def spans(self, text: str, *, most: int = 100) -> list[tuple[int, int]] | None:
        """Return (start, end) of the first `most` matches; None: unknown, because the pattern is given up.

        Only the first `window` characters are searched; fewer matches if the pattern is given up here.
        """
        if self.is_given_up:
            return None
        found: list[tuple[int, int]] = []
        began, at = self._cpu_clock(), 0
        text = text[: self.window]
        while len(found) < most and (match := self._pattern.search(text, at)):
            found.append(match.span())
            at = max(match.end(), at + 1)
            self._spend(began)
            began = self._cpu_clock()
            if self.is_given_up or at > len(text):
                return found
        self._spend(began)
        return found

    def _spend(self, began: float) -> None:
        self._spent_s += self._cpu_clock() - began
        if self._spent_s > MAX_CPU_S:
            self.is_given_up = self._spent_s > MAX_CPU_S + CPU_SHARE * (self._clock() - self._began)


@lru_cache(maxsize=64)
def _compiled(text: str, ignore_case: bool) -> tuple[int, re.Pattern[str]]:
    """Return the number of characters of a line that are searched, and the compiled pattern.

    Raises:
        PatternError: It is too long, no regular expression, or its search may take too long.
    """
    if len(text) > MAX_PATTERN_CHARS:
        raise PatternError(f"a pattern of {len(text)} characters; at most {MAX_PATTERN_CHARS}")
    needed = _ENDS.sub("", text)
    tree, folded = checked_tree(needed, ignore_case=ignore_case)
    count = ways(tree, folded=folded)

    def steps(chars: int) -> float:
        return count * estimated_steps(tree, folded=folded, window=chars)

    window = bisect_right(range(MAX_WINDOW + 1), MAX_LINE_STEPS, key=steps) - 1
    if window < MIN_WINDOW:
        raise PatternError(
            "its repeats and choices multiply, so a long line could take too long; use fewer of them"
        )
    return window, re.compile(needed, re.IGNORECASE if folded else 0)
