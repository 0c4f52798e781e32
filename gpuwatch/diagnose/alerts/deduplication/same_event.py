"""Decides which alerts can report one event: those with one subject whose marks do not differ.

Example: rank 3's out-of-memory line and the launcher's copy of it have the subject (rank, oom.cuda, 3,
run7). The copy has no mark "gpu", so nothing separates the two. A second out-of-memory line of the rank on
another GPU has another mark "gpu" and is an event of its own.

A further kind of subject or mark is one more row, with its example as a test.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeAlias

from msgspec import Struct

from gpuwatch.diagnose.model.alert import Alert, process_group
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    GPU_GONE,
    KERNEL_LINES,
    MEMORY_KILLS,
    NAMES_CULPRIT,
    TOOK_PART,
    of_kinds,
)
from gpuwatch.diagnose.model.rank_index import bus_key
from gpuwatch.diagnose.model.text import HALVES
from gpuwatch.diagnose.model.timing import attempt_of_path
from gpuwatch.diagnose.sources.absent_ranks import NAMED_RANKS

SUBJECT_FIELDS = ("pid", "hca", "port", "mount", "path", "device", "server", "node", "tasks", "proc_index",
                  "local_rank", "peer_rank", "worker", "variable", "sxid")  # fmt: skip
"""Fields that name the subject of a line that no rank writes: different values mean different events."""
PEERS = ("peer", "peer_host", "host", "address", "remote")

Key: TypeAlias = Hashable
Marks: TypeAlias = dict[str, object]


class EventSubject(Struct, frozen=True):
    """A kind of subject: the alerts that have it, and what two of them must share to be one event."""

    name: str
    of: Callable[[Alert], bool]
    key: Callable[[Alert], tuple[Hashable, ...]]


class EventMark(Struct, frozen=True):
    """Values that separate two events of one subject, for the alerts that have them."""

    name: str
    of: Callable[[Alert], bool]
    values: Callable[[Alert], Mapping[str, object]]
    """Returns name -> value; None: the line does not have it, and it separates nothing."""


def _is_kernel(alert: Alert) -> bool:
    return alert.kernel or (alert.refuted and alert in KERNEL_LINES)


def _is_kill(alert: Alert) -> bool:
    return alert in MEMORY_KILLS and (_is_kernel(alert) or "victim" in alert.fields)


def _is_end(alert: Alert) -> bool:
    """Return True if the alert reports the end of a process and names its pid."""
    return alert in EXITS and alert.fields.get("pid") is not None


def _is_of_no_rank(alert: Alert) -> bool:
    """Return True for a line that no rank writes, or about a lost GPU; never for an end with a pid."""
    return not _is_end(alert) and (alert.kernel or alert.rank is None or alert in GPU_GONE)


def _bus(alert: Alert) -> Marks:
    bus = alert.fields.get("pci") or alert.fields.get("bus_id")
    return {"bus": None if bus is None else bus_key(str(bus))}


def _collective(alert: Alert) -> Marks:
    group, op = process_group(alert), alert.fields.get("op")
    return {
        "seq": alert.fields.get("seq"),
        "op": None if op in HALVES else op,
        "group": None if group == "0" else group,
    }


def _attempt(alert: Alert) -> Marks:
    file = alert.proof[0].file
    return {"attempt": attempt_of_path(file) if file is not None and "attempt_" in file else None}


def _peer(alert: Alert) -> Marks:
    """Return the mark `peer`: the peer's address or host without its port; empty if the line names none."""
    peers = [str(alert.fields[name]) for name in PEERS if alert.fields.get(name) is not None]
    if not peers:
        return {}
    return {"peer": peers[-1].partition("<")[0].rpartition("]:")[0] or peers[-1].partition(":")[0]}


ANY_BUS = of_kinds("any_bus")
"""Classes of errors that the port above a device reports, too, with its own PCI address."""
SUBJECTS = (
    EventSubject("lost GPU", lambda a: a in GPU_GONE and a.node is not None, lambda a: (a.node,)),
    EventSubject("value", lambda a: a.proof[0].kind == "value", lambda a: (a.id,)),
    EventSubject("OOM kill", _is_kill, lambda a: (a.node,)),
    EventSubject("xid", lambda a: a.fields.get("xid") is not None, lambda a: (a.node, a.fields["xid"])),
    EventSubject("end of a process", _is_end, lambda a: (a.code, a.fields["pid"])),
    EventSubject("kernel line", _is_kernel, lambda a: (a.code, a.node)),
    EventSubject("rank", lambda a: a.rank is not None, lambda a: (a.code, a.rank, a.job)),
    EventSubject("file", lambda _: True, lambda a: (a.code, a.node, a.proof[0].file)),
)
"""The kinds of subjects. The first one that fits an alert gives the alert's subject."""

MARKS = (
    EventMark("place", lambda a: not _is_end(a), lambda a: {"gpu": a.gpu, "node": a.node}),
    EventMark(
        "end",
        _is_end,
        lambda a: {"node": a.node, "rank": a.rank, "exitcode": a.fields.get("exitcode")},
    ),
    EventMark("recovery", lambda _: True, lambda a: {"recovered": a.recovered}),
    EventMark("bus", lambda a: _is_of_no_rank(a) and a not in ANY_BUS, _bus),
    EventMark(
        "subject field",
        lambda a: _is_of_no_rank(a) and a not in GPU_GONE,
        lambda a: {name: a.fields.get(name) for name in SUBJECT_FIELDS},
    ),
    EventMark("collective", lambda a: a in TOOK_PART, _collective),
    EventMark(
        "named ranks",
        lambda a: a in NAMES_CULPRIT,
        lambda a: {name: a.fields.get(name) for name in NAMED_RANKS},
    ),
    EventMark("attempt", lambda _: True, _attempt),
    EventMark("peer", lambda _: True, _peer),
)
"""The kinds of marks. Each one that fits an alert adds its values to the alert's marks.

Two alerts can report one event if no value that both have differs.
"""


def subject_of(alert: Alert) -> Key:
    """Return the key of the alert's subject: equal for all alerts that can report the same event."""
    row = next(row for row in SUBJECTS if row.of(alert))
    return row.name, *row.key(alert)


def marks_of(alert: Alert) -> Marks:
    """Return the values that separate two events of one subject, as far as the line has them."""
    return {
        name: value
        for row in MARKS
        if row.of(alert)
        for name, value in row.values(alert).items()
        if value is not None
    }
