"""The dumps of flight recorders, as they lie on a node."""

from __future__ import annotations

from gpuwatch.wire.base import FramePart
from gpuwatch.wire.limits import Many, Moment, Name, Rank, Real, Text, Whole


class DumpResult(FramePart, frozen=True):
    """What became of asking one process for its flight recorder's dump."""

    pid: Whole
    pipe: Name | None = None
    dump: Name | None = None
    """Where it goes, as far as its environment states."""
    error: Text | None = None
    """Why it was not asked."""


class DumpResults(FramePart, frozen=True):
    """One for each process."""

    processes: Many[DumpResult] = []


class DumpFile(FramePart, frozen=True):
    """A dump that is there."""

    name: Name
    """What stands behind the prefix: `3`, `3.json`."""
    rank: Rank
    size_bytes: Whole
    age_s: Real
    """On the node's clock, when it was listed."""
    mtime: Moment


class DumpPlace(FramePart, frozen=True):
    """Where processes put their dumps; on a shared file system those of other nodes lie there too."""

    prefix: Name
    pids: Many[Whole] = []
    named: bool = False
    """The job states it; else it is where torch puts them by itself."""
    files: Many[DumpFile] = []
    """Written since the first of these processes was started."""
    left_out: Whole = 0
    """How many more there are."""
    older: Whole = 0
    """Dumps from before; they are of another run."""
    older_age_s: Real | None = None
    """Of the youngest of those."""
    foreign: Whole = 0
    """Files with such a name that are not the job's user's, or no regular files."""
    error: Text | None = None


class DumpPipe(FramePart, frozen=True):
    """A process whose job set TORCH_NCCL_DEBUG_INFO_PIPE_FILE."""

    pid: Whole
    there: bool = False
    """The pipe lies where it should."""


class DumpPlaces(FramePart, frozen=True):
    """All places of the processes that were asked for."""

    places: Many[DumpPlace] = []
    pipes: Many[DumpPipe] = []
    unread: Many[Whole] = []
    """Processes whose environment may not be read, or that are gone."""


class DumpPiece(FramePart, frozen=True):
    """A part of a dump."""

    packed: str
    """gzip, then base64."""
    bytes: Whole
    """Of the file; 0: it has no more."""
    size_bytes: Whole
    """Of all of it, now."""
    mtime: Moment
