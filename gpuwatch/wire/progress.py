"""The progress of a training run, read from a log."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from gpuwatch.wire.base import Frame, FramePart
from gpuwatch.wire.limits import Count, Moment, Name, Rank, Real, Table, Whole
from gpuwatch.wire.logs import RankSource

Odd: TypeAlias = Literal["nan", "inf", "-inf"]
"""Values that JSON has no number for."""
MAX_PAST_STEPS = 200
MAX_PAST_TIMERS = 64
MAX_LATENCIES = 512


class PastStep(FramePart, array_like=True, frozen=True):
    """A training step that was logged before the agent started."""

    step: Real
    at: Moment | None = None
    """The line's own time (node's clock), if it has one."""
    loss: Real | Odd | None = None
    grad_norm: Real | Odd | None = None
    tokens_per_s: Real | Odd | None = None
    samples_per_s: Real | Odd | None = None
    step_time_s: Real | Odd | None = None
    offset: Count | None = None
    """Offset of its first line in the file (bytes)."""


class PastTimers(FramePart, array_like=True, frozen=True):
    """The timers of a line that was logged before the agent started."""

    at: Moment
    """The line's own time (node's clock)."""
    seconds: Table[Real] = {}
    """Timer -> its seconds."""


class Progress(Frame, tag="progress", frozen=True, kw_only=True):
    """The newest training values that one writer logged to one file since its last such frame.

    At most one per tick, file and writer; skipped steps can be inferred from step numbers and times.
    """

    file: Name
    offset: Count
    """Offset of the first byte of the newest line."""
    at: Moment
    """That line's own time, else when it was first seen (node's clock).

    For a backlog: when the file was last written.
    """
    timed: bool = False
    """True if `at` is the line's own time. False with `backlog`: `at` is only an upper bound."""
    backlog: bool = False
    """True if it was written before the agent started."""
    dialect: Name
    """The id of the dialect of the newest line with a step."""
    per_epoch: bool = False
    """True if step numbers restart with every epoch."""
    fields: Table[Real | Odd] = {}
    """The values that were written.

    step, total_steps, epoch, loss, lr, grad_norm, loss_scale, skipped, step_time_s, samples_per_s,
    tokens_per_s, tflops, mfu and mfu_overall (0 to 1), mem_gib, eta_s; for inference servers
    requests_running, requests_waiting, cache_share (0 to 1), and how many requests were logged (requests)
    and failed (requests_failed) since the last such frame.
    """
    latencies_s: Annotated[list[Real], msgspec.Meta(max_length=MAX_LATENCIES)] = []
    """Latencies of these requests (seconds), if their lines state them."""
    phases_s: Table[Real] = {}
    """Seconds of each timer (forward, backward, allreduce, ...)."""
    past: Annotated[list[PastStep], msgspec.Meta(max_length=MAX_PAST_STEPS)] = []
    """Sent once, after the older content has been read, in a frame without other values.

    Its steps in the order of the file, thinned evenly.
    """
    past_timers: Annotated[list[PastTimers], msgspec.Meta(max_length=MAX_PAST_TIMERS)] = []
    """The timers of its newest lines, in such a frame, oldest first."""
    rank: Rank | None = None
    """The rank that logs: in most frameworks only one does, rank 0 or the last."""
    rank_from: RankSource | None = None
    local_rank: Rank | None = None
    index: Rank | None = None
    """A number that may be the rank, if nothing else is known: see `Finding.index`."""
    index_of: Name | None = None
    job: Name | None = None
    host: Name | None = None
    """The host in the line's prefix, if one file has lines of several."""
    pid: Whole | None = None
