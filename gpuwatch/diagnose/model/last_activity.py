"""The last activity that a suspected rank logged: a checkpoint, a tokenizer's progress, an evaluation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.text import shortened

MAX_TEXT = 120
_BAR = pattern_of("\\|[ #=>.\u2580-\u259f-]{1,200}\\|")
_RANK = pattern_of(r"^\W{0,3}(?:rank|RANK|default)?\W?\d{1,6}\W|\b[Rr]ank \d")
_NO_ACTIVITY = pattern_of(
    r"(?i)^\W*$|^frame #|timed? ?out|watchdog|NCCL (?:WARN|INFO)|\[c10d\]|\bsocket\.cpp:\d|\bTCPStore\b"
    r"|\bOMP_NUM_THREADS\b"
)
"""Matches lines of libraries: about the time-out itself, and the usual ones at a start."""


class Activity(msgspec.Struct, frozen=True):
    """The last line that a rank logged, as displayed and as it is in the file."""

    text: str
    rank: int | None = None
    """The rank that logged the line; None: the line is in a file of several ranks and names none."""
    file: str | None = None
    line: str = ""
    """The line unchanged, as it is in the file."""


def last_activity(
    suspects: Sequence[int], timeouts: Iterable[Alert], last_lines: Mapping[int, Activity]
) -> Activity | None:
    """Return the suspects' last activity: their own last line, else a line above the first timeout with one.

    None: there is no such line.

    Args:
        suspects: The ranks that did not take part; empty: not known.
        timeouts: The timeout alerts of the ranks that waited.
        last_lines: Rank -> the last line of its own file.
    """
    own = [last_lines[rank] for rank in suspects if rank in last_lines]
    if own:
        return own[0]
    for alert in sorted(timeouts, key=lambda each: (each.first, each.proof[0].offset or 0)):
        proof = alert.proof[0]
        for line in reversed(proof.lines[: proof.key]):
            if _NO_ACTIVITY.search(line) is None and _RANK.search(line) is None:
                return Activity(without_bar(line), None, proof.file, line)
    return None


def last_line(lines: Sequence[str]) -> str | None:
    """Return the last of the lines that shows an activity, or None."""
    return next((line for line in reversed(lines) if _NO_ACTIVITY.search(line) is None), None)


def without_bar(line: str) -> str:
    """Return the line without a drawn progress bar, shortened to MAX_TEXT characters."""
    text = _BAR.sub("", line)
    return shortened(re.sub(r"\s+", " ", text).strip(), MAX_TEXT)
