"""Durations and sizes as a person types them: `90s`, `12h`, `7d`; `500M`, `20G`. Types of options."""

from __future__ import annotations

import re

import click

_DURATION = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SIZE = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def duration_s(text: str) -> float:
    """Seconds of `12h`.

    Raises:
        click.BadParameter: it is no duration.
    """
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)\s?([smhd]?)", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 90s, 12h or 7d.")
    return float(match[1]) * _DURATION[match[2]]


def size_bytes(text: str) -> int:
    """Bytes of `20G`.

    Raises:
        click.BadParameter: it is no size.
    """
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)\s?([KMGT]?)i?B?", text, re.IGNORECASE)
    if match is None:
        raise click.BadParameter(f"{text!r} is not a size such as 500M or 20G.")
    return int(float(match[1]) * _SIZE[match[2].upper()])
