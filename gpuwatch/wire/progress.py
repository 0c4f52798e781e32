"""How far a training run is, read from a log."""

from __future__ import annotations

from typing import Literal, TypeAlias

from gpuwatch.wire.logs import RankSource
from gpuwatch.wire.part import Frame

Odd: TypeAlias = Literal["nan", "inf", "-inf"]
"""What JSON has no number for."""


class Progress(Frame, tag="progress", frozen=True, kw_only=True):
    """The newest values that one voice of one file has written since its last such frame.

    At most one a tick, file and voice; what lies between two of them is seen by their steps and times.
    """

    file: str
    offset: int
    """Of the first byte of the newest line."""
    at: float
    """When: that line's own time, else when it was first seen (node's clock)."""
    timed: bool = False
    """Whether `at` is the line's own time. False, and `backlog` set: it only bounds the time from above."""
    backlog: bool = False
    """It was there before the agent came."""
    dialect: str
    """The id of the dialect that the newest line with a step is of."""
    per_epoch: bool = False
    """Steps begin anew with every epoch."""
    fields: dict[str, float | Odd] = {}
    """step, total_steps, epoch, loss, lr, grad_norm, loss_scale, skipped, step_time_s, samples_per_s,
    tokens_per_s, tflops, mfu (0 to 1), mem_gib, eta_s: those that were written."""
    phases_s: dict[str, float] = {}
    """Seconds of each timer (forward, backward, allreduce, ...)."""
    rank: int | None = None
    """The rank that speaks: of most frameworks one alone does, rank 0 or the last."""
    rank_from: RankSource | None = None
    local_rank: int | None = None
    job: str | None = None
    host: str | None = None
    """The host that the line's prefix names, where one file holds several."""
    pid: int | None = None
