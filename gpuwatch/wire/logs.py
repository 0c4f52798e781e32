"""Log files, what the rules found in them, and lines that were asked for."""

from __future__ import annotations

from typing import Literal, TypeAlias

from gpuwatch.wire.part import Frame, Part, Severity

Role: TypeAlias = Literal["root", "first", "echo", "hint"]
"""root names a cause by itself; first is the cause only if nothing older explains it; echo is what a survivor
says; hint only helps to look."""

RankSource: TypeAlias = Literal["process", "path", "line", "field"]
"""How a rank is known: the writing process's environment, the file's path, the line's prefix or its text."""

KERNEL_LOG = "kernel log"
"""What `file` is for lines of the kernel log; their offsets count records."""


class LogFile(Part, frozen=True):
    """A file that the agent follows, or would follow."""

    path: str
    state: Literal["following", "unreadable", "elsewhere", "gone"] = "following"
    """elsewhere: another node's agent follows it; gone: deleted, and waited for."""
    reason: str | None = None
    """Why it is not followed."""
    source: Literal["process", "glob", "option", "slurm", "kernel"] = "process"
    """How it was found."""
    size: int | None = None
    lines: int = 0
    """Read since the agent came, the scan of what was there before not counted."""
    grown_at: float | None = None
    """When it last grew: as the agent saw it, else as the file system says (node's clock)."""
    backlog_pct: float | None = None
    """How far what was there before has been scanned; None: done."""
    seams: int = 0
    """How often it was truncated, rotated or made anew meanwhile."""
    ranks: list[int] = []
    """Whose words it holds, as far as is known."""
    rank_from: RankSource | None = None
    local_rank: int | None = None
    """Where only that is known."""
    job: str | None = None
    pids: list[int] = []
    """Processes of this node that have it open for writing; what started ranks only where no other does."""
    identity: str | None = None
    """The same on every node that sees this file of a shared file system; None on a local one."""


class Logs(Frame, tag="logs", frozen=True):
    """All log files of this node; replaces the list before it."""

    files: list[LogFile] = []
    truncated: int = 0
    """How many more there were than are followed."""


class Finding(Frame, tag="finding", frozen=True, kw_only=True):
    """A rule matched. Sent again with the same `id` when its count grew or it was closed."""

    id: int
    """Of this agent's life."""
    rule: str
    severity: Severity
    """The rule's, or what its fields make of it."""
    role: Role = "root"
    file: str
    offset: int
    """Of the first byte of the key line."""
    at: float
    """When: the line's own time, else when it was first seen (node's clock)."""
    timed: bool = False
    """Whether `at` is the line's own time. False, and `backlog` set: it only bounds the time from above."""
    backlog: bool = False
    """It was there before the agent came."""
    lines: list[str]
    """The block with a little context, as to be shown."""
    key: int = 0
    """Which of `lines` matched."""
    rank: int | None = None
    """The rank that speaks, or that the line says has failed."""
    rank_from: RankSource | None = None
    local_rank: int | None = None
    job: str | None = None
    host: str | None = None
    """The host that the line's prefix names, where one file holds several."""
    pid: int | None = None
    gpu: str | None = None
    """UUID, where the agent can tell (a kernel line's bus id)."""
    fields: dict[str, str | int | float] = {}
    """What the rule's named groups took out of the line."""
    count: int = 1
    """How often; over 1 for rules that gather floods, and for repeated equal lines."""
    last_at: float | None = None
    """Of the newest one."""
    closed: bool = False
    """A recovery line ended it."""


class LogLine(Part, frozen=True, array_like=True):
    """One line as to be shown: no escapes, of a bar its last state, cut at 16 KiB."""

    offset: int
    """Of its first byte in the file."""
    end: int
    """Of the byte after its line end."""
    text: str
    t: float | None = None
    """Its own time (node's clock)."""
    arrived: float | None = None
    """When the agent first saw it; None: it was there before."""
    rank: int | None = None
    """By its prefix."""
    level: Severity | None = None
    rule: str | None = None
    """The rule that it matches; asked of lines in reads and tails only."""


class Lines(Frame, tag="lines", frozen=True):
    """Lines that were asked for, in the order of the file."""

    id: int
    """Of the request."""
    file: str = ""
    lines: list[LogLine] = []
    seam: str | None = None
    """What happened to the file before these lines: truncated, rotated, made anew."""
    size: int | None = None
    """Of the file now."""
    progress: float | None = None
    """Of a search, 0 to 1, over all files."""
    done: bool = False
    again: bool = False
    """It ended (`done`) because whoever read is gone; another one is there, who may be asked the same."""
    error: str | None = None
