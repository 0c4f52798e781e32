"""Log files, what the rules found in them, and lines that were asked for."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from gpuwatch.wire.base import Frame, FramePart, Severity
from gpuwatch.wire.limits import Count, Few, Many, Moment, Name, Rank, Real, Table, Text, Whole

Role: TypeAlias = Literal["root", "first", "echo", "hint"]
"""root names a cause by itself; first is the cause only if nothing older explains it; echo is what a survivor
states; hint only helps to look."""

TimeBound: TypeAlias = Literal["before", "after", "undated"]
"""What bounds a line that carries no time: a later stamp, an earlier one, or none."""
RankSource: TypeAlias = Literal["process", "path", "line", "field", "index"]
"""How a rank is known: the writing process's environment, the file's path, the line's prefix or its text, or
the number of a worker or task, which the job's other lines show to be the rank."""

MAX_LAST_LINES = 8
SLURM_TASK = "task"
"""`index_of` of a number that `srun -l` puts before a line."""
KERNEL_LOG = "kernel log"
"""What `file` is for lines of the kernel log; their offsets count records."""


class LogFile(FramePart, frozen=True):
    """A file that the agent follows, or would follow."""

    path: Name
    state: Literal["following", "unreadable", "elsewhere", "gone"] = "following"
    """elsewhere: another node's agent follows it; gone: deleted, and waited for."""
    reason: Text | None = None
    """Why it is not followed."""
    source: Literal["process", "glob", "option", "slurm", "kernel", "found"] = "process"
    """How it was found; found: by a search for the logs of ended jobs."""
    size: Count | None = None
    lines: Count = 0
    """Read since the agent came, the scan of what was there before not counted."""
    grown_at: Moment | None = None
    """When it last grew: as the agent saw it, else as the file system states (node's clock)."""
    backlog_pct: Real | None = None
    """How far what was there before has been scanned; None: done, or not begun (`searched_to` reports)."""
    searched_from: Count = 0
    """Bytes before this one are not all searched yet; 0: what is searched now begins with the file."""
    searched_to: Count | None = None
    """All bytes before this one have been searched; None: not yet."""
    seams: Count = 0
    """How often it was truncated, rotated or made anew meanwhile."""
    ranks: Many[Rank] = []
    """Whose words it holds, as far as is known."""
    rank_from: RankSource | None = None
    local_rank: Rank | None = None
    """Where only that is known."""
    job: Name | None = None
    pids: Many[Whole] = []
    """Processes of this node that have it open for writing; what started ranks only where no other does."""
    identity: Name | None = None
    """The same on every node that sees this file of a shared file system; None on a local one. In a fleet
    the same on the nodes that reported the same `fingerprint`, of files on local file systems as well."""
    fingerprint: Name | None = None
    """Inode, size, last write and checksums of both ends; of a file with an `identity` inode and checksum of
    the first bytes, while it is empty the last write. None where the file is not open."""
    last_at: Moment | None = None
    """Of a file that a search found: when its last line was written (node's clock), by its own time, else the
    file's; None as soon as it grows."""
    last_lines: Annotated[list[Text], Meta(max_length=MAX_LAST_LINES)] = []
    """The last ones of such a file, as to be shown."""
    owner: Name | None = None
    """The user whose such a file is."""


class SharedFolder(FramePart, frozen=True):
    """A folder on a network file system in which the logs of ended jobs may be: one node looks through it."""

    path: Name
    identity: Name
    """The same on every node that sees it."""
    fingerprint: Name | None = None
    """Inode and the times of its last changes (ns), which only who sees it knows."""


class Logs(Frame, tag="logs", frozen=True):
    """All log files of this node; replaces the list before it."""

    files: Many[LogFile] = []
    truncated: Count = 0
    """How many more there were than are followed."""
    complete: bool = False
    """The processes and patterns that lead to files have been gone through, so that none is due besides."""
    misses: Table[Text] = {}
    """Option (`--log`) -> why it leads to no file on this node; meant once `complete`."""
    shared: Few[SharedFolder] = []
    """What the agent looks through for ended jobs when it is asked to."""
    search_cut: bool = False
    """A bound ended the search for ended jobs before it was through."""


class Finding(Frame, tag="finding", frozen=True, kw_only=True):
    """A rule matched. Sent again with the same `id` when its count grew or it was closed."""

    id: Whole
    """Of this agent's life."""
    rule: Name
    severity: Severity
    """The rule's, or what its fields make of it."""
    role: Role = "root"
    file: Name
    offset: Count
    """Of the first byte of the key line."""
    at: Moment
    """When: the line's own time, else when it was first seen (node's clock)."""
    timed: bool = False
    """Whether `at` is the line's own time. False, and `backlog` set: it only bounds the time from above."""
    backlog: bool = False
    """It was there before the agent came."""
    bound: TimeBound = "before"
    """What `at` is worth where `timed` is false: a later stamp bounds it, an earlier one does, or none."""
    not_before: Moment | None = None
    """The earlier stamp."""
    lines: Many[Text]
    """The block with a little context, as to be shown."""
    key: Count = 0
    """Which of `lines` matched."""
    rank: Rank | None = None
    """The rank that speaks, or that the line states has failed."""
    rank_from: RankSource | None = None
    index: Rank | None = None
    """A number in the line that may be the rank's: of a worker, a task. It is where the job's lines agree."""
    index_of: Name | None = None
    """The word that `index` stands after."""
    local_rank: Rank | None = None
    job: Name | None = None
    host: Name | None = None
    """The host that the line's prefix names, where one file holds several."""
    pid: Whole | None = None
    gpu: Name | None = None
    """UUID, where the agent can report (a kernel line's bus id)."""
    fields: Table[Text | Whole | Real] = {}
    """What the rule's named groups took out of the line."""
    count: Count = 1
    """How often; over 1 for rules that gather floods, and for repeated equal lines."""
    last_at: Moment | None = None
    """Of the newest one."""
    last_offset: int | None = None
    """Of the first byte of the newest one's key line."""
    closed: bool = False
    """A recovery line ended it."""


class LogLine(FramePart, frozen=True, array_like=True):
    """One line as to be shown: no escapes, of a bar its last state, cut at 16 KiB."""

    offset: Count
    """Of its first byte in the file."""
    end: Count
    """Of the byte after its line end."""
    text: Text
    t: Moment | None = None
    """Its own time (node's clock)."""
    arrived: Moment | None = None
    """When the agent first saw it; None: it was there before."""
    rank: Rank | None = None
    """By its prefix."""
    level: Severity | None = None
    rule: Name | None = None
    """The rule that it matches; asked of lines in reads and tails only."""


class Lines(Frame, tag="lines", frozen=True):
    """Lines that were asked for, in the order of the file."""

    id: Whole
    """Of the request."""
    file: Name = ""
    lines: Many[LogLine] = []
    seam: Name | None = None
    """What happened to the file before these lines: truncated, rotated, made anew."""
    size: Count | None = None
    """Of the file now."""
    progress: Real | None = None
    """Of a search, 0 to 1, over all files."""
    done: bool = False
    again: bool = False
    """It ended (`done`) because whoever read is gone; another one is there, who may be asked the same."""
    error: Text | None = None
