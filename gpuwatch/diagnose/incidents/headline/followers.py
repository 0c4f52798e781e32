"""The part of a headline about the ranks whose failures followed from the cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence

from gpuwatch.diagnose.incidents.headline.facts import HeadlineFacts, following
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import (
    ABOUT_ANOTHER,
    EXITS,
    GENERIC_EXCEPTIONS,
    LAUNCHER,
    PEER_CONNECTION_ERRORS,
    TIMEOUTS,
    end_weight,
    of_kinds,
)
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.model.text import collective
from gpuwatch.number_text import plural

UNREACHED = of_kinds("peer_unreached")
LOST_A_PEER = PEER_CONNECTION_ERRORS | UNREACHED | TIMEOUTS
ENDS = EXITS | LAUNCHER
ABORT_WEIGHT = 2
"""`end_weight` from which an end usually follows from another failure."""


def followed(reported: HeadlineFacts, where: RankIndex) -> str:
    """Return text about what happened to the other ranks; "" if there are none."""
    ranks = following(reported, where)
    if not ranks:
        return ""
    cause = None if reported.votes else reported.cause
    others = cause is not None and cause in ABOUT_ANOTHER
    if cause is not None and others and cause.rank is not None and not reported.named:
        ranks = ranks | {cause.rank}
    same = 0 if cause is None or (reported.rank is None and not others) else _same(reported, cause, ranks)
    counts = (
        ("raised an exception too", _some(reported, ranks, GENERIC_EXCEPTIONS)),
        ("report it" if others else "report the same", same),
        ("then could not connect", _some(reported, ranks, UNREACHED)),
        ("then lost their connections", _some(reported, ranks, PEER_CONNECTION_ERRORS)),
        ("then ended", _some(reported, ranks, ENDS)),
    )
    words, count = next((each for each in counts if each[1] * 2 >= len(ranks)), ("", 0))
    waited = [alert for alert in reported.alerts if alert in TIMEOUTS and alert.rank in ranks]
    if waited and len({alert.rank for alert in waited}) >= count:
        return _timed_out(waited, reported.cause)
    if not words:
        return f"{plural(len(ranks), 'rank')} then followed"
    text = f"{plural(count, 'more rank' if words == 'report the same' else 'rank')} {words}"
    if count > 1:
        return text
    return text.replace("report ", "reports ").replace("their connections", "its connection")


def _timed_out(waited: Sequence[Alert], cause: Alert | None) -> str:
    """Return text about ranks whose collective timed out, and whether that was before or after the cause."""
    spots = Counter(spot for alert in waited if (spot := collective(alert.fields)))
    spot = f" in {spots.most_common(1)[0][0]}" if spots else ""
    ranks = plural(len({alert.rank for alert in waited}), "rank")
    if cause is None or not cause.timed:
        return f"{ranks} timed out{spot}"
    before = all(alert.timed and alert.first < cause.first for alert in waited)
    return f"{ranks} had timed out{spot}" if before else f"{ranks} then timed out{spot}"


def _same(reported: HeadlineFacts, cause: Alert, ranks: set[int]) -> int:
    """Return how many of `ranks` report the cause too."""
    return len({alert.rank for alert in alike(reported, cause)} & ranks)


def alike(reported: HeadlineFacts, cause: Alert) -> list[Alert]:
    """Return the alerts of the cause's class.

    If the cause is the end of a process, only ends with the same exit code and signal that do not follow from
    it.
    """
    same_class = [alert for alert in reported.alerts if alert.code == cause.code]
    if cause not in EXITS:
        return same_class
    lost = {alert.rank for alert in reported.alerts if alert in LOST_A_PEER}
    may_follow = cause.fields.get("exitcode") == 1 or end_weight(cause) >= ABORT_WEIGHT
    return [
        alert
        for alert in same_class
        if alert.id == cause.id
        or (_status(alert) == _status(cause) and not (may_follow and lost & {None, alert.rank}))
    ]


def _status(alert: Alert) -> tuple[object, object]:
    """Return exit code and signal of an alert as its line gives them."""
    return alert.fields.get("exitcode"), alert.fields.get("signal")


def _some(reported: HeadlineFacts, ranks: set[int], codes: Container[object]) -> int:
    """Return how many of `ranks` have an alert of one of the classes `codes`."""
    return len({alert.rank for alert in reported.alerts if alert in codes and alert.rank in ranks})
