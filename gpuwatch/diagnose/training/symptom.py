"""A symptom in a run's metrics."""

from __future__ import annotations

from msgspec import Struct

from gpuwatch.rules.built_in import built_in_rules
from gpuwatch.wire import Role, Severity

TITLES = {
    "num.loss_rising": "Loss rises",
    "num.grad_explodes": "Gradient norm explodes",
    "num.grad_vanishes": "Gradient norm vanishes",
    "num.plateau": "Loss stands still",
    "num.steps_skipped": "Many steps are skipped",
    "train.restarted": "Steps went back",
    "train.data_bound": "Training waits for data",
}
"""Titles of the signs that no line reports, so that no rule has their code."""


class Sign(Struct, frozen=True):
    """A symptom in a run's metrics that is present now; it is reported after it lasted `hold_s`."""

    code: str
    """A rule's id if a log line can report the same (num.nan_loss), else a code of `TITLES`."""
    severity: Severity
    text: str
    """What is wrong, with the values."""
    hold_s: float = 0.0
    """Seconds for which the symptom must last."""
    step: int | None = None
    """The step at which the symptom began, if known."""
    lasts: bool = False
    """True if the symptom has lasted so long that the run no longer learns."""
    of_curve: bool = False
    """True for the curve of a loss: averaged losses are alike on all ranks, so one alone names its rank."""

    @property
    def title(self) -> str:
        """Return the title of the built-in rule with this code, else of `TITLES`."""
        rule = built_in_rules().get(self.code)
        return TITLES[self.code] if rule is None else rule.title

    @property
    def role(self) -> Role:
        """Return the role of the built-in rule with this code; `hint` if no rule has it."""
        rule = built_in_rules().get(self.code)
        return "hint" if rule is None else rule.role
