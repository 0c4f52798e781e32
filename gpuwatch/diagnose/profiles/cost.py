"""What sampling a rank costs: the estimate before it starts, and what was measured."""

from __future__ import annotations

from dataclasses import dataclass

SAMPLE_US, FRAME_US = 100.0, 10.0
"""CPU microseconds of py-spy 0.4.3 for a sample, and for each frame of each thread in it; measured on a
cloud machine with 2 threads of 8 frames (180 us) and 61 threads of 1,500 frames (15,000 us)."""
USUAL_FRAMES = 60
"""Of a rank whose frames are not known."""


@dataclass(frozen=True)
class ProfileOptions:
    """How ranks are sampled."""

    seconds: int = 10
    rate: int = 100
    """Samples a second."""
    blocking: bool = False
    """Stop the rank for each sample."""
    py_spy: str = ""
    """Its path on the nodes; empty: where it is found."""


def cost_pct(options: ProfileOptions, frames: int | None) -> float:
    """What py-spy takes of one CPU core: an estimate for a process whose threads have so many frames."""
    sample_us = SAMPLE_US + FRAME_US * (USUAL_FRAMES if frames is None else frames)
    return min(100.0, options.rate * sample_us / 1e4)


def cost_text(options: ProfileOptions, frames: int | None) -> str:
    """What it will cost a rank, for the person who decides."""
    share = cost_pct(options, frames)
    known = "" if frames is None else f" (its threads have {frames} frames of Python)"
    cpu = f"py-spy will take about {max(1.0, share):.0f} % of one CPU core for {options.seconds} s{known}"
    if options.blocking:
        return f"{cpu} and stop the rank for about {max(1.0, share):.0f} % of the time"
    return f"{cpu}; it does not stop the rank"
