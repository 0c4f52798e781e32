"""Log files, the rules' findings in them, and requested lines."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from gpuwatch.wire.base import Frame, FramePart, Severity
from gpuwatch.wire.limits import Count, Few, Many, Moment, Name, Rank, Real, Table, Text, Whole

Role: TypeAlias = Literal["root", "first", "echo", "hint"]
"""root names a cause by itself; first is the cause only if nothing older explains it.

Echo is a consequence on a surviving rank; hint only helps the diagnosis.
"""

TimeBound: TypeAlias = Literal["before", "after", "undated"]
"""The bound of the time of a line without a time: a later time stamp, an earlier one, or none."""
RankSource: TypeAlias = Literal["process", "path", "line", "field", "index"]
"""The source of a rank's number.

The writing process's environment, the file's path, the line's prefix or its text, or the number of a worker
or task, which the job's other lines show to be the rank.
"""

MAX_LAST_LINES = 8
SLURM_TASK = "task"
"""`index_of` of a number that `srun -l` puts before a line."""
KERNEL_LOG = "kernel log"
"""`file` for lines of the kernel log; their offsets count records."""


class LogFile(FramePart, frozen=True):
    """A log file that the agent follows, or does not follow for a stated reason."""

    path: Name
    state: Literal["following", "unreadable", "elsewhere", "gone"] = "following"
    """elsewhere: another node's agent follows it; gone: deleted, the agent waits for it to reappear."""
    reason: Text | None = None
    """Why it is not followed."""
    source: Literal["process", "glob", "option", "slurm", "kernel", "found"] = "process"
    """How it was found; found: by a search for logs of ended jobs and of unlisted processes."""
    size: Count | None = None
    lines: Count = 0
    """Number of lines read since the agent started, without the scan of older content."""
    grown_at: Moment | None = None
    """When it last grew: as seen by the agent, else by the file system (node's clock)."""
    backlog_pct: Real | None = None
    """How far the older content has been scanned; None: done, or not begun (see `searched_to`)."""
    searched_from: Count = 0
    """Bytes before this one are not all searched yet; 0: the search began at the start of the file."""
    searched_to: Count | None = None
    """All bytes before this one have been searched; None: not yet."""
    seams: Count = 0
    """Number of times that it was truncated, rotated or recreated."""
    ranks: Many[Rank] = []
    """The ranks with lines in it, as far as known."""
    rank_from: RankSource | None = None
    local_rank: Rank | None = None
    """The local rank of the file's writer, if only that is known."""
    job: Name | None = None
    pids: Many[Whole] = []
    """Processes on this node that have it open for writing.

    Launchers of ranks only if no other process has.
    """
    identity: Name | None = None
    """Equal on every node that sees this file of a shared file system; None on a local one.

    In a fleet equal on the nodes that reported the same `fingerprint`, also for files on local file systems.
    """
    fingerprint: Name | None = None
    """Three parts between `|`: inode and creation; an offset and checksums before it; size, last write, ends.

    The checksums of the second part are those of the first block and of the one before the offset, which
    nodes that see the same growing file choose alike. For a file with an `identity` inode and checksum of the
    first bytes, while it is empty the last write. None if the file is not open.
    """
    last_at: Moment | None = None
    """For a file found by a search, when its last line was written (node's clock).

    By the line's own time, else the file's; None as soon as it grows.
    """
    last_lines: Annotated[list[Text], Meta(max_length=MAX_LAST_LINES)] = []
    """The last lines of such a file, as displayed."""
    owner: Name | None = None
    """The user who owns such a file."""


class SharedFolder(FramePart, frozen=True):
    """A folder on a network file system that may have logs of ended jobs; only one node has to search it."""

    path: Name
    identity: Name
    """Equal on every node that sees it."""
    fingerprint: Name | None = None
    """Inode and the times of its last changes (ns), which are visible only on a node that sees it."""


