"""An alert: one finding, crossed threshold or event at one place, with a life of its own."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from gpuwatch.wire import RankSource, Role, Severity, TimeBound

RANK_INFERRED = "rank_inferred"
"""Field of an alert that an earlier session kept, of a rank whose number was inferred then."""

AlertState: TypeAlias = Literal["firing", "resolved"]


class Proof(msgspec.Struct, frozen=True):
    """What an alert rests on: a log line, a value, or an event, with its place and its age."""

    kind: Literal["line", "value", "event"]
    text: str
    """The key line, the value with its limit, or the event's words."""
    at: float | None = None
    """Unix seconds on our clock; None: not known."""
    timed: bool = True
    """False: `at` is when it was first seen, the thing itself may be older."""
    node: str | None = None
    file: str | None = None
    offset: int | None = None
    lines: tuple[str, ...] = ()
    """The block around the key line."""
    key: int = 0


class Alert(msgspec.Struct, frozen=True):
    """Replaced by a newer one with the same `id` when anything about it changes."""

    id: str
    """Stable for the session, and for a scan over the same files."""
    code: str
    """A rule's id, or a condition's code: gpu_lost, temperature, node_lost, ..."""
    severity: Severity
    title: str
    text: str
    """One sentence with the numbers, without the place."""
    proof: tuple[Proof, ...]
    """The first one is the best."""
    role: Role = "root"
    node: str | None = None
    gpu: int | None = None
    """Index on the node."""
    rank: int | None = None
    rank_from: RankSource | None = None
    job: str | None = None
    first: float = 0.0
    """Unix seconds on our clock; node clocks are corrected."""
    last: float = 0.0
    timed: bool = True
    """False: `first` only bounds the time from above (a line without a time, found in a file's backlog)."""
    bound: TimeBound = "before"
    """What bounds an untimed `first`: a later stamp, an earlier one (`not_before`), or none (`undated`)."""
    not_before: float | None = None
    """The earlier stamp, unix seconds on our clock."""
    count: int = 1
    fields: dict[str, str | int | float] = {}
    state: AlertState = "firing"
    acknowledged: bool = False
    acknowledged_at: float | None = None
    """Unix seconds."""
    acknowledged_by: str | None = None
    """`alice@login-1`; None: not known."""
    silenced: bool = False
    error_s: float = 0.0
    """How far `first` may be off, because the node's clock is known no better."""
    parts: tuple[str, ...] = ()
    """Ids of the alerts that were found to be about one thing, its own first; empty: it is only one."""
    last_offset: int | None = None
    """Of the newest of `count` equal lines in the file of the first proof (bytes)."""
    recovered: bool = False
    """The rank, file or job went on afterwards: `severity` was lowered."""
    recovered_at: float | None = None
    """When it went on (unix seconds on our clock); None: not, or undated."""
    recovered_step: int | None = None
    """With which step."""
    kernel: bool = False
    """From the kernel log or the driver: about the node or GPU, whoever runs there."""
    doubt: str = ""
    """What the node that this is about states to the contrary, or why it cannot be asked; empty: nothing."""
    refuted: bool = False
    """The doubt is a contradiction: this leads no incident while anything else does."""

    writer_unknown: bool = False
    """A line of the kernel or the driver in a collected file that a user of the job may have written."""

    @property
    def is_remark(self) -> bool:
        """Whether it only helps to look (a hint, a note) or did no harm: it never stands before a cause."""
        return self.role == "hint" or self.severity == "info"

    @property
    def position(self) -> tuple[str, int, str]:
        """Orders what happened at one time: by the place in the log, else by the id."""
        proof = self.proof[0] if self.proof else None
        return (proof.file or "", proof.offset or 0, self.id) if proof is not None else ("", 0, self.id)


def process_group(alert: Alert) -> str:
    """The process group that a line is about: counters of two groups must never be compared."""
    for field in ("pg_guid", "pg_id", "pg_desc"):
        value = alert.fields.get(field)
        if value not in (None, ""):
            name = str(value).partition("(")[0]  # some of a rank's lines add the description: `0(default_pg)`
            return "0" if name in ("default_pg", "undefined") else name
    return "0"
