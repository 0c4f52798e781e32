"""Facts about how a log ends after the last training step: an error, a save, silence, and the epoch. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gpuwatch.agent.logs.lines.levels import GRAVE, own_level
from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.runs.steps.epochs import EPOCH_OF, EpochSpan

NUMBER = pattern_of(r"\d[\d,]*")
WHOLE = pattern_of(r"(?<![\d,./])(\d[\d,]{0,12}) ?(?:/|of) ?\1(?![\d/]|[.,]\d)")
MIN_TOTAL = 10
"""Least number that counts as a total of steps; a smaller one may count epochs or ranks."""
FAILED_END = pattern_of(
    r"(?i)\b(?:leav|exit|quit|return|end|stop|terminat|abort|finish)\w{0,5}\b.{0,80}"
    r"\b(?:status|code|rc)[ =:]{0,3}-?[1-9]\d{0,4}\b"
)
"""Matches a program's report that it exits with a failure code."""
ON_PURPOSE = pattern_of(
    r"(?i)\b(?:early[ -]?stop\w*|(?:no|without) improvement|patience|KeyboardInterrupt|interrupt(?:ed)?"
    r"|ctrl[- ]?c|sig(?:int|term|usr1)|cancel\w*|time[ -]?limit|wall ?time|budget|deadline|preempt\w*"
    r"|requeu\w*|stopp(?:ed|ing)|finish(?:ed|ing)?|done|complet(?:e|ed)|converged|exit(?:ed|ing)?"
    r"|shutting down|leaving|synced|bye|goodbye|quit(?:ting)?|ended|target (?:reached|met)"
    r"|by (?:the )?user)\b|\^C"
)
"""Matches the wording of an intended end, or of its reason, in the last lines of a log."""
SAVED = pattern_of(
    r"(?i)\b(?:saved|wrote|written)\b.{0,60}\b(?:checkpoint|ckpt|state|snapshot|step)\b"
    r"|\b(?:checkpoint|ckpt|snapshot)\b.{0,80}\b(?:saved|written|complete)\b"
)
SIGNALS = {
    "SIGINT": pattern_of(
        r"(?i)^\W{0,4}(?:[\w.]{1,40}: )?KeyboardInterrupt\b|\bSIGINT\b|\bsignal[ :=#]{1,3}2\b|\^C"
        r"|\b(?:interrupted|stopped|aborted|cancelled|canceled) by (?:the )?(?:user|keyboard|ctrl[- +]?c)\b"
        r"|\b(?:keyboard|user) ?interrupt(?:ion|ed)?\b|\bctrl[- +]?c\b"
    ),
    "SIGTERM": pattern_of(
        r"(?i)\bSIGTERM\b|\bsignal[ :=#]{1,3}15\b|\bCANCELLED AT \d|\bCANCELLED AT \S{1,40} \*|\bscancel\b"
    ),
}
"""Signal -> pattern of the lines below the last step when a user or scheduler sent it."""
NOT_RECEIVED = pattern_of(
    r"(?i)\b(?:send\w*|closing signal|ignor\w{1,5}|handlers?|install\w*|regist\w*|will|press|use"
    r"|to (?:stop|abort|quit|exit)|DUE TO)\b"
)
"""Matches lines in which a signal is only announced, or is one that a launcher sends to other ranks."""
SILENCE = pattern_of(
    r"(?i)\bno (?:new )?(?:output|progress|steps?|heartbeats?|activity|log lines?|updates?)\b.{0,80}"
    r"\bfor (?:over )?\d"
    r"|\b(?:silent|stalled|stuck|idle) (?:for|since) (?:over )?\d"
)
"""Matches a supervisor's message about a stall."""
STALL_S, STALL_STEPS = 60.0, 10
"""A log that continues this many seconds and step times after the last step of all ranks shows a stall."""


