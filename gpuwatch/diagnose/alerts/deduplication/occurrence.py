"""One event and the alerts that report it: which of them leads, and what the merged alert states.

Example: of rank 3's `CUDA error: out of memory` and the launcher's copy of it, the line with the rank leads,
as it is more specific. The merged alert has the id and the time of the earlier one and a proof for each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias, TypeVar

from msgspec import structs

from gpuwatch.diagnose.alerts.deduplication.same_event import Marks
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.diagnose.model.failure_classes import GENERIC_EXCEPTIONS, GPU_GONE, UNEXPLAINED
from gpuwatch.diagnose.model.text import what

SAME_S = 120.0
"""Lines of one failure of a rank are at most this far apart (s): a watchdog's dumps take up to a minute."""
CHAIN_S = 2.0
"""Seconds within which the tracebacks of one exception chain are printed; later ones are separate."""
LOST_SAME_S = 180.0
"""Seconds between two reports of a lost GPU that count as one event.

The next driver call, or one that was blocked, may report the loss so much later.
"""
STILL_LOST_S = 3600.0
"""Seconds within which a lost GPU that gpuwatch observes is merged with the line that reported the loss.

A session may begin long after that line of the kernel log.
"""
WORDING_CHARS = 1000
"""Most characters of a line that are compared; hostile lines have 16 kB."""
MAX_PROOFS = 12
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
Value = TypeVar("Value")
Attempt: TypeAlias = tuple[int, int | None]
"""The attempt of a job: how often launchers had restarted it, and how often it had resumed.

None: the job is unknown.
"""


class Occurrence:
    """One event and all alerts that report it, which `alert` merges into one."""

    def __init__(self, alert: Alert, marks: Marks, attempt: Attempt) -> None:
        self.reported = [alert]
        self._marks = marks
        self._attempt = attempt
        lasts = LOST_SAME_S if alert in GPU_GONE else CHAIN_S if alert in GENERIC_EXCEPTIONS else SAME_S
        self._until = alert.first + lasts

    def takes(self, alert: Alert, marks: Marks, attempt: Attempt) -> bool:
        """Add the alert and return True if it reports this event; return False if it is about another one."""
        restarts, again = self._attempt
        if restarts != attempt[0] or (None not in (again, attempt[1]) and again != attempt[1]):
            return False
        if alert.first > self._until and not self._is_still_lost(alert):
            return False
        if any(self._marks.get(name, value) != value for name, value in marks.items()):
            return False
        self._marks = {**marks, **self._marks}
        self._attempt = restarts, attempt[1] if again is None else again
        self.reported.append(alert)
        return True

    def _is_still_lost(self, alert: Alert) -> bool:
        """Return True if the alert is the observed state "GPU lost" of the GPU that this event is about.

        It may begin up to `STILL_LOST_S` after the event.
        """
        is_state = alert.code == "gpu_lost" and alert.proof[0].kind == "value" and alert.gpu is not None
        began = self.reported[0].first
        return is_state and self._marks.get("gpu") == alert.gpu and alert.first <= began + STILL_LOST_S

    def alert(self) -> Alert:
        """Return the merged alert: the most specific one leads, and the proofs of the others follow."""
        reported = self.reported
        if len(reported) == 1:
            return reported[0]
        reported = [alert for alert in self.reported if not alert.doubt] or self.reported
        lead = max(reported, key=_states)  # of equally specific alerts, the earliest
        if lead in GENERIC_EXCEPTIONS:
            lead = _chained(reported)
        bounded = [alert for alert in reported if alert.bound != "undated"] or reported
        timed = [alert for alert in reported if alert.timed] or bounded
        earliest = _earliest(timed)
        fields = dict(lead.fields)
        if lead not in GENERIC_EXCEPTIONS:  # the texts of two exceptions are not merged
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


def _earliest(reported: Sequence[Alert]) -> Alert:
    """Return the earliest report: of bounds that the event came after, the latest one."""
    if all(not alert.timed and alert.bound == "after" for alert in reported):
        return max(reported, key=lambda alert: alert.first if alert.not_before is None else alert.not_before)
    return min(reported, key=lambda alert: alert.first)


def _states(alert: Alert) -> tuple[bool, bool, bool, int, tuple[bool, int]]:
    """Return the sort key by which one of several reports leads: the most specific one is the highest.

    In order: its class names what was lost, it is a line, it has a rank, its number of fields, `_is_own`.
    """
    named = alert not in GPU_GONE or "xid" in alert.fields
    return named, alert.proof[0].kind == "line", alert.rank is not None, len(alert.fields), _is_own(alert)


def _is_own(alert: Alert) -> tuple[bool, int]:
    """Return the sort key for copies of one line: a timed one is higher, then one with a shorter prefix.

    A launcher puts its own prefix before each line of a rank, and no time.
    """
    return alert.timed, -len(alert.proof[0].text)


def _chained(reported: Sequence[Alert]) -> Alert:
    """Return the last alert of an exception chain; its text names the first exception as the origin.

    Of several copies of the last exception the rank's own line is returned.
    """
    first, end = reported[0].fields.get("exception"), reported[-1].text
    last = max((alert for alert in reported if alert.text == end), key=_is_own)
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
    return sum(counts.values()) if reported[0] in UNEXPLAINED else max(counts.values())


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
