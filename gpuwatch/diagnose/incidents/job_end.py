"""How a job ended, by the steps that its ranks logged: finished, running, stopped early, or unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from gpuwatch.diagnose.alert import Alert, Proof
from gpuwatch.diagnose.hang.watch import CODE as HANG
from gpuwatch.diagnose.incidents.outcome import FINISHED, StepTrack, reached
from gpuwatch.diagnose.wording import ranks_text

State: TypeAlias = Literal["finished", "running", "stopped", "unknown"]

RUN_STEPS, RUN_BYTES = 100, 16 << 10
"""So many logged steps, or steps over so much of a file, are a run; less may be a pasted excerpt."""
RANK_STEPS = 20
"""The same of each of several ranks with files of their own."""
PEERS, BEHIND_STEPS = 3, 2
"""A rank that ended so many logged steps before at least so many others, all at the same step, is behind."""
FEW = 0.125
"""More ranks than this share (or than one) do not count as behind: they log at other moments."""


@dataclass(frozen=True)
class RankEnd:
    """The last step that a rank logged."""

    rank: int
    step: int
    at: float | None
    """Unix seconds; None: undated."""


@dataclass(frozen=True)
class JobEnd:
    """The outcome of what a scan was given."""

    state: State
    step: int | None = None
    """The furthest step."""
    total_steps: int | None = None
    ranks: tuple[RankEnd, ...] = ()
    """Of all ranks that log steps of their own."""
    behind: tuple[int, ...] = ()
    """Ranks that ended before all others."""

    @property
    def text(self) -> str:
        """`stopped at step 41,342 of 100,000: rank 5 first, the others at 41,344`."""
        total = "" if self.total_steps is None else f" of {self.total_steps:,}"
        if self.state == "finished":
            return "finished" if self.step is None else f"finished at step {self.step:,}{total}"
        if self.state == "running":
            return "still written" if self.step is None else f"still written, at step {self.step:,}{total}"
        if self.state == "unknown" or self.step is None:
            return "how it ended is not logged"
        if not self.behind:
            return f"stopped at step {self.step:,}{total}"
        first = min(each.step for each in self.ranks if each.rank in self.behind)
        return (
            f"stopped at step {first:,}{total}: {ranks_text(self.behind)} first, the others at {self.step:,}"
        )


def job_end(tracks: Sequence[StepTrack], alerts: Iterable[Alert], *, growing: bool) -> JobEnd:
    """How a job ended.

    Args:
        tracks: The steps of its ranks.
        alerts: Findings, `FINISHED` among them.
        growing: Whether its files are written now.
    """
    main = main_tracks(tracks)
    furthest = max((track.marks[-1].step for track in main), default=None)
    total = max((track.total_steps for track in main if track.total_steps is not None), default=None)
    ranks = rank_ends(main)
    behind = ranks_behind(main, ranks)
    ends = [alert for alert in alerts if alert.code == FINISHED]
    complete = furthest is not None and reached(furthest, total)
    stopped = furthest is not None and bool(behind or (total is not None and is_run(main)))
    state: State = "unknown"
    if growing:
        state = "running"
    elif complete or any(_is_last(end, main) for end in ends):
        state = "finished"
    elif stopped:
        state = "stopped"
    return JobEnd(state, furthest, total, ranks, behind if state == "stopped" else ())


def main_tracks(tracks: Sequence[StepTrack]) -> list[StepTrack]:
    """The tracks of the training: not the bars of single epochs, nor those of another length."""
    whole = [track for track in tracks if track.marks and not track.per_epoch]
    totals = [track.total_steps for track in whole if track.total_steps is not None]
    if not totals:
        return whole
    total = max(totals, key=lambda each: (totals.count(each), each))
    return [track for track in whole if track.total_steps in (None, total)]


def rank_ends(tracks: Iterable[StepTrack]) -> tuple[RankEnd, ...]:
    """The last step of each rank."""
    found: dict[int, RankEnd] = {}
    for track in tracks:
        mark = track.marks[-1]
        if track.rank is not None and (track.rank not in found or found[track.rank].step < mark.step):
            found[track.rank] = RankEnd(track.rank, mark.step, mark.at)
    return tuple(found[rank] for rank in sorted(found))


def ranks_behind(tracks: Iterable[StepTrack], ranks: Sequence[RankEnd]) -> tuple[int, ...]:
    """The ranks that ended at least `BEHIND_STEPS` logged steps before the others, which ended together."""
    furthest = max((each.step for each in ranks), default=0)
    stride = min((stride_of(track) for track in tracks), default=1)
    behind = [each for each in ranks if furthest - each.step >= BEHIND_STEPS * stride]
    others = [each for each in ranks if each not in behind]
    together = len(others) >= PEERS and all(furthest - each.step < stride for each in others)
    return (
        tuple(each.rank for each in behind)
        if together and len(behind) <= max(1, int(FEW * len(ranks)))
        else ()
    )


def stride_of(track: StepTrack) -> int:
    """How many steps lie between two logged ones, at least."""
    gaps = [later.step - before.step for before, later in pairwise(track.marks) if later.step > before.step]
    return min(gaps, default=1)


def is_run(tracks: Sequence[StepTrack]) -> bool:
    """Whether these are the steps of a run, and not an excerpt of a few lines."""
    of_ranks = {track.rank for track in tracks if len(track.marks) >= RANK_STEPS} - {None}
    return len(of_ranks) > 1 or any(
        len(track.marks) >= RUN_STEPS
        or (track.marks[-1].offset or 0) - (track.marks[0].offset or 0) >= RUN_BYTES
        for track in tracks
    )


def stop_alerts(end: JobEnd, tracks: Iterable[StepTrack], alerts: Iterable[Alert]) -> list[Alert]:
    """The rank that stopped first, as a hang without a line; none where an error tells why."""
    errors = any(alert.severity in ("error", "critical") and alert.role != "hint" for alert in alerts)
    if end.state != "stopped" or len(end.behind) != 1 or errors:
        return []
    (rank,) = end.behind
    track = next(each for each in tracks if each.rank == rank and each.marks[-1].step == _step_of(end, rank))
    mark = track.marks[-1]
    text = f"{end.text}; no line says why"
    settle = f"the last lines of rank {rank}, and its node's kernel log"
    proof = Proof("line", text, mark.at, mark.at is not None, track.node, track.file, mark.offset, (text,))
    return [
        Alert(
            id=f"{HANG}@{track.file}:{rank}", code=HANG, severity="error", title="A rank stopped first",
            text=text,
            proof=(proof,), role="root", node=track.node, rank=rank, job=track.job,
            first=mark.at or 0.0, last=mark.at or 0.0, timed=mark.at is not None,
            fields={"confidence": "medium", "settle": settle},
        )
    ]  # fmt: skip


def _step_of(end: JobEnd, rank: int) -> int:
    return next(each.step for each in end.ranks if each.rank == rank)


def _is_last(end: Alert, tracks: Iterable[StepTrack]) -> bool:
    """Whether no rank steps on below a line about the end in its own file."""
    proof = end.proof[0]
    offset = max(proof.offset or 0, end.last_offset or 0)
    return all(
        track.file != proof.file or (track.marks[-1].offset or 0) <= offset or track.marks[-1].step < 2
        for track in tracks
    )
