"""Parses typed times: `12:03:11`, `12:03`, `-30s`, `+5m`, `2026-03-01 12:03:11.5`."""

from __future__ import annotations

import re
import time
from datetime import datetime

from gpuwatch.whole_number import SECONDS_OF

_STEP = re.compile(r"([+-])(\d+(?:\.\d+)?)([smhd]?)$")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(\.\d+)?)?$")
DAY_S = 86_400.0


class TimeError(ValueError):
    """Raised if the text is not a time; the message explains it."""


def time_typed(text: str, at: float, now: float) -> float:
    """Return the unix seconds of a typed time on our clock; times without a zone are local.

    Args:
        text: The typed text.
        at: The cursor's time: `-30s` is relative to it.
        now: A time of day is the last one before this, or up to 60 s after it.

    Raises:
        TimeError: The text is not a time.
    """
    text = text.strip()
    if match := _STEP.match(text):
        step = float(match[2]) * SECONDS_OF[match[3] or "s"]
        return at + step if match[1] == "+" else at - step
    if match := _CLOCK.match(text):
        hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
        if hour > 23 or minute > 59 or second > 59:
            raise TimeError(f"{text} is not a valid time of day")
        today = list(time.localtime(now))
        today[3:6] = [hour, minute, second]
        today[8] = -1
        found = time.mktime(tuple(today)) + float(match[4] or 0)  # type: ignore[arg-type]  # a list of nine numbers
        return found - DAY_S if found > now + 60 else found
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        raise TimeError("expected a time such as 12:03:11, -30s, +5m or 2026-03-01 12:03:11") from None


def clock_text(at: float | None, *, fine: bool = False) -> str:
    """Return the local time as `12:03:11`, or with milliseconds if `fine`; dashes if `at` is None."""
    if at is None:
        return "--:--:--.---" if fine else "--:--:--"
    at = round(at, 3) if fine else at
    whole = time.strftime("%H:%M:%S", time.localtime(at))
    return f"{whole}.{round(at % 1 * 1000) % 1000:03}" if fine else whole


def since(at: float, cause_at: float) -> str:
    """Return the seconds after the cause as text: `+30.4 s`."""
    return f"{at - cause_at:+.1f} s"
