"""Removes alerts that others explain: error lines without a rule, and generic rules beside a specific one.

Example: rank 3 logs `ERROR: shard 7 not usable`, which no rule knows, and 2 s later `CUDA out of memory`:
the unknown line is within `SAME_ERROR_S` of a known error of its rank, and is left out. Ten minutes earlier
and far above in the file it would stay an alert of its own. A line that `python.exception` and `oom.cuda`
both match is an alert of `oom.cuda` alone.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from gpuwatch.agent.logs.lines.normalise import messages
from gpuwatch.diagnose.error_outcome.refutation import SIGN
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    GENERIC_EXCEPTIONS,
    PEER_CONNECTION_ERRORS,
    TIMEOUTS,
    UNEXPLAINED,
    explains,
)
from gpuwatch.diagnose.model.text import shortened

NEAR_BYTES = 8192
"""Bytes around a known error within which unknown error lines are explained by it.

They are then lines of its traceback or of the shutdown.
"""
BESIDE_BYTES = 512
"""Distance (bytes) within which a known warning explains an error line: both are lines of one message."""
SAME_ERROR_S = 10.0
"""Seconds around a known error that the same rank logged in another file."""
AFTERMATH_S = 5.0
"""Errors later than this after the first timeout was printed are consequences of it (seconds)."""
_CONNECTION = ("ConnectionError", "ConnectionResetError", "ConnectionAbortedError", "ConnectionRefusedError")
WAITS = frozenset((*_CONNECTION, "BrokenPipeError", "EOFError", "TimeoutError", "timeout"))
"""Exceptions of a socket, which a collective's error wraps (`raise RuntimeError(...) from error`)."""
MAX_QUOTED = 80
"""Most characters of a line that a headline quotes."""

MAX_HEAD = 10
"""Most parts that are removed from the head of a line."""
_HEAD = re.compile(
    r"\[?\d{4}[-/.]\d\d[-/.]\d\d(?:[T _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)?(?:Z"
    r"|[+-]\d\d:?\d\d)?(?: UTC)?\]?[:,]?(?=[\s\[|:]|$)"
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?:?(?=\s|$)"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: [\w.-]{1,80}(?= [\w./-]{1,60}(?:\[\d{1,10}\])?: ))?"
    r"|[EWIF]\d{4} \d\d:\d\d:\d\d[.\d]* +\d{1,10} [\w./-]{1,160}:\d{1,6}\]"
    r"|[\[(<]?(?:DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL)[\])>]?:?(?=[\s|:-]|$)"
    r"|[EWIF] (?=\S{1,160}:\d{1,6}\])"
    r"|\[?[\w./-]{1,160}\.(?:py|cc|cpp|h|cu|rs|go|c):\d{1,6}(?::[\w<>]{1,60})?\]?(?:\s?-)?:?"
    r"|\[[Rr]ank ?\d{1,6}\]:?|\[[\w.-]{1,40}\](?=\s?(?:\[|-))|[|:>-]{1,3}(?=\s)"
    r"|[A-Za-z_][\w.]{0,40} (?=[|>-] )"
)
"""Matches one part of a line's head, such as the time or the level."""
LOGFMT = re.compile(
    r'(?<![^\s])(?P<key>[A-Za-z_][\w.]{0,40})=(?:"(?P<quoted>(?:[^"\\]|\\.){0,400})"|(?P<bare>[^\s"]{1,200}))'
)
"""Matches one `key=value` pair of a logfmt line: `level=error msg="lost the batch"`."""
Place: TypeAlias = tuple[str | None, str | None]


def without_explained(alerts: Sequence[Alert]) -> list[Alert]:
    """Return the alerts without the unexplained errors that a known error explains.

    That is one of the same rank within SAME_ERROR_S, or one near each of the error's lines in its files.
    """
    if not any(alert in UNEXPLAINED for alert in alerts):
        return list(alerts)
    known = [alert for alert in alerts if alert not in UNEXPLAINED and alert.severity != "info"]
    grave = [alert for alert in known if alert.severity in ("error", "critical")]
    causes = [alert for alert in grave if alert not in EXITS]
    ends = offsets_of(alert for alert in grave if alert in EXITS)
    near_cause, beside = offsets_of(causes), offsets_of(alert for alert in known if alert not in EXITS)
    times: dict[tuple[int, str | None], list[float]] = defaultdict(list)
    for alert in causes:
        if alert.rank is not None and alert.timed:
            times[alert.rank, alert.job].append(alert.first)

    def explained(alert: Alert) -> bool:
        if alert.rank is not None and alert.timed:
            moments = times.get((alert.rank, alert.job), ())
            if any(
                abs(alert.first - each) <= SAME_ERROR_S and alert.last - each <= SAME_ERROR_S
                for each in moments
            ):
                return True
        lines = _lines(alert)
        # neither how a process ended nor a warning explains its last, fatal line, and no end a line above it
        fatal = alert.severity == "error"
        return bool(lines) and all(
            any_within(near_cause[node, file], offset - NEAR_BYTES, offset + NEAR_BYTES)
            or (not fatal and any_within(ends[node, file], offset - NEAR_BYTES, offset))
            or (not fatal and any_within(beside[node, file], offset - BESIDE_BYTES, offset + BESIDE_BYTES))
            for node, file, offset in lines
        )

    return [alert for alert in alerts if alert not in UNEXPLAINED or not explained(alert)]


