"""The alert for a rank that stood out long enough: one sentence and its figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.model.text import clock, place
from gpuwatch.diagnose.straggler.cpu import CpuStraggler
from gpuwatch.diagnose.straggler.gpu_load import GpuLoad, Usual
from gpuwatch.diagnose.straggler.outliers import Outlier, Sign
from gpuwatch.diagnose.straggler.slowdown_cause import causes
from gpuwatch.diagnose.straggler.throttled import SLOWED, SLOWS, TOOK
from gpuwatch.wire import Severity

CODE, TITLE = "slower_than_peers", "Straggler"
"""Code and title of the alert.

The comparison of the GPUs of one node uses the same code; this alert replaces that one, as it knows the job.
"""
SLOW: tuple[Sign, ...] = ("throttled", "time", "clock", "busy", "works_alone", "last")
"""Signs of a rank that the others wait for, most severe first."""
ODD: dict[Sign, tuple[str, str, Severity]] = {
    "pcie": ("link_below_peers", "Link slower than those of its peers", "warning"),
    "spins": ("spins_alone", "Spins at low power", "info"),
    "nvlink_rate": ("link_below_peers", "Link slower than those of its peers", "warning"),
    "pcie_rate": ("link_below_peers", "Link slower than those of its peers", "warning"),
}
"""Sign of a rank that differs without slowing others -> code, title, severity."""
PAST = {SLOWS: SLOWED, TOOK: "a step took ", "every step waits": "every step waited", "costs": "cost"}
"""Words of an alert -> the same once the job has stopped."""


class Suspect(Struct, frozen=True):
    """A rank that stands out now: the signs, its GPU's load, and the medians of its peers."""

    job: str
    rank: int
    load: GpuLoad | None
    """Load of the rank's GPU, if known."""
    usual: Usual | None
    """Medians over the rank's job and GPU model."""
    signs: tuple[Outlier, ...]
    hold_s: float
    """Seconds that a sign must last; `throttled` need not last: the slow steps have lasted already."""
    logged: frozenset[Sign] = frozenset()
    """The signs that lasted by logs from before the session."""

    @property
    def id(self) -> str:
        """Return the place of the rank as an id: node and GPU index, else job and rank."""
        if self.load is None:
            return f"{self.job}:{self.rank}"
        return f"{self.load.node}:{self.load.info.index}"

    def alert_id(self, sign: Outlier) -> str:
        """Return the id of the alert that this sign raises."""
        return f"{kind(sign)[0]}@{self.id}"

    def has_lasted(self, sign: Outlier, lasted_s: float) -> bool:
        """Return True if a sign that was seen for `lasted_s` seconds is enough for an alert."""
        return sign.sign == "throttled" or sign.sign in self.logged or lasted_s >= self.hold_s

    def lead(self, lasted: Sequence[Outlier]) -> Outlier | None:
        """Return the most severe of the signs that lasted, or None."""
        order = (*SLOW, *ODD)
        return min(lasted, key=lambda each: (order.index(each.sign), -(each.cost or 0.0)), default=None)


def kind(sign: Outlier) -> tuple[str, str, Severity]:
    """Return code, title and severity of the alert that a sign raises."""
    return ODD.get(sign.sign, (CODE, TITLE, "warning"))


def alert_of(suspect: Suspect, lead: Outlier, lasted_s: float, hotter_c: float, wall: float) -> Alert:
    """Return the alert of a rank for its most severe sign, `lead`.

    `lasted_s`: for how long it has stood out. `hotter_c`: degrees over its peers that count as hot.

    `wall`: unix seconds.
    """
    code, title, severity = kind(lead)
    load, why = suspect.load, _why(suspect, lead, hotter_c)
    rack = None if load is None else load.rack
    since = clock(wall - lasted_s, wall)
    what = lead.what if lead.sign == "throttled" else f"one of {_count(lead)} {lead.what} since {since}"
    reported = [
        what,
        *why,
        *([f"rack {rack}"] if rack else []),
    ]
    text = ", ".join(reported)
    if lead.cost is not None:
        text += f": every step waits for it, which costs the job about {100 * lead.cost:.0f} % of its time"
    elif code == CODE and lead.sign != "throttled":
        text += ": every step waits for it"
    at = wall - (0.0 if load is None else load.age_s)
    node = None if load is None else load.node
    return Alert(
        id=suspect.alert_id(lead),
        code=code,
        severity=severity,
        title=title,
        text=text,
        proof=tuple(Proof("value", line, at, node=node) for line in _evidence(suspect, lead)),
        role="hint",
        node=node,
        gpu=None if load is None else load.info.index,
        rank=suspect.rank,
        rank_from="process",
        job=suspect.job,
        fields={"rack": rack} if rack else {},
    )


