"""What the cockpit asks of an agent, one JSON object a line on the agent's stdin."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Request(msgspec.Struct, tag_field="do", omit_defaults=True, frozen=True, kw_only=True):
    """What the cockpit asks of an agent, one JSON object a line on the agent's stdin."""

    id: int


class Ping(Request, tag="ping", frozen=True):
    """Answered at once by an empty reply: the heartbeat, and the clock comparison."""


class SetInterval(Request, tag="interval", frozen=True):
    """Change the tick."""

    seconds: float


class Tail(Request, tag="tail", frozen=True):
    """The last lines of a file and then every new one, in `Lines` frames with this id, until `Cancel`."""

    file: str
    lines: int = 200
    """How many of what is there already."""
    offset: int | None = None
    """Instead of `lines`: everything from this byte on (a tail that goes on after the link was lost)."""


class ReadLines(Request, tag="read", frozen=True):
    """Lines around a place in a file, in `Lines` frames with this id, the last of them `done`."""

    file: str
    offset: int | None = None
    """A byte offset; the line that holds it is the first of `after`. None: the end, or `time`."""
    time: float | None = None
    """Go to the first line that is this old (unix seconds of the node's clock), by the lines' own times."""
    before: int = 0
    after: int = 0
    bare: bool = False
    """Rows of `after` have only offsets and text: neither their times, ranks nor levels are looked for."""


class Search(Request, tag="search", frozen=True):
    """Find a pattern in files, in `Lines` frames with this id, a file at a time, the last of them `done`."""

    pattern: str
    """A regular expression of Python's."""
    ignore_case: bool = False
    files: list[str] = []
    """Empty: every file that is followed."""
    limit: int = 2000
    """Lines in all."""


class Cancel(Request, tag="cancel", frozen=True):
    """Stop a tail, a read or a search; its last `Lines` frame comes at once."""

    of: int


class LeaveFiles(Request, tag="leave", frozen=True):
    """Do not follow these files: another node's agent does. Replaces the list before it."""

    files: list[str]


class SearchFolders(Request, tag="folders", frozen=True):
    """Look through these of `Logs.shared` for the logs of ended jobs; another node looks through the rest."""

    folders: list[str]


class AskRankSettings(Request, tag="particulars", frozen=True):
    """What `wire.NodeSettings` holds, in the data of the reply, which may take some seconds."""

    reach: list[str] = []
    """`host:port` of rendezvous addresses to connect to."""
    ports: list[int] = []
    """Ports that may be listened on here."""
    pids: list[int] = []
    """The ranks' processes, as `ranks` frames report them; empty: the agent looks for them itself."""


class AskSystemSettings(Request, tag="system", frozen=True):
    """Settings of the machine that nodes should share: `wire.SystemSettings` in the data of the reply."""


class AskStacks(Request, tag="stacks", frozen=True):
    """What these processes do now: `wire.Stacks` in the data of the reply, which may take some seconds."""

    pids: list[int]
    """64 at most are looked at."""
    py_spy: str | None = ""
    """Its path on the node; empty: where it is found; None: do without."""
    seconds: float | None = None
    """For all runs of py-spy together; None, or more than the agent's own limit: that limit."""
    sockets: bool = True
    """Also ask the ranks on their own debug sockets, where their job has them."""


class AskProfile(Request, tag="profile", frozen=True):
    """Sample the stacks of these processes for some seconds: `wire.Profiles` in the data of the reply."""

    pids: list[int]
    """8 at most, sampled at the same time."""
    seconds: int = 10
    """60 at most."""
    rate: int = 100
    """Samples a second, 500 at most."""
    blocking: bool = False
    """Stop the process for each sample."""
    py_spy: str = ""
    """Its path on the node; empty: where it is found."""


class LendPySpy(Request, tag="lend", frozen=True):
    """A piece of a py-spy, for the agent's memory: `wire.Lent` in the data of the reply."""

    piece: str
    """Of the program as zlib packs it, in base64."""
    offset: int
    """Of the piece, in packed bytes; 0 begins anew."""
    size: int
    """Packed bytes of the whole."""
    digest: str
    """SHA-256 of the program, in hex."""


class AskRas(Request, tag="ras", frozen=True):
    """What NCCL's RAS states: `wire.RasAnswers` in the data of the reply, which may take some seconds."""

    pids: list[int]
    """Processes of the job: their environment may name another address than localhost:28028."""
    timeout_s: float = 10.0


class AskDumps(Request, tag="dumps", frozen=True):
    """Make these processes write their flight recorders' dumps: `wire.Dumps` in the data of the reply.

    Only where the job was started with TORCH_NCCL_DEBUG_INFO_PIPE_FILE; the dumps are files of the job.
    """

    pids: list[int]


class AskDumpFiles(Request, tag="dump_files", frozen=True):
    """Which dumps are there already: `wire.DumpPlaces` in the data of the reply. Nothing is written."""

    pids: list[int]


class AskDumpPiece(Request, tag="dump_piece", frozen=True):
    """A piece of a dump: `wire.DumpPiece` in the data of the reply. Its node answers one at a time."""

    pid: int
    """Through whose environment it was found."""
    prefix: str
    name: str
    """As `wire.DumpFile` has it."""
    offset: int


LongRequest: TypeAlias = (
    AskRankSettings
    | AskSystemSettings
    | AskStacks
    | AskProfile
    | LendPySpy
    | AskRas
    | AskDumps
    | AskDumpFiles
    | AskDumpPiece
)
"""What a node answers in its own time, in one reply."""
AnyRequest: TypeAlias = (
    Ping | SetInterval | Tail | ReadLines | Search | Cancel | LeaveFiles | SearchFolders | LongRequest
)
