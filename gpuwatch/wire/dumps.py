"""Flight-recorder dumps and other files of a job on a node: requesting, listing and transferring them."""

from __future__ import annotations

from gpuwatch.wire.base import FramePart
from gpuwatch.wire.limits import Count, Few, Many, Moment, Name, Rank, Real, Text, Whole


class DumpResult(FramePart, frozen=True):
    """The result of asking one process for its flight-recorder dump: the file that it writes, or an error."""

    pid: Whole
    pipe: Name | None = None
    dump: Name | None = None
    """Where the dump is written, by the process's environment."""
    error: Text | None = None
    """Why it was not requested."""


class DumpResults(FramePart, frozen=True):
    """The answer to `AskDumps`: one result per process."""

    processes: Many[DumpResult] = []


class DumpFile(FramePart, frozen=True):
    """A flight-recorder dump that exists on the node."""

    name: Name
    """The name after the prefix: `3`, `3.json`."""
    rank: Rank
    size_bytes: Whole
    age_s: Real
    """Seconds on the node's clock, when it was listed."""
    mtime: Moment


class DumpPlace(FramePart, frozen=True):
    """A path prefix to which processes write dumps; on a shared file system also those of other nodes."""

    prefix: Name
    pids: Many[Whole] = []
    named: bool = False
    """True if the job sets it; else it is torch's default."""
    files: Many[DumpFile] = []
    """Written since the first of these processes was started."""
    left_out: Whole = 0
    """Number of further files."""
    older: Whole = 0
    """Number of older dumps, which belong to another run."""
    older_age_s: Real | None = None
    """Age of the youngest of those."""
    foreign: Whole = 0
    """Files with such a name that do not belong to the job's user, or are no regular files."""
    error: Text | None = None


class DumpPipe(FramePart, frozen=True):
    """A process whose job set TORCH_NCCL_DEBUG_INFO_PIPE_FILE, so that it can be asked for a dump."""

    pid: Whole
    there: bool = False
    """True if the pipe exists at its path."""


class DumpPlaces(FramePart, frozen=True):
    """The answer to `AskDumpFiles`: the dumps of the requested processes, by place."""

    places: Many[DumpPlace] = []
    pipes: Many[DumpPipe] = []
    unread: Many[Whole] = []
    """Processes whose environment may not be read, or that are gone."""


class DumpPiece(FramePart, frozen=True):
    """The answer to `AskDumpPiece` and `AskJobPiece`: a part of a dump, or of another file of the job."""

    packed: str
    """gzip, then base64."""
    bytes: Whole
    """Bytes of the file in this piece; 0: the end was reached."""
    size_bytes: Whole
    """The current size of the whole file."""
    mtime: Moment


class JobFile(FramePart, frozen=True):
    """A file in the folder of a job."""

    name: Name
    """Path below the folder."""
    size_bytes: Count
    mtime: Moment


class JobFolder(FramePart, frozen=True):
    """The folder of one of a job's logs, with the files in it that match the request."""

    log: Name
    folder: Name
    files: Many[JobFile] = []
    cut: bool = False
    """True if a limit ended the listing early."""


class RefusedFolder(FramePart, frozen=True):
    """A log whose folder is not listed, and why."""

    log: Name
    why: Text


class JobFolders(FramePart, frozen=True):
    """The answer to `AskJobFiles`: the folders of the logs with their files, and the refused logs."""

    folders: Few[JobFolder] = []
    refused: Few[RefusedFolder] = []
