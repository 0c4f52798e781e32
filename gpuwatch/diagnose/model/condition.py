"""A condition: one problem of a node or GPU, with its value."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gpuwatch.number_text import duration
from gpuwatch.wire import Severity

ORDER: tuple[Severity, ...] = ("critical", "error", "warning", "info")
"""Worst first."""
GRAVE: tuple[Severity, ...] = ("error", "critical")
"""The severities of alerts that may be a cause and that open an incident."""


class Evidence(msgspec.Struct, frozen=True):
    """The measured value behind a condition, with its unit, limit and age. `str()` gives one short line."""

    what: str
    value: float | str | None = None
    unit: str = ""
    threshold: float | str | None = None
    age_s: float | None = None
    """Age of the value in seconds; None: unknown."""

    def __str__(self) -> str:
        return self.text if self.age_s is None else f"{self.text}, {duration(self.age_s)} ago"

    @property
    def text(self) -> str:
        """Return the value with its unit and limit as text, without its age."""
        found = self.what if self.value is None else f"{self.what} {_text(self.value)}{self.unit}"
        if self.threshold is None:
            return found
        return f"{found}, limit {_text(self.threshold)}{self.unit}"


class Condition(msgspec.Struct, frozen=True):
    """A problem of a node or of one of its GPUs: code, severity, text and the value behind it."""

    code: str
    """The code of the condition, stable for scripts: gpu_lost, temperature, ib_down, ..."""
    severity: Severity
    text: str
    """What is wrong, without the place."""
    evidence: Evidence
    gpu: int | None = None
    """Index of the GPU, if the condition is about one."""

    @property
    def sentence(self) -> str:
        """Return the text with the GPU in front of it."""
        return self.text if self.gpu is None else f"GPU {self.gpu}: {self.text}"


def worst(conditions: Iterable[Condition]) -> Condition | None:
    """Return the first condition of the highest severity; None: there are no conditions."""
    return min(conditions, key=lambda condition: ORDER.index(condition.severity), default=None)


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}" if value == round(value, 1) else f"{value:.1f}"
