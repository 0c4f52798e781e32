"""The last checkpoint of a job, and how much work a restart from it repeats. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from gpuwatch.agent.logs.checkpoints.checkpoint_lines import checkpoint_of
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.checkpoints import SavedCheckpoint
from gpuwatch.number_text import duration


class Checkpoint(msgspec.Struct, frozen=True):
    """The last reported checkpoint of a job: step, time, path, completeness, and the job's last step."""

    step: int | None
    at: float | None
    """When the checkpoint was written (unix seconds on our clock); None: no nearby line has a time."""
    path: str | None = None
    complete: bool | None = None
    """True if all files exist, none grows, and the size matches the previous one; None: unknown."""
    files: int | None = None
    size: int | None = None
    """Bytes."""
    unfinished_step: int | None = None
    """Step of a later checkpoint that was begun but not reported as finished, or has incomplete files."""
    last_step: int | None = None
    """The highest step of the job."""
    last_at: float | None = None
    """When the last step was logged, or when the job failed (unix seconds on our clock)."""
    read_pct: float | None = None
    """Share of the job's logs that is read (percent); None: all.

    Unread lines may report a later checkpoint.
    """

    @property
    def steps_lost(self) -> int | None:
        """Return the steps that a restart repeats; None: unknown."""
        if self.step is None or self.last_step is None or self.read_pct is not None:
            return None
        return max(0, self.last_step - self.step)

    @property
    def seconds_lost(self) -> float | None:
        """Return the seconds of work that a restart repeats; None: unknown."""
        if self.at is None or self.last_at is None or self.read_pct is not None:
            return None
        return max(0.0, self.last_at - self.at)

    @property
    def text(self) -> str:
        """Return `last checkpoint step 41,000, 13m before; 344 steps lost (/ckpt/step_41000, complete)`."""
        step = "of an unknown step" if self.step is None else f"step {self.step:,}"
        before = "" if self.seconds_lost is None else f", {duration(self.seconds_lost)} before"
        lost = "" if self.steps_lost is None else f"; {self.steps_lost:,} steps lost"
        whole = {True: "complete", False: "NOT complete", None: self._why_unknown}[self.complete]
        where = ", ".join(part for part in (self.path or "", whole) if part)
        later = (
            "" if self.unfinished_step is None else f"; one of step {self.unfinished_step:,} is not complete"
        )
        if self.read_pct is not None:
            where = f" ({self.path})" if self.path else ""
            read = f"its log is read to {self.read_pct:.0f} %"
            return f"last checkpoint not known yet: {read}, so far {step}{where}"
        return f"last checkpoint {step}{before}{lost}" + (f" ({where})" if where else "") + later

    @property
    def _why_unknown(self) -> str:
        return "files not looked at" if self.files is None else "completeness unknown"


def last_checkpoint(saved: Iterable[SavedCheckpoint]) -> Checkpoint | None:
    """Return the last finished checkpoint that the ranks of a job reported; None: no line reports one.

    If its files are incomplete, return the newest older checkpoint beside it that may be complete, if there
    is one.
    """
    reported = list(saved)
    done = [each for each in reported if each.done and not _is_awaited(each, reported)]
    if not done:
        return None
    newest = max(done, key=lambda each: (each.step is not None, each.step or 0, each.at))
    if newest.complete is False and newest.good is not None:
        step, path = checkpoint_of(newest.good)
        own, _ = checkpoint_of(f"/{newest.good.rpartition('/')[2]}")  # a folder above may have a number, too
        return Checkpoint(own or step, newest.good_at, path, unfinished_step=newest.step)
    begun = [each.step for each in reported if not each.done and each.step is not None]
    later = max((step for step in begun if step > (newest.step or 0)), default=None)
    return Checkpoint(
        newest.step,
        newest.at if newest.timed else None,
        newest.path,
        _complete([each.complete for each in done if each.step == newest.step]),
        newest.files,
        newest.size,
        later if newest.step is not None else None,
    )


