"""A file whose parts are being read, and its owner by its path."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuwatch.agent.ranks.path_ranks import ranks_of_path
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.runs.placement.file_nodes import FileOwner
from gpuwatch.runs.placement.owners import path_places
from gpuwatch.runs.scan.file_parts import FilePart
from gpuwatch.runs.scan.reading import PartRead


@dataclass
class ScanFile:
    """A file whose parts are being read."""

    log: LogPath
    left: int = 0
    reads: dict[int, PartRead] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, log: LogPath) -> ScanFile:
        """Return the file of which nothing is read yet."""
        return cls(log, troubles=[] if log.fault is None else [log.fault])

    def take(self, part: FilePart, read: PartRead | None, fault: str | None) -> bool:
        """Add the result of a part, or why it failed; return True if it was the last one."""
        self.left -= 1
        if read is not None:
            self.reads[part.start] = read
        trouble = fault if read is None else read.trouble
        self.add(trouble)
        return self.left == 0

    def add(self, fault: str | None) -> None:
        """Add a fault over the file, if there is one, to why it was not read completely."""
        if fault is not None:
            self.troubles.append(fault)

    @property
    def trouble(self) -> str | None:
        """Why the file was not read completely; None: it was."""
        stopped = ["not read: the scan was stopped first"] if self.left else []
        return "; ".join(dict.fromkeys([*self.troubles, *stopped])) or None

    def in_order(self) -> list[PartRead]:
        """Return the results of the parts in file order."""
        return [self.reads[start] for start in sorted(self.reads)]


def owner_of(log: LogPath) -> FileOwner:
    """Return the owner of a file by its path, with the folder that all ranks of one launcher share."""
    rank, local_rank = ranks_of_path(f"/{log.inner}")
    group = log.name.rpartition("/attempt_")[0] or log.name.rpartition("/")[0]
    return FileOwner(log.name, rank, local_rank, path_places(log.inner).hosts, group)
