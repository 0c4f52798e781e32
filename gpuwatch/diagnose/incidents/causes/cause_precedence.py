"""Which of two alerts of the same moment is the cause: the order of the kinds of causes."""

from __future__ import annotations

from enum import IntEnum

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    GENERIC_EXCEPTIONS,
    NAMES_CULPRIT,
    PEER_CONNECTION_ERRORS,
)


class CausePrecedence(IntEnum):
    """What kind of cause an alert is; of two alerts of the same moment the smaller one is the cause."""

    NAMES_CULPRIT = 0
    ROOT_ERROR = 1
    PROCESS_END = 2
    FIRST_SYMPTOM = 3
    GENERIC_EXCEPTION = 4
    LOST_PEER = 5
    FOLLOWING_END = 6
    """An end that other failures bring about, too: an abort, a signal of the launcher."""


def precedence(alert: Alert) -> CausePrecedence:
    """The kind of cause that an alert is."""
    if alert.code in NAMES_CULPRIT and alert.role == "root":
        return CausePrecedence.NAMES_CULPRIT
    if EXITS.get(alert.code, 0) >= 2:
        return CausePrecedence.FOLLOWING_END
    if alert.code in PEER_CONNECTION_ERRORS:
        return CausePrecedence.LOST_PEER
    if alert.code in GENERIC_EXCEPTIONS:
        return CausePrecedence.GENERIC_EXCEPTION
    if alert.role == "first":
        return CausePrecedence.FIRST_SYMPTOM
    return CausePrecedence.PROCESS_END if alert.code in EXITS else CausePrecedence.ROOT_ERROR
