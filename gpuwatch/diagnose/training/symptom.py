"""A symptom in a run's metrics."""

from __future__ import annotations

from msgspec import Struct

from gpuwatch.wire import Severity


class Sign(Struct, frozen=True):
    """A symptom that is present now; it is reported only after it lasted `hold_s`."""

    code: str
    """A rule's id where a log line can report the same (num.nan_loss), else train.slow and the like."""
    severity: Severity
    text: str
    """What is wrong, with its values."""
    hold_s: float = 0.0
    """Seconds that it must last."""
    step: int | None = None
    """The step at which it began, if known."""
    lasts: bool = False
    """True if it has lasted long: the run no longer learns."""
