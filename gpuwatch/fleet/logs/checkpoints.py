"""The newest checkpoints that ranks reported, from log lines and from the files on disk."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gpuwatch.agent.logs.checkpoints.checkpoint_lines import BEGUN, SAVED, checkpoint_of
from gpuwatch.wire import Finding, LogFile

MAX_CHECKPOINTS = 10_000


class SavedCheckpoint(msgspec.Struct, frozen=True):
    """A log line that reports a checkpoint as written or begun, with the state of its files on disk."""

    node: str
    file: str
    """The log file."""
    job: str | None
    step: int | None
    path: str | None
    """The checkpoint's path, as the line states it."""
    at: float
    """When the line was logged (unix seconds on the node's clock)."""
    timed: bool
    done: bool
    """True if the save finished; False: it was begun only."""
    complete: bool | None = None
    """True if the checkpoint's files are complete; None: unknown."""
    files: int | None = None
    size: int | None = None
    """Size of the checkpoint's files in bytes."""
    good: str | None = None
    """If this checkpoint is incomplete: the newest older one that may be complete, and its time."""
    good_at: float | None = None
    rank: int | None = None


class FleetCheckpoints:
    """The newest checkpoint line of each kind, by node, log and rank.

    `version` increases with each line, and when more of a log with such a line has been read.
    """

    def __init__(self) -> None:
        self.newest: dict[tuple[str, str, int | None, bool], SavedCheckpoint] = {}
        self.version = 0

    def take(self, node: str, finding: Finding, job: str | None) -> None:
        """Store the checkpoint that a finding reports, which must be one of `names_checkpoint`."""
        line = finding.key_line
        step, path = checkpoint_of(line)
        done = finding.rule == SAVED
        reported = finding.fields
        complete, files, size = reported.get("complete"), reported.get("files"), reported.get("bytes")
        good, good_at = reported.get("good"), reported.get("good_at")
        self.newest[node, finding.file, finding.rank, done] = SavedCheckpoint(
            node,
            finding.file,
            job,
            step,
            path,
            finding.at,
            finding.timed or not finding.backlog,
            done,
            bool(complete) if isinstance(complete, int) else None,
            files if isinstance(files, int) else None,
            size if isinstance(size, int) else None,
            good if isinstance(good, str) else None,
            float(good_at) if isinstance(good_at, int | float) else None,
            finding.rank,
        )
        while len(self.newest) > MAX_CHECKPOINTS:
            del self.newest[next(iter(self.newest))]
        self.version += 1

    def take_files(self, node: str, before: Iterable[LogFile], files: Iterable[LogFile]) -> None:
        """Increase `version` if more of a log with a checkpoint line is read than `before`."""
        unread, now = (
            {each.path: each.backlog_pct for each in some if each.backlog_pct is not None}
            for some in (before, files)
        )
        if unread != now:
            logs = {file for where, file, _, _ in self.newest if where == node}
            self.version += any(unread.get(path) != now.get(path) for path in logs)


def names_checkpoint(finding: Finding) -> bool:
    """Return True if a finding reports a written or begun checkpoint, and no failure."""
    return finding.rule in (SAVED, BEGUN)
