"""Parses a typed time of a recording: `12:03:11`, `3m ago`, `+90s`, `2026-03-01 12:03:11`."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gpuwatch.link.recording.reader import Recording

_AGO = re.compile(r"(\d+(?:\.\d+)?\s{0,8}[smhd]?)\s{1,8}ago")


def moment_typed(text: str, recording: Recording) -> float:
    """Return the time in unix seconds.

    `3m ago` and `-3m` are relative to the end of the recording, `+90s` to its beginning.

    Raises:
        click.BadParameter: The text is not a time, or is outside of the recording.
    """
    from gpuwatch.link.recording.reader import seconds
    from gpuwatch.tui.toolkit.time_input import TimeError, clock_text, time_typed

    first, last = seconds(recording.first), seconds(recording.last)
    text = text.strip()
    if match := _AGO.fullmatch(text):
        text = "-" + match[1].replace(" ", "")
    try:
        at = time_typed(text, first if text.startswith("+") else last, last)
    except TimeError as error:
        raise click.BadParameter(f"{error}, or '3m ago'", param_hint="--at") from error
    if not first - 1 <= at <= last + 1:
        raise click.BadParameter(
            f"{text} is outside of the recording, which goes from {clock_text(first)} to {clock_text(last)}",
            param_hint="--at",
        )
    return at
