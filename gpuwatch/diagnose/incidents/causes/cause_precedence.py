"""Order of the kinds of causes: which of two simultaneous alerts is the cause.

Example: in one second rank 3 logs `CUDA out of memory` (an error that names a cause), the launcher reports
its exit, and rank 0 loses a connection (a lost peer). The first has the lowest value and leads. Of an Xid
and an error of a program with equal precedence, `layer` puts the device first.
"""

from __future__ import annotations

from enum import IntEnum

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    GENERIC_EXCEPTIONS,
    NAMES_CULPRIT,
    PEER_CONNECTION_ERRORS,
    end_weight,
    of_kinds,
)


class CausePrecedence(IntEnum):
    """The kinds of causes; of two simultaneous alerts the one with the lower value is the cause."""

    NAMES_CULPRIT = 0
    ROOT_ERROR = 1
    PROCESS_END = 2
    FIRST_SYMPTOM = 3
    GENERIC_EXCEPTION = 4
    LOST_PEER = 5
    FOLLOWING_END = 6
    """An end that other failures also cause: an abort, or a signal from the launcher."""


DEVICE_FAULT = of_kinds("device_fault")
GPU_FAULTS = of_kinds("gpu_fault")


def layer(alert: Alert) -> int:
    """Return the layer of an alert: 0 for a fault of a device, 1 for a report of the kernel, 2 for others.

    Of two causes with equal precedence in the same second, the one with the lower layer leads.
    """
    return 0 if alert in DEVICE_FAULT else 1 if alert.kernel else 2


def precedence(alert: Alert) -> CausePrecedence:
    """Return the kind of cause that an alert is."""
    if alert in NAMES_CULPRIT and alert.role == "root":
        return CausePrecedence.NAMES_CULPRIT
    if end_weight(alert) >= 2:
        return CausePrecedence.FOLLOWING_END
    if alert in PEER_CONNECTION_ERRORS:
        return CausePrecedence.LOST_PEER
    if alert in GENERIC_EXCEPTIONS:
        return CausePrecedence.GENERIC_EXCEPTION
    if alert.role == "first":
        return CausePrecedence.FIRST_SYMPTOM
    return CausePrecedence.PROCESS_END if alert in EXITS else CausePrecedence.ROOT_ERROR
