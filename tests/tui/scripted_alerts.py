"""Alerts and incidents made by hand, as the alert book makes those of the demo's scripted incident."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import structs

from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.incident import HangCheck, Incident, Moment
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.diagnose.past_jobs.jobs import EndedJob
from gpuwatch.link.demo import texts
from gpuwatch.link.demo.links import EPOCH, SEED
from gpuwatch.link.demo.scenario import FALL_AT, reports_at

FELL = EPOCH + FALL_AT
LOST_RANK = 85


def xid_alert() -> Alert:
    """The kernel's word for the lost GPU."""
    proof = Proof("line", texts.fall_record(), FELL, node="gpu-011", file="kernel log", offset=15)
    return Alert(
        "a-xid", "gpu.xid.fell_off", "critical", "Xid 79: GPU fell off the bus",
        "Xid 79, GPU fell off the bus", (proof,), node="gpu-011", gpu=5, rank=LOST_RANK,
        rank_from="process", job="418207", first=FELL, last=FELL, fields={"xid": 79}, kernel=True,
        parts=("a-xid", "gpu_lost@gpu-011:5"),
    )  # fmt: skip


def timeout_alert(rank: int) -> Alert:
    """What a rank prints that waited for another."""
    place = rank // 8, rank % 8
    node = f"gpu-{place[0] + 1:03}"
    log = texts.rank_log(texts.Writer(SEED, *place[:1], node, place[1], 128, EPOCH))
    number = log.count(reports_at(SEED, *place)) - 1
    line = log.line(number)
    at = EPOCH + line.second
    proof = Proof("line", line.text, at, node=node, file=log.path, offset=line.offset, lines=(line.text,))
    return Alert(
        f"a-{rank}", "nccl.watchdog_timeout", "critical", "NCCL collective timed out",
        "timed out in ALLREDUCE seq 2381 after 30 s", (proof,), role="first", node=node, gpu=place[1],
        rank=rank, rank_from="process", job="418207", first=at, last=at,
        fields={"op": "ALLREDUCE", "seq": 2381},
    )  # fmt: skip


def disk_alert() -> Alert:
    """An alert without a line."""
    proof = Proof("value", "/scratch 96.1 % full, limit 95 %", EPOCH + 12, node="gpu-004")
    return Alert(
        "a-disk", "disk_full", "warning", "disk nearly full", "/scratch is 96.1 % full", (proof,),
        node="gpu-004", first=EPOCH + 12, last=EPOCH + 52,
    )  # fmt: skip


def demo_incident() -> Incident:
    """The scripted incident after the watchdogs gave up."""
    others = [rank for rank in range(128) if rank != LOST_RANK]
    alerts = (xid_alert(), *map(timeout_alert, others))
    first, last = min(a.first for a in alerts[1:]), max(a.first for a in alerts[1:])
    timeline = (
        Moment(FELL - 8.8, FELL - 1.1, "corrected PCIe errors on 0000:c3:00.0", "hint", "pcie.aer", "gpu-011",
               count=3),
        Moment(FELL, FELL, "Xid 79, GPU fell off the bus", "root", "gpu.xid.fell_off", "gpu-011",
               (LOST_RANK,), alert="a-xid"),
        Moment(first, last, "timed out in ALLREDUCE seq 2381 after 30 s", "first", "nccl.watchdog_timeout",
               None, tuple(others), 127, "a-0"),
    )  # fmt: skip
    return Incident(
        id="i-1",
        number=1,
        headline="rank 85 (gpu-011 GPU 5): Xid 79, GPU fell off the bus 08:00:45; 127 ranks then timed out "
        "in ALLREDUCE seq 2381",
        code="gpu.xid.fell_off",
        severity="critical",
        first=FELL,
        last=last,
        rank=LOST_RANK,
        node="gpu-011",
        gpu=5,
        job="418207",
        confidence="high",
        because="the kernel log of gpu-011 names the GPU, and its rank is the only one that says nothing",
        settle=("look for BMC events of gpu-011 at that second: `ipmitool sel elist | tail`",),
        cause=alerts[0],
        alerts=alerts,
        followers=127,
        silent=(LOST_RANK,),
        timeline=timeline,
        explain="The GPU no longer answers on PCIe: power, riser, heat or a bus error. Only a power cycle "
        "brings it back.",
        do=(
            "Take the node out of the scheduler: `scontrol update nodename=gpu-011 state=drain reason=xid79`",
            "Power-cycle it (a warm reboot is often not enough), then run a health check before it returns",
            "Restart the job from its last checkpoint on the other nodes",
        ),
        links=("https://docs.nvidia.com/deploy/xid-errors/",),
    )


class StillBook:
    """A book that returns the given alerts."""

    ended_jobs: tuple[EndedJob, ...] = ()
    checkpoints: Mapping[str | None, Checkpoint] = MappingProxyType({})

    def __init__(self, incidents: Sequence[Incident] = (), alerts: Sequence[Alert] = ()) -> None:
        self.incidents = list(incidents)
        self.alerts = {alert.id: alert for each in incidents for alert in each.alerts}
        self.alerts |= {alert.id: alert for alert in alerts}
        self.version = 1

    def keep_hang_check(self, ident: str, hang_check: HangCheck) -> None:
        """Keep it, as the book does."""
        self.version += 1
        self.incidents = [
            structs.replace(each, hang_check=hang_check) if each.id == ident else each
            for each in self.incidents
        ]

    def acknowledge(self, ident: str, *, on: bool) -> None:
        """Mark it."""
        self.version += 1
        self.incidents = [
            structs.replace(each, acknowledged=on) if each.id == ident else each for each in self.incidents
        ]
        if alert := self.alerts.get(ident):
            self.alerts[ident] = structs.replace(alert, acknowledged=on)

    def silence(self, code: str, node: str | None, gpu: int | None, rank: int | None, *, on: bool) -> None:
        """Mark the alerts that are meant."""
        self.version += 1
        for ident, alert in self.alerts.items():
            wanted = ((node, alert.node), (gpu, alert.gpu), (rank, alert.rank))
            if alert.code == code and all(want in (None, own) for want, own in wanted):
                self.alerts[ident] = structs.replace(alert, silenced=on)


def demo_book() -> StillBook:
    """The incident of the demo, and an alert beside it."""
    return StillBook([demo_incident()], [disk_alert()])
