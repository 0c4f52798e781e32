"""A symptom in a run's metrics."""

from __future__ import annotations

from msgspec import Struct

from gpuwatch.wire import Severity


class Sign(Struct, frozen=True):
    """A symptom in a run's metrics that is present now; it is reported after it lasted `hold_s`."""

    code: str
    """A rule's id if a log line can report the same (num.nan_loss), else a code such as train.slow."""
    severity: Severity
    text: str
    """What is wrong, with the values."""
    hold_s: float = 0.0
    """Seconds for which the symptom must last."""
    step: int | None = None
    """The step at which the symptom began, if known."""
    lasts: bool = False
    """True if the symptom has lasted so long that the run no longer learns."""
