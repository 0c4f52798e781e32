"""Merge alerts that report the same event: several lines of one failure, copies, driver events.

Alerts are put into buckets by subject (`thing`) and merged bucket by bucket, so that one more line costs
little. In a merged alert the most specific line leads; the id is that of the earliest one.

Example: rank 3 logs `CUDA error: out of memory` at 10:00:00 and once more at 10:00:01, and the launcher's log
has a copy of the first line with the rank in front. All three have one key (class, rank, job), their times
are less than `SAME_S` apart, and their marks (such as the GPU) do not differ: `joined` returns one alert,
dated 10:00:00, with count 2 (repeats within a file) and a proof for each wording and file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import TypeAlias, TypeVar

from msgspec import structs

from gpuwatch.diagnose.alerts.unexplained import without_explained, without_general
from gpuwatch.diagnose.model.alert import Alert, Proof, process_group
from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    GENERIC_EXCEPTIONS,
    GPU_GONE,
    KERNEL_RULES,
    LOST,
    NAMES_CULPRIT,
    NEW_ATTEMPT,
    TOOK_PART,
    UNEXPLAINED,
)
from gpuwatch.diagnose.model.rank_index import bus_key
from gpuwatch.diagnose.model.text import HALVES, what
from gpuwatch.diagnose.model.timing import (
    ATTEMPT_S,
    Resumed,
    attempt_of,
    attempt_of_path,
    batches,
    number_at,
)
from gpuwatch.diagnose.sources.absent_ranks import NAMED_RANKS

SAME_S = 120.0
"""Lines of one failure of a rank are at most this far apart (s): a watchdog's dumps take up to a minute."""
CHAIN_S = 2.0
"""Tracebacks of one exception chain are printed within this time; a caught and logged one is not."""
LOST_SAME_S = 180.0
"""Seconds within which a GPU that fell off the bus is reported: by the next driver call, or a blocked one."""
WORDING_CHARS = 1000
"""Characters of a line that are compared; hostile lines have 16 kB."""
MAX_PROOFS = 12
LOOKED_BACK = 64
"""The newest occurrences of a bucket that a new alert is compared with."""
SUBJECTS = ("pid", "hca", "port", "mount", "path", "device", "server", "node", "tasks", "proc_index",
            "local_rank", "peer_rank", "worker", "variable", "sxid")  # fmt: skip
"""Fields that name the subject of a line that no rank writes: different values mean different events."""
PEERS = ("peer", "peer_host", "host", "address", "remote")
KILLS = frozenset(("oom.host.kernel", "oom.host.cgroup"))
"""Classes of an OOM kill, for which the kernel logs several lines: invoker, limit, victim and reaper."""
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")

Key: TypeAlias = Hashable
Marks: TypeAlias = dict[str, object]
Value = TypeVar("Value")


def joined(alerts: Iterable[Alert]) -> list[Alert]:
    """Return the alerts by time, those of one event merged into one that keeps the proofs of all.

    Unknown error lines and generic exceptions that a more specific alert explains are left out.
    """
    joiner = Deduplicator()
    for alert in alerts:
        joiner.put(alert)
    return joiner.joined()