def sentence(alert: Alert) -> str:
    """Return `rank 42 (gpu-006 GPU 2) slows all 128 ranks by 41 %: thermal throttling, ...`."""
    joint = " " if alert.text.startswith((SLOWS, SLOWED)) else ": "
    return place(alert.rank, alert.node, alert.gpu) + joint + alert.text


def stopped_at(alert: Alert, incidents: Iterable[Incident]) -> float | None:
    """Return when an active incident stopped the job that a rank slows (unix seconds); None: it runs."""
    if alert.title != TITLE or alert.job is None:
        return None
    later = (each.first for each in incidents if each.job == alert.job and not each.over)
    return min((at for at in later if at >= alert.first), default=None)


def in_past(alert: Alert, incidents: Sequence[Incident]) -> Alert:
    """Return the alert, in the past tense if the job that its rank slowed has stopped."""
    if stopped_at(alert, incidents) is None:
        return alert
    text = alert.text
    for present, past in PAST.items():
        text = text.replace(present, past, 1)
    return replace(alert, text=text)


def _count(lead: Outlier) -> str:
    return f"{lead.peers + 1} ranks" if lead.alike == 1 else f"{lead.alike} among {lead.peers + 1} ranks"


def _why(suspect: Suspect, lead: Outlier, hotter_c: float) -> list[str]:
    if suspect.load is None or suspect.usual is None or lead.sign in ODD or lead.sign == "throttled":
        return [lead.cause] if lead.cause else []
    capped = any(each.sign == "clock" for each in suspect.signs)
    found = list(causes(suspect.load, suspect.usual, hotter_c, capped=capped))
    return found or [each.cause for each in (lead, *suspect.signs) if each.cause][:1]


def _evidence(suspect: Suspect, lead: Outlier) -> Iterator[str]:
    """Yield the outlying figures, the lead's first, then other load figures, each with the job's median."""
    yield lead.evidence
    yield from (each.evidence for each in suspect.signs if each.figure != lead.figure)
    load, usual, reported = suspect.load, suspect.usual, {each.sign for each in suspect.signs}
    if load is None or usual is None:
        return
    columns = (
        ("utilization", " %", "busy" in reported, load.busy_pct, usual.busy_pct),
        ("SM clock", " MHz", bool(reported & {"clock", "throttled"}), load.clock_mhz, usual.clock_mhz),
        ("power", " W", bool(reported & {"works_alone", "spins"}), load.power_w, usual.power_w),
        ("temperature", " C", False, load.temperature_c, usual.temperature_c),
    )
    for name, unit, stated, own, middle in columns:
        if own is not None and middle is not None and not stated:
            yield f"{name} {own:.0f}{unit}, median of the job {middle:.0f}{unit}"


def cpu_alert(job: str, each: CpuStraggler, wall: float) -> Alert:
    """Return the alert for a straggler that trains on the CPU. `wall`: unix seconds."""
    worker = each.worker
    return Alert(
        id=f"{CODE}@{job}:{worker.rank}",
        code=CODE,
        severity="warning",
        title=TITLE,
        text=each.text,
        proof=(Proof("value", each.text, wall - worker.age_s, node=worker.node),),
        role="hint",
        node=worker.node,
        rank=worker.rank,
        rank_from="process",
        job=job,
    )
