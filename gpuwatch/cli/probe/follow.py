"""Follows a probe on the command line: shows its progress, and handles Ctrl-C."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from gpuwatch.cli.shared.signals import StopRequest, ctrl_c_stops

if TYPE_CHECKING:
    from gpuwatch.probe.orchestration.conductor import Conductor
    from gpuwatch.report.probe.progress import Report

POLL_S = 0.05
TICK_S = 0.5
"""Interval in seconds of the progress display, whose clock runs even without changes."""
ENDING_S = 3.0
"""Seconds that the probe may take to end after Ctrl-C; everything on the nodes ends within 2 s."""


def follow(conductor: Conductor, reached: Callable[[], bool]) -> bool:
    """Show the progress until `reached` returns True. Ctrl-C cancels the probe; return True if it did.

    After Ctrl-C it waits at most `ENDING_S` for the probe's end.
    """
    stop, cancelled = StopRequest(), False
    deadline = float("inf")
    with ctrl_c_stops(stop), progress() as report:
        seen, reported = -1, 0.0
        while not (conductor.results.over if cancelled else reached()) and time.monotonic() < deadline:
            if stop.asked and not cancelled:
                cancelled, deadline = True, time.monotonic() + ENDING_S
                conductor.cancel()
            if conductor.results.version != seen or time.monotonic() > reported + TICK_S:
                seen, reported = conductor.results.version, time.monotonic()
                report(conductor.results)
            time.sleep(POLL_S)
    return stop.asked


def progress() -> AbstractContextManager[Report]:
    """Return a context that gives a function to show progress bars on stderr; silent without a terminal."""
    if not sys.stderr.isatty():
        return contextlib.nullcontext(lambda _results: None)
    from gpuwatch.report.probe.progress import progress_bars

    return progress_bars()
