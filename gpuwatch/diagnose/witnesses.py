"""The same thing told twice is one alert: a kernel line and the driver's event, one line in two files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from msgspec import structs

from gpuwatch.diagnose.alert import Alert
from gpuwatch.diagnose.classes import EXITS
from gpuwatch.diagnose.condition import ORDER

XID_SAME_S = 10.0
"""The kernel's stamp and the driver's event of one Xid differ by less (as in the agent's own join)."""
COPY_SAME_S = 2.0
"""A line and its copy in another file (tee, Slurm's output): stamped as they were read."""
END_SAME_S = 120.0
"""A launcher tells of one process's end in a line and once more in its table."""
LOST_SAME_S = 180.0
"""A GPU that fell off the bus is noticed by the next driver call, or when that call comes back."""
LOST = ("gpu_lost", "gpu_stuck", "gpu.lost", "gpu_missing")


def joined(alerts: Iterable[Alert]) -> list[Alert]:
    """Alerts by time, those of one thing made one, with the proofs of all."""
    ordered = sorted(alerts, key=lambda alert: (alert.first, alert.id))
    kept: list[Alert] = []
    by_thing: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for alert in ordered:
        thing = _thing(alert)
        twin = None if thing is None else _twin(alert, kept, by_thing[thing])
        if twin is None:
            if thing is not None:
                by_thing[thing].append(len(kept))
            kept.append(alert)
        else:
            kept[twin] = together(kept[twin], alert)
    return _lost_with_xid(kept)


def together(one: Alert, other: Alert) -> Alert:
    """One alert of two: the one that knows more leads, and the other's proof stands behind it."""
    lead, second = (other, one) if _knows(other) > _knows(one) else (one, other)
    timed = [each for each in (one, other) if each.timed] or [one, other]
    return structs.replace(
        lead,
        severity=min(one.severity, other.severity, key=ORDER.index),
        proof=lead.proof + tuple(each for each in second.proof if each not in lead.proof),
        node=lead.node or second.node,
        gpu=lead.gpu if lead.gpu is not None else second.gpu,
        rank=lead.rank if lead.rank is not None else second.rank,
        job=lead.job or second.job,
        first=min(each.first for each in timed),
        last=max(one.last, other.last),
        timed=one.timed or other.timed,
        fields={**second.fields, **lead.fields},
        state="resolved" if one.state == other.state == "resolved" else "firing",
        kernel=one.kernel or other.kernel,
    )


def _knows(alert: Alert) -> tuple[bool, bool, bool, int]:
    return alert.proof[0].kind == "line", alert.rank is not None, alert.timed, len(alert.fields)


def _thing(alert: Alert) -> tuple[object, ...] | None:
    """What two witnesses of one thing have in common; None: only its id can tell."""
    if alert.proof[0].kind == "value":
        return None
    xid = alert.fields.get("xid")
    if xid is not None:
        return "xid", alert.node, xid
    if alert.code in EXITS and "pid" in alert.fields:
        return "end", alert.code, alert.node, alert.fields["pid"]
    if alert.rank is None:
        return None
    return alert.code, alert.rank, alert.job, tuple(sorted(alert.fields.items()))


def _twin(alert: Alert, kept: list[Alert], candidates: list[int]) -> int | None:
    for index in reversed(candidates):
        other = kept[index]
        near = abs(alert.first - other.first)
        if "xid" in alert.fields:
            same_gpu = None in (alert.gpu, other.gpu) or alert.gpu == other.gpu
            kinds = {alert.proof[0].kind, other.proof[0].kind}
            files = {alert.proof[0].file, other.proof[0].file}
            if same_gpu and near <= XID_SAME_S and (len(kinds) > 1 or len(files) > 1):
                return index
        elif alert.code in EXITS and "pid" in alert.fields:
            if near <= END_SAME_S:
                return index
        elif near <= COPY_SAME_S and _copies(alert, other):
            return index
    return None


def _copies(one: Alert, other: Alert) -> bool:
    """The same words in two files; a prefix that one of them adds does not make them two."""
    if one.proof[0].file == other.proof[0].file:
        return False
    short, long = sorted((one.proof[0].text.strip(), other.proof[0].text.strip()), key=len)
    return bool(short) and long.endswith(short)


def _lost_with_xid(alerts: list[Alert]) -> list[Alert]:
    """A lost GPU and the Xid that says why are one thing: the Xid, proven twice."""
    fallen = [a for a in alerts if a.code == "gpu.xid.fell_off" and a.node is not None]
    if not fallen:
        return alerts
    gone: set[str] = set()
    grown: dict[str, Alert] = {}
    for alert in alerts:
        if alert.code not in LOST:
            continue
        for xid in fallen:
            same_gpu = alert.node == xid.node and (alert.gpu == xid.gpu or None in (alert.gpu, xid.gpu))
            if same_gpu and -XID_SAME_S <= alert.first - xid.first <= LOST_SAME_S:
                base = grown.get(xid.id, xid)
                lost = alert.state == "firing"
                grown[xid.id] = structs.replace(
                    base,
                    proof=base.proof + alert.proof,
                    gpu=base.gpu if base.gpu is not None else alert.gpu,
                    rank=base.rank if base.rank is not None else alert.rank,
                    job=base.job or alert.job,
                    last=max(base.last, alert.last),
                    state="firing" if lost else base.state,
                )
                gone.add(alert.id)
                break
    return [grown.get(alert.id, alert) for alert in alerts if alert.id not in gone]