class LogEnd(NamedTuple):
    """How a log ends: the time of its end, its last lines, and the epochs that it names."""

    at: float
    """Time of the last line, else of the file's last change (unix seconds)."""
    lines: Sequence[str]
    epochs: EpochSpan | None = None
    """The epochs that the log's lines name; None: none, or not searched."""
    elsewhere: bool = False
    """True if a saved stack of its rank differs from the stacks of all other ranks."""


def epoch_of(tracks: Sequence[StepTrack], closings: Mapping[str, LogEnd]) -> tuple[int, int] | None:
    """Return the last epoch that these logs name, and the number of epochs.

    None: no log names an epoch in its last line, or the epoch was the last one.
    """
    files = {track.file for track in tracks}
    named = [
        EpochSpan(1 if each.epochs is None else each.epochs.first, int(found[1]), int(found[2]))
        for file, each in closings.items()
        if file in files
        for line in each.lines[-1:]
        for found in EPOCH_OF.finditer(line)
    ]
    return (named[-1].last, named[-1].total) if named and named[-1].short else None


def has_stalled(tracks: Sequence[StepTrack], closings: Mapping[str, LogEnd]) -> bool:
    """Return True if a log continues long after the last step of all ranks, or reports a stall."""
    last = max(
        (mark.at for track in tracks for mark in track.marks[-1:] if mark.at is not None), default=None
    )
    recent = [mark for track in tracks for mark in track.marks[-STALL_STEPS:]]
    times = [mark.at for mark in recent if mark.at is not None]
    if any(SILENCE.search(line) for line in below_steps(tracks, closings)):
        return True
    if last is None or len(times) < len(tracks):
        return False
    quiet_s = max(STALL_S, last - min(times))
    return any(closings[track.file].at - last > quiet_s for track in tracks if track.file in closings)


def below_steps(tracks: Iterable[StepTrack], closings: Mapping[str, LogEnd]) -> list[str]:
    """Return the last lines of the tracks' logs, each from the line of its last step on if it is known."""
    found: list[str] = []
    for track in tracks:
        lines = list(closings[track.file].lines) if track.file in closings else []
        step = str(track.marks[-1].step)
        at = [
            number
            for number, line in enumerate(lines)
            if step in {each.replace(",", "") for each in NUMBER.findall(line)} and not is_failed_end(line)
        ]
        found += lines[at[-1] if at else 0 :]
    return found


def states_whole(tracks: Sequence[StepTrack], total: int | None, closings: Mapping[str, LogEnd]) -> bool:
    """Return True if a line from a log's last step on states all steps: `reached 1200/1200`."""
    if total is None or total < MIN_TOTAL:
        return False
    lines = below_steps(tracks, closings)
    found = (whole for line in lines for whole in WHOLE.finditer(line) if not is_failed_end(line))
    return any(int(each[1].replace(",", "")) == total for each in found)


def ends_with_failure(tracks: Iterable[StepTrack], closings: Mapping[str, LogEnd]) -> bool:
    """Return True if a log of these tracks ends with an error or a failure exit code."""
    files = {track.file for track in tracks}
    last = [line for file, each in closings.items() if file in files for line in each.lines[-1:]]
    return any(is_failed_end(line) for line in last)


def is_failed_end(line: str) -> bool:
    """Return True if a line is an error or reports a failure exit code."""
    return own_level(line) in GRAVE or FAILED_END.search(line) is not None


def signal_of(tracks: Sequence[StepTrack], closings: Mapping[str, LogEnd]) -> str | None:
    """Return the signal that ended a job (a key of SIGNALS), from the lines of its last steps on.

    None: no signal did. Without tracks, the ends of all logs are searched.
    """
    lines = below_steps(tracks, closings) if tracks else [x for each in closings.values() for x in each.lines]
    received = [line for line in lines if not NOT_RECEIVED.search(line)]
    return next((name for name, form in SIGNALS.items() if any(form.search(line) for line in received)), None)


def saved_at_end(tracks: Iterable[StepTrack], closings: Mapping[str, LogEnd]) -> bool:
    """Return True if a checkpoint was written after the last step, so that no step was lost."""
    return any(SAVED.search(line) for line in below_steps(tracks, closings))
