"""The dumps of flight recorders, as they lie on a node."""

from __future__ import annotations

from gpuwatch.wire.part import Part


class Dump(Part, frozen=True):
    """What became of asking one process for its flight recorder's dump."""

    pid: int
    pipe: str | None = None
    dump: str | None = None
    """Where it goes, as far as its environment says."""
    error: str | None = None
    """Why it was not asked."""


class Dumps(Part, frozen=True):
    """One for each process."""

    processes: list[Dump] = []


class DumpFile(Part, frozen=True):
    """A dump that is there."""

    name: str
    """What stands behind the prefix: `3`, `3.json`."""
    rank: int
    size_bytes: int
    age_s: float
    """On the node's clock, when it was listed."""
    mtime: float


class DumpPlace(Part, frozen=True):
    """Where processes put their dumps; on a shared file system those of other nodes lie there too."""

    prefix: str
    pids: list[int] = []
    named: bool = False
    """The job says so; else it is where torch puts them by itself."""
    files: list[DumpFile] = []
    """Written since the first of these processes was started."""
    left_out: int = 0
    """How many more there are."""
    older: int = 0
    """Dumps from before; they are of another run."""
    older_age_s: float | None = None
    """Of the youngest of those."""
    foreign: int = 0
    """Files with such a name that are not the job's user's, or no regular files."""
    error: str | None = None


class DumpPipe(Part, frozen=True):
    """A process whose job set TORCH_NCCL_DEBUG_INFO_PIPE_FILE."""

    pid: int
    there: bool = False
    """The pipe lies where it should."""


class DumpPlaces(Part, frozen=True):
    """All places of the processes that were asked for."""

    places: list[DumpPlace] = []
    pipes: list[DumpPipe] = []
    unread: list[int] = []
    """Processes whose environment may not be read, or that are gone."""


class DumpPiece(Part, frozen=True):
    """A part of a dump."""

    packed: str
    """gzip, then base64."""
    bytes: int
    """Of the file; 0: it has no more."""
    size_bytes: int
    """Of all of it, now."""
    mtime: float
