"""Formats the numbers of sessions; a dash if unknown."""

from __future__ import annotations

import datetime as dt

from gpuwatch.runs.sessions.model.summary import SessionSummary

DASH = "-"
HALF_UP = 1 + 1e-12
"""A factor that raises averages such as 81.95, whose binary fraction is slightly too low, for rounding."""
SMALL_LOSS = 0.01
"""A smaller loss is shown with significant digits, because four decimals would show little of it."""
UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "KB"))
"""(bytes, unit) in powers of ten, as in the logs of a session."""


def fixed(value: float | None, digits: int, unit: str = "") -> str:
    """Return a number as text with `digits` decimals and its unit, `85.2%`; a dash for None."""
    return DASH if value is None else f"{value * HALF_UP:.{digits}f}{unit}"


def loss_cell(summary: SessionSummary) -> str:
    """Return the text of a table cell with the last loss; `NaN/Inf` if any loss was not finite."""
    return "NaN/Inf" if summary.has_non_finite_loss else loss_text(summary.final_loss)


def loss_words(summary: SessionSummary) -> str:
    """Return the last loss as text, or since which step the loss is not finite."""
    since = summary.non_finite_loss_step
    if summary.has_non_finite_loss:
        return "NaN or Inf" if since is None else f"NaN or Inf since step {since}"
    return loss_text(summary.final_loss)


def loss_text(value: float | None) -> str:
    """Return a loss with four decimals, a small one with four digits, `3.21e-05`; a dash for None."""
    return significant(value) if value and abs(value) < SMALL_LOSS else fixed(value, 4)


def significant(value: float | None, digits: int = 4) -> str:
    """Return a number as text with significant digits, `0.00012`, `1234`; a dash for None."""
    return DASH if value is None else f"{value:.{digits}g}"


def whole(value: int | None) -> str:
    """Return a count as text; a dash for None."""
    return DASH if value is None else str(value)


def duration(seconds: float | None) -> str:
    """Return seconds, also in minutes: `1200.5s (20.0min)`; a dash for None."""
    return DASH if seconds is None else f"{seconds:.1f}s ({seconds / 60:.1f}min)"


def size(count: float | None) -> str:
    """Return bytes in the fitting unit: `67.23MB`; a dash for None."""
    if count is None:
        return DASH
    for unit, name in UNITS:
        if count >= unit:
            return f"{count / unit:.2f}{name}"
    return f"{count:.0f}B"


def rate(bytes_per_s: float | None) -> str:
    """Return bytes per second in MB/s (10**6), as in `3701.46MB/s`; a dash for None."""
    return DASH if bytes_per_s is None else f"{bytes_per_s / 10**6:.2f}MB/s"


def percent(share: float | None) -> str:
    """Return a share from 0 to 1 as `92.3%`; a dash for None."""
    return DASH if share is None else f"{100 * share:.1f}%"


def moment(time: float | None) -> str:
    """Return unix seconds as text, in local date and time; a dash for None or an invalid time."""
    if time is None:
        return DASH
    try:
        return dt.datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return DASH