class Deduplicator:
    """Stores alerts and merges those of one event; only buckets that changed are merged again."""

    def __init__(self) -> None:
        self._keys: dict[str, Key] = {}
        self._buckets: dict[Key, dict[str, Alert]] = {}
        self._folded: dict[Key, list[Alert]] = {}
        self._dirty: set[Key] = set()
        self._restarts: dict[str, float] = {}
        self._ends: list[float] = []
        self._resumed: Resumed = {}

    def put(self, alert: Alert) -> None:
        """Add an alert, or replace it by its newer state."""
        key = thing(alert)
        if self._keys.get(alert.id, key) != key:
            self.drop(alert.id)
        bucket = self._buckets.setdefault(key, {})
        if bucket.get(alert.id) == alert:
            return
        self._keys[alert.id] = key
        bucket[alert.id] = alert
        self._dirty.add(key)
        if alert.code == NEW_ATTEMPT and self._restarts.get(alert.id) != alert.first:
            self._restarts[alert.id] = alert.first
            self._ends = batches(self._restarts.values(), ATTEMPT_S)
            self._dirty.update(self._buckets)

    def take_resumed(self, resumed: Resumed) -> None:
        """Set when each job resumed training; the same error before and after that is not merged."""
        self._resumed = resumed
        self._dirty.update(self._buckets)

    def drop(self, name: str) -> None:
        """Remove the alert with the id `name`; an unknown id is ignored."""
        key = self._keys.pop(name, None)
        if key is None:
            return
        del self._buckets[key][name]
        self._dirty.add(key)

    @property
    def behind(self) -> bool:
        """Return True if a changed bucket is not merged yet."""
        return bool(self._dirty)

    def fold(self, most: int | None = None) -> None:
        """Merge up to `most` changed buckets; None: all of them."""
        for key in list(islice(self._dirty, most)):
            self._dirty.discard(key)
            if self._buckets[key]:
                self._folded[key] = self._fold(list(self._buckets[key].values()))
            else:
                del self._buckets[key]
                self._folded.pop(key, None)

    def joined(self) -> list[Alert]:
        """Merge all changed buckets; return the merged alerts by time, without those that others explain."""
        self.fold()
        alerts = without_explained(
            without_general([alert for folded in self._folded.values() for alert in folded])
        )
        return sorted(alerts, key=lambda alert: (alert.first, alert.id))

    def _fold(self, alerts: list[Alert]) -> list[Alert]:
        if len(alerts) == 1:
            return alerts
        things: list[Occurrence] = []
        for alert in sorted(alerts, key=lambda alert: (alert.first, alert.proof[0].offset or 0, alert.id)):
            marks, attempt = _marks(alert), self._attempt(alert)
            for known in things[: -LOOKED_BACK - 1 : -1]:
                if known.takes(alert, marks, attempt):
                    break
            else:
                things.append(Occurrence(alert, marks, attempt))
        return [known.alert() for known in things]

    def _attempt(self, alert: Alert) -> tuple[int, int]:
        again = number_at(alert, self._resumed.get(alert.job or "", ()))
        return attempt_of(alert, self._ends) if self._ends else 0, again


class Occurrence:
    """One event and all alerts that report it, which `alert` merges into one."""

    def __init__(self, alert: Alert, marks: Marks, attempt: tuple[int, int]) -> None:
        self.reported = [alert]
        self._marks = marks
        self._attempt = attempt
        lasts = LOST_SAME_S if alert in GPU_GONE else CHAIN_S if alert in GENERIC_EXCEPTIONS else SAME_S
        self._until = alert.first + lasts

    def takes(self, alert: Alert, marks: Marks, attempt: tuple[int, int]) -> bool:
        """Add the alert and return True if it reports this event; return False if it is about another one."""
        if alert.first > self._until or attempt != self._attempt:
            return False
        if any(self._marks.get(name, value) != value for name, value in marks.items()):
            return False
        self._marks = {**marks, **self._marks}
        self.reported.append(alert)
        return True

    def alert(self) -> Alert:
        """Return the merged alert: the most specific one leads, and the proofs of the others follow."""
        reported = self.reported
        if len(reported) == 1:
            return reported[0]
        reported = [alert for alert in self.reported if not alert.doubt] or self.reported
        lead = max(reported, key=_states)  # the earliest of equals
        if lead in GENERIC_EXCEPTIONS:
            lead = _chained(reported)
        timed = [alert for alert in reported if alert.timed] or reported
        earliest = min(timed, key=lambda alert: alert.first)
        fields = dict(lead.fields)
        if lead not in GENERIC_EXCEPTIONS:  # the words of two exceptions do not mix
            for alert in reported:
                fields = {**alert.fields, **fields}
        line = lead.proof[0].kind == "line"
        text = what(lead.code, lead.title, fields, lead.stated)
        return structs.replace(
            lead,
            id=self.reported[0].id,
            severity=min((alert.severity for alert in reported), key=ORDER.index),
            text=text if line and fields != lead.fields else lead.text,
            proof=_proofs([lead, *self.reported]),
            node=_first_of(lead.node, (alert.node for alert in reported)),
            gpu=_first_of(lead.gpu, (alert.gpu for alert in reported)),
            rank=_first_of(lead.rank, (alert.rank for alert in reported)),
            job=_first_of(lead.job, (alert.job for alert in reported)),
            first=earliest.first,
            bound=earliest.bound,
            not_before=earliest.not_before,
            last=max(alert.last for alert in reported),
            timed=any(alert.timed for alert in reported),
            count=_times(reported),
            last_offset=_last_offset(lead.proof[0], reported),
            fields=fields,
            state="firing" if any(alert.state == "firing" for alert in reported) else "resolved",
            kernel=any(alert.kernel for alert in reported),
            writer_unknown=all(alert.writer_unknown or not alert.kernel for alert in reported),
            parts=tuple(alert.id for alert in self.reported),
        )


