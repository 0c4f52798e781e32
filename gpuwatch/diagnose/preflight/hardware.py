"""Checks from the conditions of nodes and GPUs, one for each kind of problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from gpuwatch.diagnose.health.remedies import REMEDIES
from gpuwatch.diagnose.model.condition import Condition, Evidence
from gpuwatch.diagnose.preflight.check import (
    NO_GPU,
    Check,
    PreflightData,
    Status,
    by_sentence,
    listed,
    passed,
    skipped,
)
from gpuwatch.fleet.nodes.node import STARTING, Gpu, Node
from gpuwatch.number_text import bit_rate, counted, ranges


class Kind(Struct, frozen=True):
    """A kind of hardware problem: its check fails, or warns, if one of its conditions holds."""

    id: str
    well: str
    """The text for PASS."""
    codes: tuple[str, ...]
    known: Callable[[Gpu], bool] | None = None
    """Returns True if a GPU provides what the check needs; None: it is a check of nodes."""
    reported: Callable[[Node], bool] | None = None
    """Returns True if a node provides what the check needs; None: any connected node does."""
    warn: tuple[str, ...] = ()
    """Codes of conditions that result in WARN instead of FAIL."""


KINDS = (
    Kind(
        "gpu.present",
        "every GPU responds",
        ("gpu_lost", "gpu_stuck", "gpu_stale", "gpu_unanswered", "values_unreadable"),
    ),
    Kind("gpu.count", "all GPUs on the bus are listed", ("gpu_missing",)),
    Kind(
        "gpu.driver",
        "NVML works",
        ("driver_mismatch", "library_missing", "driver_not_loaded", "nvml_error", STARTING),
    ),
    Kind(
        "gpu.ecc",
        "no uncorrected ECC errors",
        ("ecc_uncorrected",),
        lambda gpu: gpu.slow is not None and gpu.slow.ecc_uncorrected is not None,
    ),
    Kind(
        "gpu.remap",
        "no pending row remapping or page retirement",
        ("remap_failed", "remap_pending", "retired_pending"),
        lambda gpu: gpu.slow is not None and gpu.slow.remap_pending is not None,
        warn=("remap_pending", "retired_pending"),
    ),
    Kind(
        "gpu.recovery",
        "no GPU requires a reset",
        ("recovery_action",),
        lambda gpu: gpu.slow is not None and gpu.slow.recovery_action is not None,
    ),
    Kind(
        "gpu.clocks",
        "no GPU is throttled by heat or power",
        ("hw_thermal", "sw_thermal", "power_brake", "temperature", "memory_temperature"),
        lambda gpu: gpu.fast is not None and gpu.fast.throttle is not None,
        warn=("sw_thermal", "temperature", "memory_temperature"),
    ),
    Kind(
        "gpu.pcie",
        "PCIe at full generation and width where a GPU is busy",
        ("pcie_degraded", "pcie_replays"),
        lambda gpu: gpu.medium is not None and gpu.medium.pcie_gen is not None,
        warn=("pcie_replays",),
    ),
    Kind(
        "gpu.nvlink",
        "all NVLinks are up",
        ("nvlink_down", "nvlink_errors"),
        lambda gpu: gpu.slow is not None and gpu.slow.nvlink_active is not None,
        warn=("nvlink_errors",),
    ),
    Kind(
        "gpu.xid",
        "no Xid in the last hour",
        ("xid",),
        reported=lambda node: node.hello is not None and node.hello.kernel_log is not None,
    ),
    Kind(
        "host.memory",
        "host memory is not full",
        ("host_memory",),
        reported=lambda node: node.host is not None and node.host.memory_total_bytes is not None,
        warn=("host_memory",),
    ),
    Kind(
        "host.disk",
        "no disk is nearly full",
        ("disk_full",),
        reported=lambda node: node.host is not None and bool(node.host.disks),
        warn=("disk_full",),
    ),
    Kind(
        "host.clock",
        "clocks agree within 1 s",
        ("clock_off",),
        reported=lambda node: node.clock is not None,
        warn=("clock_off",),
    ),
)


def hardware(case: PreflightData) -> Iterator[Check]:
    """Yield the checks of each kind, then those of persistence mode, memory, ports and fabric manager."""
    for kind in KINDS:
        yield of_kind(kind, case)
    yield persistence(case)
    yield memory(case)
    yield ports(case)
    yield fabric_manager(case)


def of_kind(kind: Kind, case: PreflightData) -> Check:
    """Return the `Check` for one kind of problem; PASS if nothing is wrong wherever it is known.

    The text states for how many GPUs or nodes it is not known; SKIP if it is known for none.
    """
    reported = [
        (node, c)
        for node, c in [*case.conditions, *unanswered_drivers(case)]
        if c.code in kind.codes and (c.severity != "info" or c.code == "gpu_unanswered")
    ]
    gpus = [gpu for node in case.nodes for gpu in node.gpus.values()]
    if reported:
        status: Status = "WARN" if all(c.code in kind.warn for _, c in reported) else "FAIL"
        detail = by_sentence((node, f"{c.sentence} ({c.evidence})") for node, c in reported)
        return Check(
            kind.id,
            status,
            detail,
            tuple(dict.fromkeys(node for node, _ in reported)),
            REMEDIES.get(reported[0][1].code, ""),
        )
    if kind.id.startswith("gpu.") and not gpus:
        return skipped(kind.id, NO_GPU)
    if kind.known is not None:
        known = sum(1 for gpu in gpus if kind.known(gpu))
        if not known:
            return skipped(kind.id, "not reported by any GPU")
        part = "" if known == len(gpus) else f"; not known for {len(gpus) - known}"
        return passed(kind.id, f"{kind.well}: {counted(known, 'GPU')}{part}")
    nodes = [node for node in case.nodes if kind.reported is None or kind.reported(node)]
    if not nodes:
        return skipped(kind.id, "not reported by any node")
    part = "" if len(nodes) == len(case.nodes) else f"; not known for {len(case.nodes) - len(nodes)}"
    return passed(kind.id, f"{kind.well}: {counted(len(nodes), 'node')}{part}")


def unanswered_drivers(case: PreflightData) -> Iterator[tuple[str, Condition]]:
    """Yield (node, condition) for drivers whose init has not returned: the state of their GPUs is unknown."""
    for node in case.nodes:
        if notice := node.driver_starting:
            waited = Evidence("waited for", round(node.agent_s(case.now), 1), " s")
            yield node.name, Condition(STARTING, "warning", notice.text, waited)


def persistence(case: PreflightData) -> Check:
    """Return the `Check` that persistence mode is on: otherwise the driver may unload between jobs."""
    gpus = [(node, gpu) for node in case.nodes for gpu in node.gpus.values()]
    known = [(node, gpu) for node, gpu in gpus if gpu.info.persistence is not None]
    if not known:
        return skipped("gpu.persistence", "not reported by any GPU")
    off = [node.name for node, gpu in known if not gpu.info.persistence]
    if not off:
        return passed("gpu.persistence", f"persistence mode is on: {counted(len(known), 'GPU')}")
    remedy = "Run `nvidia-smi -pm 1`, or start nvidia-persistenced, on these nodes."
    detail = f"persistence mode is off on {counted(len(off), 'GPU')}"
    return Check("gpu.persistence", "WARN", detail, tuple(dict.fromkeys(off)), remedy)


FREE_PCT = 90.0
"""Percent of GPU memory that must be free for a new job that uses whole GPUs."""


def memory(case: PreflightData) -> Check:
    """Return the `Check` that every GPU without a rank has at least FREE_PCT percent of its memory free."""
    id_ = "gpu.memory"
    ours = {hold.uuid for rank in case.ranks for hold in rank.process.gpus}
    reported, known = [], 0
    for node in case.nodes:
        for gpu in node.gpu_list():
            fast = gpu.fast
            if fast is None or fast.memory_used_bytes is None or not fast.memory_total_bytes:
                continue
            known += 1
            free = 100.0 * (1 - fast.memory_used_bytes / fast.memory_total_bytes)
            if gpu.info.uuid not in ours and free < FREE_PCT:
                reported.append((node.name, gpu.info.index, f"{free:.0f} % free{_who(node, gpu)}"))
    if not known:
        return skipped(id_, "no GPU reports its memory")
    if not reported:
        return passed(id_, f"memory is free, or held by a rank: {counted(known, 'GPU')}")
    remedy = (
        "End the processes that hold it before a job starts there; if none is shown, look in other "
        "containers."
    )
    return Check(
        id_,
        "WARN",
        by_sentence(_gpus_together(reported)),
        tuple(dict.fromkeys(n for n, _, _ in reported)),
        remedy,
    )


def _gpus_together(reported: Iterable[tuple[str, int, str]]) -> Iterator[tuple[str, str]]:
    """Yield (node, `GPUs 0-7 50 % free`) for (node, GPU, text) that differ in the GPU only."""
    gpus: dict[tuple[str, str], list[int]] = {}
    for node, gpu, what in reported:
        gpus.setdefault((node, what), []).append(gpu)
    for (node, what), found in gpus.items():
        yield node, f"GPU{'s' if len(found) > 1 else ''} {ranges(found)} {what}"


def _who(node: Node, gpu: Gpu) -> str:
    holders = [
        f"pid {process.pid} {process.name}"
        for process in node.processes
        if any(hold.uuid == gpu.info.uuid for hold in process.gpus)
    ]
    return f" (held by {', '.join(holders[:3])})" if holders else ""


def ports(case: PreflightData) -> Check:
    """Return the `Check` that InfiniBand and RoCE ports are up, and InfiniBand ports equally fast."""
    id_ = "net.ib"
    known = [(node.name, port) for node in case.nodes if node.host for port in node.host.ib or ()]
    if not known:
        return skipped(id_, "no node has an InfiniBand or RoCE port")
    best = max((port.rate_gbps or 0.0) for _, port in known)
    reported = []
    for node, port in known:
        where = f"{node} {port.device}/{port.port}"
        if port.state is not None and port.state != "ACTIVE":
            reported.append((node, f"{where} is {port.state}"))
        elif port.rate_gbps is not None and port.rate_gbps < best and port.link_layer == "InfiniBand":
            reported.append((node, f"{where} at {port.rate_gbps:g} of {bit_rate(best)}"))
    if not reported:
        return passed(id_, f"{counted(len(known), 'port')} up at full rate ({bit_rate(best)})")
    nodes = tuple(dict.fromkeys(node for node, _ in reported))
    return Check(id_, "FAIL", listed(text for _, text in reported), nodes, REMEDIES["ib_down"])


def fabric_manager(case: PreflightData) -> Check:
    """Return the `Check` that the fabric manager runs: with NVSwitches no CUDA program starts without it."""
    id_ = "gpu.fabric"
    known = {
        node: reported.fabric_manager
        for node, reported in case.reported.items()
        if reported.fabric_manager is not None
    }
    if not known:
        return skipped(id_, "no node has NVSwitches")
    off = tuple(node for node, runs in known.items() if not runs)
    if not off:
        return passed(id_, f"the fabric manager is running on {counted(len(known), 'node')}")
    remedy = "Run `systemctl start nvidia-fabricmanager`; its version must be that of the driver."
    detail = f"the fabric manager is not running on {counted(len(off), 'node')}"
    return Check(id_, "FAIL", detail, off, remedy)
