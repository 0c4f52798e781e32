"""The options for sampling a rank, and the estimate of what it costs."""

from __future__ import annotations

from msgspec import Struct

SAMPLE_US, FRAME_US = 100.0, 10.0
"""CPU microseconds of py-spy 0.4.3 for a sample, and per frame of each thread in it.

Measured on a cloud machine with 2 threads of 8 frames (180 us) and 61 threads of 1,500 frames (15,000 us).
"""
USUAL_FRAMES = 60
"""Assumed number of frames of a rank whose frames are unknown."""

MAX_KERNEL_SECONDS = 10


class ProfileOptions(Struct, frozen=True):
    """Options for sampling ranks: how long, how often, whether ranks are stopped, and where py-spy is."""

    seconds: int = 10
    rate: int = 100
    """Samples per second."""
    blocking: bool = False
    """True: py-spy stops the rank for each sample."""
    py_spy: str = ""
    """Path of py-spy on the nodes; empty: search for it."""
    kernels: bool = False
    """True: after the sampling, the ranks record their GPU kernels."""

    @property
    def kernel_seconds(self) -> int:
        """Return the number of seconds for which the ranks record their GPU kernels."""
        return min(self.seconds, MAX_KERNEL_SECONDS)


def cost_pct(options: ProfileOptions, frames: int | None) -> float:
    """Return the estimated percent of a CPU core that py-spy takes.

    `frames`: Python frames on the stacks of the process; None: unknown.
    """
    sample_us = SAMPLE_US + FRAME_US * (USUAL_FRAMES if frames is None else frames)
    return min(100.0, options.rate * sample_us / 1e4)


def cost_text(options: ProfileOptions, frames: int | None) -> str:
    """Return the expected cost for a rank, as text for the operator."""
    share = cost_pct(options, frames)
    known = "" if frames is None else f" (its threads have {frames} frames of Python)"
    cpu = f"py-spy will take about {max(1.0, share):.0f} % of one CPU core for {options.seconds} s{known}"
    if options.blocking:
        return f"{cpu} and stop the rank for about {max(1.0, share):.0f} % of the time"
    return f"{cpu}; it does not stop the rank"


def kernels_cost_text(options: ProfileOptions) -> str:
    """Return what it costs a rank to record its GPU kernels, as text for the operator."""
    return (
        f"then the rank itself records {options.kernel_seconds} s of its kernels (Kineto, within about 15 s):"
        " its steps take longer meanwhile, and it writes a trace (0.3 to 0.5 KB per operator and kernel; "
        "at most 256 MiB are read) into /dev/shm of its node, which gpuwatch reads and deletes"
    )
