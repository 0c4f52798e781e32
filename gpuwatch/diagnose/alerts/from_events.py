"""Alerts from events that an agent reads from the driver and the kernel."""

from __future__ import annotations

from gpuwatch.agent.kernel.xid_table import FOLLOW_UPS, meaning
from gpuwatch.diagnose.alerts.rank_ends import alert_of_end, alert_of_launcher
from gpuwatch.diagnose.error_outcome.observed_end import LAUNCHER_ENDED, RANK_ENDED
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.failure_classes import REBOOTED, RulePacks, stated_class
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.model.text import what
from gpuwatch.rules.model import rule_ids
from gpuwatch.wire import Event, Role


def alert_of_event(
    node: str, event: Event, packs: RulePacks, where: RankIndex, offset_s: float
) -> Alert | None:
    """Return an alert for an Xid, SXid, ECC event, reboot, failed rank or killed launcher.

    None: another event (a condition reports it), or an end for which `rank_ends` gives no alert.
    `offset_s`: clock of the node minus the clock of this machine.
    """
    if event.event == RANK_ENDED:
        return alert_of_end(node, event, packs, where, offset_s)
    if event.event == LAUNCHER_ENDED:
        return alert_of_launcher(node, event, where, offset_s)
    fields: dict[str, str | int | float] = {}
    role: Role = "root"
    if event.event == "xid" and event.code is not None:
        code, fields["xid"] = meaning(event.code, event.detail)[0], event.code
        role = "echo" if event.code in FOLLOW_UPS else "root"
    elif event.event == "sxid":
        code = rule_ids.GPU_NVSWITCH_SXID
        if event.code is not None:
            fields["sxid"] = event.code
    elif event.event == "ecc":
        code = rule_ids.CUDA_ECC
    elif event.event == "reboot":
        code = REBOOTED
    else:
        return None
    rule = packs.by_id.get(code)
    at = event.t - offset_s
    place = None if event.gpu is None else where.by(node, "uuid", event.gpu, at=at)
    gpu = where.gpu(node, event.gpu, None)
    text = "rebooted" if code == REBOOTED else what(code, event.title, fields)
    return Alert(
        id=f"{event.event}:{event.code}@{node}:{event.gpu or ''}:{event.t:.3f}",
        code=code,
        stated=stated_class(rule),
        severity=event.severity,
        title=event.title if rule is None else rule.title,
        text=text,
        proof=(Proof("event", event.detail or event.title, at, node=node),),
        role=role,
        node=node,
        gpu=gpu if place is None or place.gpu is None else place.gpu,
        rank=None if place is None else place.rank,
        rank_from=None if place is None else "process",
        job=None if place is None else place.job,
        first=at,
        last=at,
        count=event.count,
        fields=fields,
        kernel=True,
    )
