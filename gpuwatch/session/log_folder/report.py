"""Messages of the judging process: what is known of a log folder at one time.

They have the files, nodes, ranks, and the judgement so far.
"""

from __future__ import annotations

from msgspec import Struct, field

from gpuwatch.diagnose.past_jobs.judgement import Judgement
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.runs.files.files import Skipped
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.wire import AnyFrame, Logs, Ranks

UNNAMED_NODE = "unknown node"
"""Node name for files and ranks whose node is unknown."""


class ReadSoFar(Struct, frozen=True):
    """A message of the judging process: how much of the files is read and judged."""

    bytes: int
    files: int


class FolderReport(Struct, frozen=True):
    """All that the judging process knows; each report replaces the previous one."""

    files: tuple[LogPath, ...]
    skipped: tuple[Skipped, ...]
    nodes: dict[str, list[AnyFrame]]
    """Node -> its frames, as an agent would send them."""
    writers: tuple[RankProgress, ...] = ()
    """Logged training steps and metrics by rank; times are unix seconds."""
    judgement: Judgement = field(default_factory=Judgement)
    ended_at: float = 0.0
    """The last time in a line, else the last change of a file (unix seconds)."""
    judged: bool = False
    """True if `judgement` is set, for all files or those read so far."""
    whole: bool = False
    """True if all files are read and judged."""
    trouble: str = ""
    """Why the files cannot be judged."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks that have a process in the frames, sorted."""
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
        """Total size of the files."""
        return sum(log.size for log in self.files)
