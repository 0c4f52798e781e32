"""A node that says everything a terminal should not hear, in every string that it can send."""

from __future__ import annotations

from gpuwatch import wire
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, Content, LinkStatus, Refused
from tests.tui.still import NOW, StillSession

POISON = "\x1b[2J\x1b]52;c;cHduZWQ=\x07\x9b31m\x90q\u202eevil\u2066[bold red]x[/]\r\n"
NAME = "mean"


GPUS = [
    wire.GpuInfo(uuid=f"GPU-{n}{POISON}", index=n, name=POISON, bus_id=POISON, serial=POISON, vbios=POISON)
    for n in range(2)
]


def hostile_session() -> StillSession:
    """One node, two GPUs, of which one is stuck, and poison in every text."""
    frames: list[Content] = [
        LinkStatus("live", reason=POISON, noise=POISON),
        hello(),
        wire.Sample(t=2.0, seq=1, gpus=gpus(), host=host()),
        wire.Ranks(t=2.0, seq=2, processes=[process()], partial=POISON),
        wire.Event(t=2.0, seq=3, event="xid", title=POISON, detail=POISON, remedy=POISON, gpu=GPUS[0].uuid),
        Refused(POISON),
    ]
    plan = Plan(nodes=(NodeSpec(NAME),), source=POISON)
    return StillSession(plan, [Arrival(NAME, NOW, frame) for frame in frames])


def hello() -> wire.Hello:
    return wire.Hello(
        t=1.0,
        seq=0,
        host=POISON,
        agent=POISON,
        python=POISON,
        pid=1,
        interval_s=1.0,
        gpus=GPUS,
        driver=POISON,
        cuda=POISON,
        kernel=POISON,
        os=POISON,
        cpu_model=POISON,
        kernel_log=POISON,
        notices=[wire.Notice(POISON, POISON, "warning", POISON)],
        topology=wire.Topology([each.uuid for each in GPUS], [["X", POISON], [POISON, "X"]]),
    )


def gpus() -> list[wire.GpuSample]:
    works, hangs = GPUS
    fast = wire.GpuFast(t=2.0, utilization_pct=50.0, throttle=[POISON], throttle_pct={POISON: 90.0})
    slow = wire.GpuSlow(t=2.0, recovery_action=POISON, nvlink_errors={POISON: 3})
    return [
        wire.GpuSample(works.uuid, fast=fast, slow=slow, missing={POISON: POISON}),
        wire.GpuSample(hangs.uuid, state="stuck", reason=POISON, stuck_in=POISON, stuck_s=9.0, fast=fast),
    ]


def host() -> wire.HostSample:
    return wire.HostSample(
        t=2.0,
        nics=[wire.Nic(POISON, POISON)],
        ib=[wire.IbPort(POISON, 1, POISON, errors={POISON: 1})],
        disks=[wire.Disk(POISON, POISON)],
    )


def process() -> wire.Process:
    return wire.Process(
        pid=7,
        name=POISON,
        user=POISON,
        command=POISON,
        state="\x1b",
        job=POISON,
        container=POISON,
        gpus=[wire.ProcessGpu(GPUS[0].uuid)],
    )
