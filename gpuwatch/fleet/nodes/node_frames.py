"""Stores a node's frames about itself and its GPUs."""

from __future__ import annotations

from msgspec import structs

from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.number_text import duration
from gpuwatch.wire import Event, GpuSample, Hello, HostSample, Sample


def reboot_event(node: Node, hello: Hello) -> Event | None:
    """Return a reboot event if an ssh node's boot id changed; else None.

    It is dated when the node last answered: its ranks ended then, and a boot takes minutes. Only ssh nodes:
    a pod of the same name may run on another machine. None also if the host name changed.
    """
    before = node.hello
    if before is None or node.spec.link != "ssh" or None in (before.boot_id, hello.boot_id):
        return None
    if before.boot_id == hello.boot_id or before.host != hello.host:
        return None
    answered_at = hello.t if node.host is None else min(node.host.t, hello.t)
    detail = f"its boot id changed; it was away for {duration(hello.t - answered_at)}"
    return Event(
        t=answered_at, seq=hello.seq, event="reboot", title="Node rebooted", severity="error", detail=detail
    )


def take_hello(node: Node, hello: Hello) -> None:
    """Store a node's hello, its inventory; GPUs that it does not list any more are marked as lost.

    Those that had not been identified are removed instead.
    """
    node.hello, node.interval_s, node.bye = hello, hello.interval_s, None
    for info in hello.gpus:
        known = node.gpus.get(info.uuid)
        if known is None:
            node.gpus[info.uuid] = Gpu(info, node.name)
        else:
            known.info = info
    present = {info.uuid for info in hello.gpus}
    for gpu in [gpu for gpu in node.gpus.values() if not gpu.info.identified]:
        if gpu.info.uuid not in present:
            del node.gpus[gpu.info.uuid]  # the GPU has been identified
    for uuid, gpu in node.gpus.items():
        if uuid not in present and gpu.state != "lost":
            gpu.state, gpu.reason = "lost", "no longer listed by the driver"
            gpu.version += 1


def take_sample(node: Node, sample: Sample, at: float) -> None:
    """Store the readings of a node and its known GPUs, each with its own age; those of others are ignored."""
    node.events_held = sample.events_held
    if sample.agent is not None:
        before = None if node.cost is None else node.cost.dropped
        if sample.agent.dropped and sample.agent.dropped != before:
            node.dropped_at = at
        node.cost = sample.agent
    if sample.host is not None:
        _take_host(node, sample.host, at - max(0.0, sample.t - sample.host.t))
    for reading in sample.gpus:
        gpu = node.gpus.get(reading.uuid)
        if gpu is not None:
            _take_gpu(gpu, reading, node.interval_s, sample.t, at)


def _take_host(node: Node, host: HostSample, at: float) -> None:
    """Store the values of the host.

    Disks are only in about every 30th sample: the last ones are kept, with their own age.
    """
    if host.disks is not None:
        node.disks_at = at
    elif node.host is not None and node.host.disks is not None:
        host = structs.replace(host, disks=node.host.disks)
    node.host, node.host_at = host, at
    node.host_history.add(at, host, node.interval_s)


def _take_gpu(gpu: Gpu, reading: GpuSample, interval_s: float, sent: float, at: float) -> None:
    gpu.version += 1
    gpu.state, gpu.reason, gpu.stuck_in = reading.state, reading.reason, reading.stuck_in
    gpu.stuck_at = None if reading.stuck_s is None else at - reading.stuck_s
    if reading.missing is not None:
        gpu.missing = reading.missing
    if reading.fast is not None:
        gpu.fast, gpu.fast_at = reading.fast, at - max(0.0, sent - reading.fast.t)
        if gpu.first_fast_at is None:
            gpu.first_fast_at = gpu.fast_at
        gpu.history.add(gpu.fast_at, reading.fast, interval_s)
    if reading.medium is not None:
        gpu.medium, gpu.medium_at = reading.medium, at - max(0.0, sent - reading.medium.t)
    if reading.slow is not None:
        gpu.slow, gpu.slow_at = reading.slow, at - max(0.0, sent - reading.slow.t)
