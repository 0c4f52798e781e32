"""An alert: a finding, a crossed threshold or an event at one place, with a state; silences of alerts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from gpuwatch.rules.model.failure_class import FailureClass
from gpuwatch.wire import RankSource, Role, Severity, TimeBound
from gpuwatch.wire.limits import GpuIndex, Moment, Name, Rank

OWN_LOG: tuple[RankSource, ...] = ("process", "path", "line")
"""Sources of a rank's number that show that the line is in the rank's own output."""
RANK_INFERRED = "rank_inferred"
"""Field that marks alerts of an earlier session whose rank was inferred."""

OF_ENDED_JOB = "of_ended_job"
"""Field that marks alerts of an ended job whose log a running job writes, too."""
IDLE_RANKS = "idle_ranks"
"""Field of timeouts: the few ranks whose GPUs were idle while those of all others were busy."""
LAST_WORDS = "last_words"
"""Field of timeouts: the only rank that logged work of its own below the step that all ranks logged last."""
REPORTED_FOR_JOB = "reported_for_job"
"""Field that marks alerts whose rank only reports a condition of its job."""
OF_STEPS = "of_steps"
"""Field that marks symptoms in the numbers of many steps; a single later step does not end them."""

AlertState: TypeAlias = Literal["firing", "resolved"]


class Proof(msgspec.Struct, frozen=True):
    """A piece of evidence for an alert: a log line, a value or an event, with its place and age."""

    kind: Literal["line", "value", "event"]
    text: str
    """The key line, the value with its limit, or the event's text."""
    at: float | None = None
    """Unix seconds on our clock; None: unknown."""
    timed: bool = True
    """False: `at` is when the proof was first seen; the proof may be older."""
    node: str | None = None
    file: str | None = None
    offset: int | None = None
    lines: tuple[str, ...] = ()
    """The lines around the key line."""
    key: int = 0


class Alert(msgspec.Struct, frozen=True):
    """An alert; replaced by a new instance with the same `id` when it changes."""

    id: str
    """The id of the alert, stable within a session and between scans of the same files."""
    code: str
    """A rule's id, or a condition's code: gpu_lost, temperature, node_lost, ..."""
    severity: Severity
    title: str
    text: str
    """One sentence with the numbers, without the place."""
    proof: tuple[Proof, ...]
    """The strongest first."""
    role: Role = "root"
    node: str | None = None
    gpu: int | None = None
    """Index on the node."""
    rank: int | None = None
    rank_from: RankSource | None = None
    job: str | None = None
    first: float = 0.0
    """When the alert began, in unix seconds on our clock; node clocks are corrected."""
    last: float = 0.0
    timed: bool = True
    """False: `first` is only an upper bound (a line without a time in a file's backlog)."""
    bound: TimeBound = "before"
    """What bounds an untimed `first`: a later timestamp, an earlier one (`not_before`), or none."""
    not_before: float | None = None
    """The earlier timestamp, unix seconds on our clock."""
    count: int = 1
    fields: dict[str, str | int | float] = {}
    state: AlertState = "firing"
    acknowledged: bool = False
    acknowledged_at: float | None = None
    """Unix seconds."""
    acknowledged_by: str | None = None
    """Who acknowledged the alert, such as `alice@login-1`; None: unknown."""
    silenced: bool = False
    error_s: float = 0.0
    """Uncertainty of `first` in seconds, from the node's clock offset."""
    parts: tuple[str, ...] = ()
    """Ids of the alerts that were merged into this one, its own first; empty: none were merged."""
    last_offset: int | None = None
    """Offset of the newest of `count` equal lines in the file of the first proof (bytes)."""
    recovered: bool = False
    """True if the rank, file or job went on afterwards; `severity` was lowered."""
    recovered_at: float | None = None
    """When the rank, file or job went on (unix seconds on our clock); None: it did not, or undated."""
    recovered_step: int | None = None
    """The first step after the error; None: none was logged."""
    kernel: bool = False
    """True if the alert is from the kernel log or the driver: about the node or GPU, whichever job runs."""
    doubt: str = ""
    """Why the statement is doubtful (its node contradicts it or cannot be queried); empty: no doubt."""
    refuted: bool = False
    """True if other data contradicts the alert; it is then a root cause only if no other alert is."""
    writer_unknown: bool = False
    """True for a kernel or driver line in a collected file that a user of the job may have written."""
    first_text: str = ""
    """The sentence with the reading of the time `first`, if `text` has a later one; empty: it is `text`."""
    stated: FailureClass | None = None
    """What a site's own rule states about its failure class; None: the same as the built-in packs."""

    @property
    def is_remark(self) -> bool:
        """Return True for hints and `info`, which never come before a cause."""
        return self.role == "hint" or self.severity == "info"

    @property
    def position(self) -> tuple[str, int, str]:
        """Return the sort key for simultaneous alerts: file, offset, id."""
        proof = self.proof[0] if self.proof else None
        return (proof.file or "", proof.offset or 0, self.id) if proof is not None else ("", 0, self.id)


def process_group(alert: Alert) -> str:
    """Return the process group that a line names, `0` for the default group or none."""
    for field in ("pg_guid", "pg_id", "pg_desc"):
        value = alert.fields.get(field)
        if value not in (None, ""):
            name = str(value).partition("(")[0]  # some of a rank's lines add the description: `0(default_pg)`
            return "0" if name in ("default_pg", "undefined") else name
    return "0"


def firing_counts(alerts: Iterable[Alert]) -> dict[Severity, int]:
    """Return the number of firing alerts by severity, without silenced and acknowledged ones."""
    found: dict[Severity, int] = {"critical": 0, "error": 0, "warning": 0, "info": 0}
    for alert in alerts:
        if alert.state == "firing" and not alert.silenced and not alert.acknowledged:
            found[alert.severity] += 1
    return found


class Silence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Matches every alert that agrees in all given fields; stored in the config folder."""

    code: Name
    """A rule's id or a condition's code; `family.*` matches a whole family."""
    node: Name | None = None
    gpu: GpuIndex | None = None
    rank: Rank | None = None
    until: Moment | None = None
    """When the silence ends (unix seconds); None: when it is removed."""

    def covers(self, alert: Alert, wall: float) -> bool:
        """Return True if the silence applies to this alert at `wall` (unix seconds)."""
        if self.until is not None and wall >= self.until:
            return False
        named = ((self.node, alert.node), (self.gpu, alert.gpu), (self.rank, alert.rank))
        if any(wanted is not None and wanted != has for wanted, has in named):
            return False
        return alert.code == self.code or (self.code.endswith("*") and alert.code.startswith(self.code[:-1]))
