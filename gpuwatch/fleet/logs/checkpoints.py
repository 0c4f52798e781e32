"""The newest checkpoints that ranks have reported of, as the agents found the lines and the files."""

from __future__ import annotations

import msgspec

from gpuwatch.agent.logs.checkpoints.checkpoint_lines import checkpoint_of
from gpuwatch.rules.model.checkpoint_lines import BEGUN, SAVED
from gpuwatch.wire import Finding

MAX_CHECKPOINTS = 10_000


class SavedCheckpoint(msgspec.Struct, frozen=True):
    """One line that states that a checkpoint was written, or begun."""

    node: str
    file: str
    """The log."""
    job: str | None
    step: int | None
    path: str | None
    """Where it lies, as the line names it."""
    at: float
    """When (unix seconds, node's clock)."""
    timed: bool
    done: bool
    """False: it was begun."""
    complete: bool | None = None
    """By the files there; None: they were not seen, or do not report."""
    files: int | None = None
    size: int | None = None
    """Bytes of them."""
    good: str | None = None
    """Of one that is not complete the newest older one that may be, and when that was written."""
    good_at: float | None = None


class FleetCheckpoints:
    """By node, log and rank the newest line of each kind. `version` moves with each."""

    def __init__(self) -> None:
        self.newest: dict[tuple[str, str, int | None, bool], SavedCheckpoint] = {}
        self.version = 0

    def take(self, node: str, finding: Finding, job: str | None) -> None:
        """Take in what a line reported; another finding than of a checkpoint is a mistake of the caller."""
        line = finding.lines[finding.key] if finding.key < len(finding.lines) else ""
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
        )
        while len(self.newest) > MAX_CHECKPOINTS:
            del self.newest[next(iter(self.newest))]
        self.version += 1


def names_checkpoint(finding: Finding) -> bool:
    """Whether a finding is such a line, and no failure."""
    return finding.rule in (SAVED, BEGUN)
