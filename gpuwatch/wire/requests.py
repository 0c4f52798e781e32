"""Requests to an agent, one JSON object per line on the agent's stdin."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Request(msgspec.Struct, tag_field="do", omit_defaults=True, frozen=True, kw_only=True):
    """A request to an agent, one JSON object on a line of the agent's stdin."""

    id: int


class Ping(Request, tag="ping", frozen=True):
    """Heartbeat that also compares clocks: the agent answers at once with an empty reply."""


class SetInterval(Request, tag="interval", frozen=True):
    """Asks the agent to change its tick interval to `seconds`."""

    seconds: float


class Tail(Request, tag="tail", frozen=True):
    """Asks the agent for the last lines of a file and then for every new one, in `Lines` frames with this id.

    It ends with `Cancel`.
    """

    file: str
    lines: int = 200
    """Number of existing lines."""
    offset: int | None = None
    """Instead of `lines`: everything from this byte on (a tail that continues after a lost link)."""


class ReadLines(Request, tag="read", frozen=True):
    """Asks for lines around a position in a file, in `Lines` frames with this id; the last one is `done`."""

    file: str
    offset: int | None = None
    """A byte offset; the line that contains it is the first of `after`. None: the end, or `time`."""
    time: float | None = None
    """Go to the first line of this time (unix seconds of the node's clock), by the lines' own times."""
    before: int = 0
    after: int = 0
    bare: bool = False
    """True if rows of `after` need only offsets and text, without times, ranks and levels."""


class Search(Request, tag="search", frozen=True):
    """Asks for the lines of files that match a pattern, in `Lines` frames with this id; the last is `done`.

    Files are searched one after another.
    """

    pattern: str
    """A Python regular expression."""
    ignore_case: bool = False
    files: list[str] = []
    """Empty: every followed file."""
    limit: int = 2000
    """Maximum number of lines."""


class Cancel(Request, tag="cancel", frozen=True):
    """Asks the agent to end a tail, read or search; it sends the last `Lines` frame at once."""

    of: int


class LeaveFiles(Request, tag="leave", frozen=True):
    """Asks the agent not to follow these files, as another node's agent does. Replaces the previous list."""

    files: list[str]


class SearchFolders(Request, tag="folders", frozen=True):
    """Asks the agent to search these of `Logs.shared` for logs of ended jobs; other nodes search the rest."""

    folders: list[str]


class AskRankSettings(Request, tag="particulars", frozen=True):
    """Asks for the settings of a node's ranks; the reply, after some seconds, has `wire.NodeSettings`."""

    reach: list[str] = []
    """`host:port` of rendezvous addresses to connect to."""
    ports: list[int] = []
    """Ports to check for a listener."""
    pids: list[int] = []
    """The ranks' processes, as in `ranks` frames; empty: the agent looks for them itself."""


class AskSystemSettings(Request, tag="system", frozen=True):
    """Asks for the machine settings that nodes should share; the reply has `wire.SystemSettings` as data."""


class AskStacks(Request, tag="stacks", frozen=True):
    """Asks for the stacks of these processes; the reply, after some seconds, has `wire.Stacks` as data."""

    pids: list[int]
    """At most 64 are inspected."""
    py_spy: str | None = ""
    """Its path on the node; "": search for it; None: do not use it."""
    seconds: float | None = None
    """For all runs of py-spy together; None, or more than the agent's own limit: that limit."""
    sockets: bool = True
    """True to also query the ranks on their own debug sockets, if their job has them."""


class AskProfile(Request, tag="profile", frozen=True):
    """Asks the agent to sample stacks of processes for some seconds; the reply's data is `wire.Profiles`."""

    pids: list[int]
    """At most 8, sampled at the same time."""
    seconds: int = 10
    """At most 60."""
    rate: int = 100
    """Samples per second, at most 500."""
    blocking: bool = False
    """True to stop the process for each sample."""
    py_spy: str = ""
    """Its path on the node; "": search for it."""


class AskKernels(Request, tag="kernels", frozen=True):
    """Asks the agent to have processes record their GPU kernels; the reply has `wire.Kernels` as data.

    Only processes that were started with KINETO_USE_DAEMON=1 can. Each writes a trace into /dev/shm of the
    node; the agent reads and deletes it.
    """

    pids: list[int]
    """At most 8."""
    seconds: int = 3
    """At most 10."""


class UploadPySpy(Request, tag="lend", frozen=True):
    """Transfers a piece of py-spy into the agent's memory; the reply has `wire.UploadResult` as data."""

    piece: str
    """A piece of the zlib-compressed program, in base64."""
    offset: int
    """Offset of the piece, in compressed bytes; 0 starts again."""
    size: int
    """Compressed bytes of the whole."""
    digest: str
    """SHA-256 of the program, in hex."""


class AskRas(Request, tag="ras", frozen=True):
    """Asks for the reports of NCCL's RAS; the reply, after some seconds, has `wire.RasAnswers` as data."""

    pids: list[int]
    """Processes of the job: their environment may contain an address other than localhost:28028."""
    timeout_s: float = 10.0


class AskDumps(Request, tag="dumps", frozen=True):
    """Asks these processes to write flight-recorder dumps; the reply has `wire.DumpResults` as data.

    It works only for a job that was started with TORCH_NCCL_DEBUG_INFO_PIPE_FILE; the dumps are files of the
    job.
    """

    pids: list[int]


class AskDumpFiles(Request, tag="dump_files", frozen=True):
    """Asks for a list of the existing dumps; the reply has `wire.DumpPlaces` as data. Nothing is written."""

    pids: list[int]


class AskDumpPiece(Request, tag="dump_piece", frozen=True):
    """Asks for a piece of a dump; the reply has `wire.DumpPiece` as data. A node answers one at a time."""

    pid: int
    """The process through whose environment it was found."""
    prefix: str
    name: str
    """The name in `wire.DumpFile`."""
    offset: int


class AskJobFiles(Request, tag="job_files", frozen=True):
    """Asks for a list of files in the folders of a job's logs; the reply has `wire.JobFolders` as data."""

    logs: list[str]
    """Paths of log files; the agent derives the folders from them."""
    wanted: str
    """A regular expression, without regard to case, for the path below the folder."""


class AskJobPiece(Request, tag="job_piece", frozen=True):
    """Asks for a piece of a file that `AskJobFiles` listed; the reply has `wire.DumpPiece` as data.

    A node answers one at a time.
    """

    log: str
    name: str
    """The name in `wire.JobFile`."""
    offset: int


LongRequest: TypeAlias = (
    AskRankSettings
    | AskSystemSettings
    | AskStacks
    | AskProfile
    | AskKernels
    | UploadPySpy
    | AskRas
    | AskDumps
    | AskDumpFiles
    | AskDumpPiece
    | AskJobFiles
    | AskJobPiece
)
"""Requests that a node may take long to answer, in one reply."""
AnyRequest: TypeAlias = (
    Ping | SetInterval | Tail | ReadLines | Search | Cancel | LeaveFiles | SearchFolders | LongRequest
)
