"""How far a training run is, read from a log."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from gpuwatch.wire.base import Frame, FramePart
from gpuwatch.wire.limits import Count, Moment, Name, Rank, Real, Table, Whole
from gpuwatch.wire.logs import RankSource

Odd: TypeAlias = Literal["nan", "inf", "-inf"]
"""What JSON has no number for."""
MAX_PAST_STEPS = 200


class PastStep(FramePart, array_like=True, frozen=True):
    """A step that stood in the file before the agent came."""

    step: Real
    at: Moment | None = None
    """The line's own time (node's clock), where it has one."""
    loss: Real | Odd | None = None
    grad_norm: Real | Odd | None = None
    tokens_per_s: Real | Odd | None = None
    samples_per_s: Real | Odd | None = None
    step_time_s: Real | Odd | None = None
    offset: Count | None = None
    """Of its first line in the file (bytes)."""


class Progress(Frame, tag="progress", frozen=True, kw_only=True):
    """The newest values that one writer of one file has written since its last such frame.

    At most one a tick, file and writer; what lies between two of them is seen by their steps and times.
    """

    file: Name
    offset: Count
    """Of the first byte of the newest line."""
    at: Moment
    """When: that line's own time, else when it was first seen, of a backlog when the file was last written
    (node's clock)."""
    timed: bool = False
    """Whether `at` is the line's own time. False, and `backlog` set: it only bounds the time from above."""
    backlog: bool = False
    """It was there before the agent came."""
    dialect: Name
    """The id of the dialect that the newest line with a step is of."""
    per_epoch: bool = False
    """Steps begin anew with every epoch."""
    fields: Table[Real | Odd] = {}
    """step, total_steps, epoch, loss, lr, grad_norm, loss_scale, skipped, step_time_s, samples_per_s,
    tokens_per_s, tflops, mfu (0 to 1), mem_gib, eta_s; of inference servers requests_running,
    requests_waiting, cache_share (0 to 1): those that were written."""
    phases_s: Table[Real] = {}
    """Seconds of each timer (forward, backward, allreduce, ...)."""
    past: Annotated[list[PastStep], msgspec.Meta(max_length=MAX_PAST_STEPS)] = []
    """Reported once, when what was there before the agent came has been read, by a frame that reports
    nothing else: its steps in the order of the file, thinned evenly."""
    rank: Rank | None = None
    """The rank that logs: with most frameworks only one does, rank 0 or the last."""
    rank_from: RankSource | None = None
    local_rank: Rank | None = None
    index: Rank | None = None
    """A number that may be the rank, where nothing else is: as `Finding.index`."""
    index_of: Name | None = None
    job: Name | None = None
    host: Name | None = None
    """The host that the line's prefix names, where one file holds several."""
    pid: Whole | None = None
