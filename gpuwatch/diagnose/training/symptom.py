"""One thing that a run's numbers state."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwatch.wire import Severity


@dataclass(frozen=True)
class Sign:
    """True at this moment; whether it is reported depends on how long it lasts."""

    code: str
    """A rule's id where a log line can state the same (num.nan_loss), else train.slow and the like."""
    severity: Severity
    text: str
    """What is wrong, with the numbers."""
    hold_s: float = 0.0
    """It must have been true for so long."""
    step: int | None = None
    """Since which step, where that is known."""
    lasts: bool = False
    """It has been so for long: the run learns nothing any more."""