class Logs(Frame, tag="logs", frozen=True):
    """All log files of this node; replaces the previous list."""

    files: Many[LogFile] = []
    truncated: Count = 0
    """Number of files that are not followed."""
    complete: bool = False
    """True after all processes and patterns were checked for files, so that none is pending."""
    misses: Table[Text] = {}
    """Value of the `--log` option -> why it matches no file on this node; valid once `complete`."""
    shared: Few[SharedFolder] = []
    """The folders in which the agent searches for ended jobs on request."""
    search_cut: bool = False
    """True if a limit stopped the search for ended jobs early."""


class Finding(Frame, tag="finding", frozen=True, kw_only=True):
    """A match of a rule in a log. Sent again with the same `id` when its count grows or it is closed."""

    id: Whole
    """Unique for one run of the agent."""
    rule: Name
    severity: Severity
    """The rule's severity, or the one that its fields determine."""
    role: Role = "root"
    file: Name
    offset: Count
    """Offset of the first byte of the key line."""
    at: Moment
    """The line's own time, else when it was first seen (node's clock)."""
    timed: bool = False
    """True if `at` is the line's own time. False with `backlog`: `at` is only an upper bound."""
    backlog: bool = False
    """True if the line was written before the agent started."""
    bound: TimeBound = "before"
    """What `at` means if `timed` is False: bounded by a later time stamp, by an earlier one, or by none."""
    not_before: Moment | None = None
    """The earlier time stamp."""
    lines: Many[Text]
    """The block with a little context, as displayed."""
    key: Count = 0
    """Index in `lines` of the line that matched."""
    rank: Rank | None = None
    """The rank that writes the line, or that the line reports as failed."""
    rank_from: RankSource | None = None
    index: Rank | None = None
    """A number in the line that may be the rank's: of a worker, a task.

    It is if the job's lines consistently show it.
    """
    index_of: Name | None = None
    """The word before `index`."""
    local_rank: Rank | None = None
    job: Name | None = None
    host: Name | None = None
    """The host in the line's prefix, if one file has lines of several."""
    pid: Whole | None = None
    gpu: Name | None = None
    """UUID, if the agent can determine it (a kernel line's bus id)."""
    fields: Table[Text | Whole | Real] = {}
    """The values of the rule's named groups in the line."""
    count: Count = 1
    """Number of occurrences; more than 1 for rules that aggregate floods, and for repeated equal lines."""
    last_at: Moment | None = None
    """When the newest one was written."""
    last_offset: Count | None = None
    """Offset of the first byte of the newest one's key line."""
    closed: bool = False
    """True after a recovery line."""

    @property
    def key_line(self) -> str:
        """Return the line that matched; empty if `key` is no index of `lines`."""
        return self.lines[self.key] if 0 <= self.key < len(self.lines) else ""


class LogLine(FramePart, frozen=True, array_like=True):
    """One log line as displayed: no escapes, the last state of a progress bar, cut at 16 KiB."""

    offset: Count
    """Offset of its first byte in the file."""
    end: Count
    """Offset of the byte after its line end."""
    text: Text
    t: Moment | None = None
    """Its own time (node's clock)."""
    arrived: Moment | None = None
    """When the agent first saw it; None: it is older than the agent."""
    rank: Rank | None = None
    """The rank in its prefix."""
    level: Severity | None = None
    rule: Name | None = None
    """The rule that it matches; only set for reads and tails."""


class Lines(Frame, tag="lines", frozen=True):
    """The lines that a request asked for, in the order of the file."""

    id: Whole
    """The id of the request."""
    file: Name = ""
    lines: Many[LogLine] = []
    seam: Name | None = None
    """What happened to the file before these lines: truncated, rotated, recreated."""
    size: Count | None = None
    """The current size of the file."""
    progress: Real | None = None
    """Progress of a search, 0 to 1, over all files."""
    done: bool = False
    again: bool = False
    """True if it ended (`done`) because its reader on the node is gone.

    The request can be repeated to the new one.
    """
    error: Text | None = None