def thing(alert: Alert) -> Key:
    """Return the bucket key: equal for all alerts that can report the same event."""
    if alert in GPU_GONE and alert.node is not None:
        return "fallen", alert.node
    if alert.proof[0].kind == "value":
        return "value", alert.id
    kernel = alert.kernel or (alert.refuted and alert.code.startswith(KERNEL_RULES))
    if alert.code in KILLS and (kernel or "victim" in alert.fields):
        return "killed", alert.node
    xid, pid = alert.fields.get("xid"), alert.fields.get("pid")
    if xid is not None:
        return "xid", alert.node, xid
    if alert in EXITS and pid is not None:
        return "end", alert.code, pid
    if kernel:
        return "kernel", alert.code, alert.node
    if alert.rank is not None:
        return "rank", alert.code, alert.rank, alert.job
    return "file", alert.code, alert.node, alert.proof[0].file


def _marks(alert: Alert) -> Marks:
    """Return the values that separate two events of one bucket, as far as the line has them."""
    fields = alert.fields
    marks: Marks = {"gpu": alert.gpu, "node": alert.node, "recovered": alert.recovered}
    if alert in EXITS and "pid" in fields:
        marks = {
            "node": alert.node,
            "rank": alert.rank,
            "exitcode": fields.get("exitcode"),
            "recovered": alert.recovered,
        }
    elif alert.kernel or alert.rank is None or alert in GPU_GONE:
        bus = fields.get("pci") or fields.get("bus_id")
        if not alert.code.startswith("pcie."):  # the port above a device reports it too
            marks["bus"] = None if bus is None else bus_key(str(bus))
        if alert not in GPU_GONE:
            marks.update((name, fields.get(name)) for name in SUBJECTS)
    if alert in TOOK_PART:
        group = process_group(alert)
        op = fields.get("op")
        marks.update(seq=fields.get("seq"), op=None if op in HALVES else op)
        marks["group"] = None if group == "0" else group
    if alert in NAMES_CULPRIT:
        marks.update((name, fields.get(name)) for name in NAMED_RANKS)
    file = alert.proof[0].file
    if file is not None and "attempt_" in file:
        marks["attempt"] = attempt_of_path(file)
    for name in PEERS:
        peer = fields.get(name)
        if peer is not None:
            marks["peer"] = str(peer).partition("<")[0].rpartition("]:")[0] or str(peer).partition(":")[0]
    return {name: value for name, value in marks.items() if value is not None}


def _states(alert: Alert) -> tuple[bool, bool, bool, int, bool]:
    """Return the sort key for how specific an alert is; the most specific one has the highest."""
    named = alert.code not in LOST
    return named, alert.proof[0].kind == "line", alert.rank is not None, len(alert.fields), alert.timed


def _chained(reported: Sequence[Alert]) -> Alert:
    """Return the last alert of an exception chain; its text names the first exception as the origin."""
    first, last = reported[0].fields.get("exception"), reported[-1]
    if first is None or first == last.fields.get("exception"):
        return last
    return structs.replace(last, text=f"{last.text}, from {first}")


def _proofs(reported: Sequence[Alert]) -> tuple[Proof, ...]:
    """Return one proof for each wording and file, at most MAX_PROOFS."""
    found: dict[object, Proof] = {}
    for alert in reported:
        for proof in alert.proof:
            found.setdefault(_wording(proof), proof)
    return tuple(found.values())[:MAX_PROOFS]


def _times(reported: Sequence[Alert]) -> int:
    """Return how often the event happened: the highest count of one wording in one file.

    For an unknown error the sum of all, because nothing shows which lines report one event.
    """
    counts: Counter[object] = Counter()
    for alert in reported:
        counts[_wording(alert.proof[0])] += alert.count
    return sum(counts.values()) if reported[0].code == UNEXPLAINED else max(counts.values())


def _last_offset(proof: Proof, reported: Sequence[Alert]) -> int | None:
    """Return the highest offset (bytes) of the alerts in the proof's file; None: it is the proof's own."""
    offsets = [
        offset
        for alert in reported
        if (alert.proof[0].file, alert.proof[0].node) == (proof.file, proof.node)
        for offset in (alert.proof[0].offset, alert.last_offset)
        if offset is not None
    ]
    last = max(offsets, default=None)
    return None if last is None or last == proof.offset else last


def _wording(proof: Proof) -> object:
    return proof.kind, proof.node, proof.file, _without_numbers(proof.text[:WORDING_CHARS])


@lru_cache(maxsize=4096)
def _without_numbers(text: str) -> str:
    return _NUMBERS.sub("#", text)


def _first_of(lead: Value | None, others: Iterable[Value | None]) -> Value | None:
    return lead if lead is not None else next((each for each in others if each is not None), None)