def offsets_of(alerts: Iterable[Alert]) -> dict[Place, list[int]]:
    """Return (node, file) -> sorted offsets (bytes) of the lines of the alerts."""
    found: dict[Place, list[int]] = defaultdict(list)
    for alert in alerts:
        for node, file, offset in _lines(alert):
            found[node, file].append(offset)
    for offsets in found.values():
        offsets.sort()
    return found


def any_within(offsets: Sequence[int], first: int, last: int) -> bool:
    """Return True if one of the sorted offsets is from `first` to `last`."""
    return bisect_left(offsets, first) < bisect_right(offsets, last)


def last_resort(alerts: Sequence[Alert]) -> Alert | None:
    """Return the first unexplained error that can be the cause, one with a time if there is any; or None.

    Errors of ranks that timed out, errors later than AFTERMATH_S after the first timeout, and alerts of
    severity `info` do not count.
    """
    gave_up = min((alert.first for alert in alerts if alert in TIMEOUTS), default=None)
    waited = {alert.rank for alert in alerts if alert in TIMEOUTS}
    possible = [
        alert
        for alert in alerts
        if alert in UNEXPLAINED
        and alert.severity != "info"
        and (gave_up is None or (alert.rank not in waited and alert.first <= gave_up + AFTERMATH_S))
    ]
    return min(possible, key=lambda alert: (not alert.timed, alert.first, alert.id), default=None)


def quoted(line: str) -> str:
    """Return `logged "LINE"` for a headline, the line cut to MAX_QUOTED characters."""
    words = " ".join(headless(message_of(line)).split())
    return f'logged "{shortened(words, MAX_QUOTED)}"'


def headless(line: str) -> str:
    """Return a line without its head: times, level, logger, source position, host of a system log."""
    rest = line.strip()
    for _ in range(MAX_HEAD):
        found = _HEAD.match(rest)
        if found is None or not (left := rest[found.end() :].lstrip()):
            break
        rest = left
    return rest


def message_of(line: str) -> str:
    """Return the message and exception of a JSON or logfmt record, joined by `: `; another line as it is."""
    if "{" in line:
        texts = [text for text, _ in messages(line.encode("utf-8", "replace"))[0]]
        return ": ".join(dict.fromkeys(texts)) or line
    pairs = {found["key"]: found["quoted"] or found["bare"] or "" for found in LOGFMT.finditer(line)}
    if not {"level", "lvl", "severity"}.isdisjoint(pairs) and (
        text := pairs.get("msg") or pairs.get("message")
    ):
        return ": ".join(filter(None, [text, pairs.get("err") or pairs.get("error") or pairs.get("reason")]))
    return line


def without_general(alerts: list[Alert]) -> list[Alert]:
    """Return the alerts without those of generic rules whose lines were also matched by a specific rule.

    General words in the message of an exception (`RuntimeError: shard 17 was not found`) are no such match.
    """
    alerts = _without_raised_losses(alerts)
    general = {alert.id: alert for alert in alerts if alert in EXITS or alert in GENERIC_EXCEPTIONS}
    if not general:
        return alerts
    wanted = {line for alert in general.values() for line in _lines(alert)}
    specific: dict[object, list[Alert]] = {}
    for alert in alerts:
        for line in _lines(alert):
            if line in wanted:
                specific.setdefault(line, []).append(alert)
    gone = {
        alert.id
        for alert in general.values()
        if (lines := _lines(alert))
        and all(
            any(
                other.code != alert.code and (alert in GENERIC_EXCEPTIONS or explains(other, alert))
                for other in specific[line]
            )
            for line in lines
        )
    }
    return [alert for alert in alerts if alert.id not in gone]


def _without_raised_losses(alerts: list[Alert]) -> list[Alert]:
    """Return the alerts without warnings about a stated loss all lines of which an exception has, too."""
    stated = [alert for alert in alerts if SIGN in alert.fields and alert.severity == "warning"]
    if not stated:
        return alerts
    raised = {line for alert in alerts if alert in GENERIC_EXCEPTIONS for line in _lines(alert)}
    gone = {alert.id for alert in stated if (lines := _lines(alert)) and raised.issuperset(lines)}
    return [alert for alert in alerts if alert.id not in gone]


def without_wrapped(alerts: list[Alert]) -> list[Alert]:
    """Return the alerts without socket exceptions that a collective's error below them in the log wraps.

    The error of the collective already reports that the rank waited for another rank.
    """
    inner = {alert.id for alert in alerts if alert in GENERIC_EXCEPTIONS and _is_wait(alert)}
    if not inner:
        return alerts
    outer = offsets_of(alert for alert in alerts if alert in TIMEOUTS or alert in PEER_CONNECTION_ERRORS)
    gone = {
        alert.id
        for alert in alerts
        if alert.id in inner
        and (lines := _lines(alert))
        and all(
            any_within(outer[node, file], offset + 1, offset + NEAR_BYTES) for node, file, offset in lines
        )
    }
    return [alert for alert in alerts if alert.id not in gone]


def _is_wait(alert: Alert) -> bool:
    return str(alert.fields.get("exception", "")).rpartition(".")[2] in WAITS


def _lines(alert: Alert) -> list[tuple[str | None, str | None, int]]:
    return [(proof.node, proof.file, proof.offset) for proof in alert.proof if proof.offset is not None]
