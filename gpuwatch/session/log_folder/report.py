"""What is known of a folder of logs at one moment: its files, nodes and ranks, and the judgement so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuwatch.diagnose.past_jobs.judgement import Judgement
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.runs.files.files import Skipped
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.wire import AnyFrame, Logs, Ranks

UNNAMED_NODE = "unknown node"
"""Where files and ranks are listed of which no line and no path names the node."""


@dataclass(frozen=True)
class ReadSoFar:
    """How far the files are read."""

    bytes: int
    files: int


@dataclass(frozen=True)
class FolderReport:
    """Replaces the report before it."""

    files: tuple[LogPath, ...]
    skipped: tuple[Skipped, ...]
    nodes: dict[str, list[AnyFrame]]
    """Node -> its frames, as an agent would send them."""
    writers: tuple[RankProgress, ...] = ()
    """What ranks report of the training; times are unix seconds."""
    judgement: Judgement = field(default_factory=Judgement)
    ended_at: float = 0.0
    """The last time that a line carries, else when the last file was written (unix seconds)."""
    judged: bool = False
    """Whether `judgement` is one at all, of all files or of those that are read."""
    whole: bool = False
    """Whether all files are read and judged."""
    trouble: str = ""
    """Why the files cannot be judged."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """All that the logs name."""
        listed = (each for frames in self.nodes.values() for each in frames if isinstance(each, Ranks))
        return tuple(sorted({each.rank for one in listed for each in one.processes if each.rank is not None}))

    @property
    def log_files(self) -> tuple[tuple[str, str], ...]:
        """(node, name) of every file."""
        return tuple(
            (node, file.path)
            for node, frames in self.nodes.items()
            for each in frames
            if isinstance(each, Logs)
            for file in each.files
        )

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(log.size for log in self.files)
