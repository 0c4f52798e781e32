"""Numbers of sessions as text; a dash if unknown."""

from __future__ import annotations

import datetime as dt

from gpuwatch.runs.sessions.model.summary import SessionSummary

DASH = "-"
HALF_UP = 1 + 1e-12
"""Binary fractions of averages such as 81.95 are slightly too low; this rounds them up."""
UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "KB"))
"""Powers of ten, as in the logs of a session."""


def fixed(value: float | None, digits: int, unit: str = "") -> str:
    """`1.2345`, with its unit if there is one."""
    return DASH if value is None else f"{value * HALF_UP:.{digits}f}{unit}"


def loss_cell(summary: SessionSummary) -> str:
    """The last loss, for a table column."""
    return "NaN/Inf" if summary.has_non_finite_loss else fixed(summary.final_loss, 4)


def loss_words(summary: SessionSummary) -> str:
    """The last loss, or since when it is not finite."""
    since = summary.non_finite_loss_step
    if summary.has_non_finite_loss:
        return "NaN or Inf" if since is None else f"NaN or Inf since step {since}"
    return fixed(summary.final_loss, 4)


def significant(value: float | None, digits: int = 4) -> str:
    """A number of any size: `0.00012`, `1234`."""
    return DASH if value is None else f"{value:.{digits}g}"


def whole(value: int | None) -> str:
    """A count."""
    return DASH if value is None else str(value)


def duration(seconds: float | None) -> str:
    """`1200.5s (20.0min)`."""
    return DASH if seconds is None else f"{seconds:.1f}s ({seconds / 60:.1f}min)"


def size(count: float | None) -> str:
    """`67.23MB`."""
    if count is None:
        return DASH
    for unit, name in UNITS:
        if count >= unit:
            return f"{count / unit:.2f}{name}"
    return f"{count:.0f}B"


def rate(bytes_per_s: float | None) -> str:
    """Bytes per second in MB/s (10^6), as `3701.46MB/s`; a dash for None."""
    return DASH if bytes_per_s is None else f"{bytes_per_s / 10**6:.2f}MB/s"


def percent(share: float | None) -> str:
    """A share from 0 to 1: `92.3%`."""
    return DASH if share is None else f"{100 * share:.1f}%"


def moment(time: float | None) -> str:
    """Local date and time for unix seconds."""
    if time is None:
        return DASH
    try:
        return dt.datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return DASH