def _is_awaited(saved: SavedCheckpoint, reported: Iterable[SavedCheckpoint]) -> bool:
    """Return True if another rank has begun a checkpoint of this step and not reported its end.

    Files that are known to be complete outweigh that.
    """
    if saved.complete is True or saved.step is None:
        return False
    ended = {
        (each.node, each.file, each.rank) for each in reported if each.done and (each.step or 0) >= saved.step
    }
    return any(
        not each.done and each.step == saved.step and (each.node, each.file, each.rank) not in ended
        for each in reported
    )


def checkpoints(fleet: Fleet, now: float, wall: float) -> dict[str | None, Checkpoint]:
    """Return job -> its last checkpoint, with the highest step of its ranks; jobs without one are left out.

    Args:
        fleet: All that is known now.
        now: Monotonic seconds, the clock of the fleet's steps.
        wall: Unix seconds at the same moment.
    """
    by_job: dict[str | None, list[SavedCheckpoint]] = {}
    for each in fleet.checkpoints.newest.values():
        job = fleet.jobs.of_line(each.node, each.file, each.job)
        offset_s = fleet.nodes[each.node].offset_s
        at = each.at - offset_s
        step = each.step if each.step is not None else _step_at(fleet, each, at - (wall - now))
        by_job.setdefault(job, []).append(
            msgspec.structs.replace(each, at=at, step=step, good_at=_shifted(each, offset_s))
        )
    unread = {
        (node.name, file.path): file.backlog_pct
        for node in fleet.nodes.values()
        for file in node.logs
        if file.backlog_pct is not None
    }
    found: dict[str | None, Checkpoint] = {}
    for job, reported in by_job.items():
        last = last_checkpoint(reported)
        if last is not None:
            files = {(each.node, each.file) for each in reported}
            furthest, when = _furthest(fleet, job, files, wall - now)
            read_pct = min((pct for key in files if (pct := unread.get(key)) is not None), default=None)
            found[job] = msgspec.structs.replace(last, last_step=furthest, last_at=when, read_pct=read_pct)
    return found


def of_lines(lines: Iterable[tuple[str, bool, float, bool]]) -> Checkpoint | None:
    """Return the last checkpoint of a job that ended; None: no line reports one.

    Args:
        lines: (line, whether it reports the checkpoint as finished (else as begun), when (unix seconds),
            whether that is the line's own time).
    """
    reported = []
    for text, done, at, timed in lines:
        step, path = checkpoint_of(text)
        reported.append(SavedCheckpoint("", "", None, step, path, at, timed, done))
    return last_checkpoint(reported)


def _shifted(saved: SavedCheckpoint, offset_s: float) -> float | None:
    return None if saved.good_at is None else saved.good_at - offset_s


def _complete(reported: list[bool | None]) -> bool | None:
    known = [each for each in reported if each is not None]
    return all(known) if known else None


def _step_at(fleet: Fleet, saved: SavedCheckpoint, at: float) -> int | None:
    """Return the highest step that the log of a checkpoint reported before the checkpoint; None: unknown.

    `at`: time of the checkpoint, monotonic seconds.
    """
    steps = [
        step.step
        for writer in fleet.progress.writers.values()
        if (writer.node, writer.file) == (saved.node, saved.file) and not writer.per_epoch
        for step in writer.curve()
        if math.isfinite(step.at) and step.at <= at
    ]
    return max(steps, default=None) if saved.timed else None


def _furthest(
    fleet: Fleet, job: str | None, files: set[tuple[str, str]], offset_s: float
) -> tuple[int | None, float | None]:
    """Return the highest step of a job, and when it was logged (unix seconds on our clock).

    None: unknown. `offset_s`: unix seconds minus the clock of the steps.
    """
    steps = [
        (step.step, step.at)
        for writer in fleet.progress.writers.values()
        if not writer.per_epoch
        and ((writer.node, writer.file) in files or (job is not None and writer.job == job))
        for step in writer.curve()[-1:]
    ]
    if not steps:
        return None, None
    step, at = max(steps)
    return step, at + offset_s if math.isfinite(at) else None
