"""Checks of versions and variables that must be equal, and of limits that must be high enough."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf

from gpuwatch.diagnose.preflight.check import (
    Check,
    PreflightData,
    PreflightRank,
    by_job,
    differing,
    listed,
    odd_ones,
    passed,
    same,
    skipped,
)
from gpuwatch.diagnose.preflight.hang_evidence import hang_evidence
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.number_text import counted, gibibytes, limit_text
from gpuwatch.wire import UNLIMITED, NodeSettings

SHM_BYTES = 8 << 30
"""Minimum size of /dev/shm, which data loaders and NCCL use; the default of containers is 64 MiB."""
SHM_LEAST_BYTES = 1 << 30
MIN_NOFILE = 65_536
"""Minimum open-file limit: sockets and files of NCCL and data loaders with hundreds of ranks."""
NO_RANK = "no rank detected, or none reports its settings"
FSDP_TORCH = 2
"""First torch version with FSDP's `use_orig_params`, which trainers use."""
TORCH = re.compile(r"(\d{1,4})\.\d{1,4}[^+]{0,40}(?:\+cu(\d{2})\d)?")
"""Matches the major versions of torch and of the CUDA that it was built for (`2.3.1+cu121`).

A driver runs every minor version of its CUDA (NVIDIA's minor version compatibility), and older ones.
"""
MAY_DIFFER = frozenset(
    (
        "CUDA_VISIBLE_DEVICES",
        "NCCL_DEBUG_FILE",
        "NCCL_SOCKET_IFNAME",
        "NCCL_TOPO_FILE",
        "GLOO_SOCKET_IFNAME",
        "LOCAL_WORLD_SIZE",
    )
)
"""Environment variables that may differ between nodes or ranks."""
OWN_VALUE = frozenset(("NCCL_IB_HCA", "NCCL_HOSTID", "UCX_NET_DEVICES", "SLURM_GPUS_ON_NODE"))
OWN_VALUE_ENDS = ("_FILE", "_PATH", "_DIR", "_DIRECTORY")
"""Suffixes of variables with device names or paths, which differ by node: only their absence is reported."""
WARNED_OF: Mapping[str, tuple[str, str]] = {
    "NCCL_IB_DISABLE=1": ("InfiniBand is switched off", "unset NCCL_IB_DISABLE"),
    "NCCL_P2P_DISABLE=1": (
        "GPUs communicate through host memory, not over NVLink or PCIe P2P",
        "unset NCCL_P2P_DISABLE",
    ),
    "NCCL_SHM_DISABLE=1": (
        "NCCL does not use shared memory between ranks of a node; without P2P, their data takes the network",
        "unset NCCL_SHM_DISABLE",
    ),
    "NCCL_NET_GDR_LEVEL=0": ("GPUDirect RDMA is switched off", "unset NCCL_NET_GDR_LEVEL"),
    "NCCL_BLOCKING_WAIT=1": ("every collective waits for the host", "unset NCCL_BLOCKING_WAIT"),
    "TORCH_NCCL_BLOCKING_WAIT=1": ("every collective waits for the host", "unset TORCH_NCCL_BLOCKING_WAIT"),
    "CUDA_LAUNCH_BLOCKING=1": ("every kernel waits for the host", "unset CUDA_LAUNCH_BLOCKING"),
    "NCCL_DEBUG=TRACE": ("every rank writes a line for every call", "NCCL_DEBUG=WARN"),
}
"""Debugging setting -> what it slows down when it is left on, and the remedy."""


def software(case: PreflightData) -> Iterator[Check]:
    """Yield the checks of versions, limits and variables."""
    nodes = case.nodes
    driver = {node.name: node.hello.driver if node.hello else None for node in nodes if node.gpus}
    yield same("versions.driver", "driver", driver, "Install one driver version on all nodes.")
    cuda = {node.name: node.hello.cuda if node.hello else None for node in nodes if node.gpus}
    yield same("versions.cuda", "CUDA", cuda, "Install one driver version on all nodes.")
    kernel = {node.name: node.hello.kernel if node.hello else None for node in nodes}
    yield same("versions.kernel", "kernel", kernel, "Boot all nodes into one kernel.", fail=False)
    yield same(
        "gpu.model",
        "GPUs",
        {node.name: _models(node) for node in nodes if node.gpus},
        "Use nodes with the same GPU model.",
    )
    yield of_ranks(
        "versions.torch", "torch", case, lambda rank: rank.reported.torch if rank.reported else None
    )
    yield torch_fits(case)
    yield of_ranks("versions.nccl", "NCCL", case, lambda rank: rank.reported.nccl if rank.reported else None)
    yield of_ranks(
        "versions.python", "python", case, lambda rank: rank.reported.python if rank.reported else None
    )
    yield shared_memory(case.reported)
    yield memlock(case)
    yield open_files(case)
    yield variables(case)
    yield settings_that_slow(case)
    yield hang_evidence(case)
    yield visible_devices(case)


def _models(node: Node) -> str | None:
    names = [gpu.info.name for gpu in node.gpu_list() if gpu.info.identified]
    kinds = {name: names.count(name) for name in names}
    return " + ".join(f"{number} x {name}" for name, number in kinds.items()) or None


def torch_fits(case: PreflightData) -> Check:
    """Return the `Check` that torch is new enough for FSDP, and that the node's driver supports its CUDA."""
    id_ = "versions.torch_cuda"
    cuda = {node.name: node.hello.cuda for node in case.nodes if node.hello is not None}
    known = [(rank, rank.reported.torch) for rank in case.ranks if rank.reported and rank.reported.torch]
    if not known:
        return skipped(id_, NO_RANK)
    old = [rank for rank, torch in known if (found := TORCH.match(torch)) and int(found[1]) < FSDP_TORCH]
    unfit = {
        f"{rank.name} on {rank.node}: torch {torch}, driver for CUDA {driver}": rank.node
        for rank, torch in known
        if (found := TORCH.match(torch))
        and found[2]
        and (driver := cuda.get(rank.node))
        and driver.partition(".")[0].isdecimal()
        and int(found[2]) > int(driver.partition(".")[0])
    }
    if unfit:
        nodes = tuple(dict.fromkeys(unfit.values()))
        remedy = "Install a newer driver, or a torch that was built for an older CUDA."
        return Check(id_, "FAIL", listed(unfit), nodes, remedy)
    if old:
        text = f"torch below {FSDP_TORCH}.0, which FSDP needs: {listed(rank.name for rank in old)}"
        return Check(
            id_, "WARN", text, tuple(dict.fromkeys(rank.node for rank in old)), "Install a newer torch."
        )
    return passed(
        id_, f"torch has FSDP and a CUDA version that its driver supports: {counted(len(known), 'rank')}"
    )


def of_ranks(id_: str, what: str, case: PreflightData, value: Callable[[PreflightRank], str | None]) -> Check:
    """Return the `Check` that all ranks of a job have the same value."""
    if not case.ranks:
        return skipped(id_, "no rank detected")
    reported: list[str] = []
    apart: list[str] = []
    nodes: dict[str, None] = {}
    for job, ranks in by_job(case.ranks).items():
        known = {rank.name: version for rank in ranks if (version := value(rank))}
        if len(set(known.values())) > 1:
            apart.append(f"{job}: {differing(by_node(known, ranks))}")
            odd = set(odd_ones(known))
            nodes |= dict.fromkeys(rank.node for rank in ranks if rank.name in odd)
        elif known:
            reported.append(f"{what} {next(iter(known.values()))}: {counted(len(known), 'rank')} of {job}")
    if apart:
        return Check(id_, "FAIL", listed(apart), tuple(nodes), f"Start all ranks with the same {what}.")
    return passed(id_, listed(reported)) if reported else skipped(id_, f"no rank reports its {what}")


def shared_memory(reported: Mapping[str, NodeSettings]) -> Check:
    """Return the `Check` that /dev/shm is large: data loaders end with a bus error if it is too small."""
    id_ = "host.shm"
    sizes = {node: one.shm_total_bytes for node, one in reported.items() if one.shm_total_bytes is not None}
    if not sizes:
        return skipped(id_, "no node reports the size of /dev/shm")
    low = {node: size for node, size in sizes.items() if size < SHM_BYTES}
    if not low:
        least = gibibytes(min(sizes.values()))
        return passed(id_, f"at least {least} in /dev/shm: {counted(len(sizes), 'node')}")
    worst = min(low.values())
    detail = f"size of /dev/shm: {differing({node: gibibytes(size) for node, size in low.items()})}"
    remedy = "docker run --shm-size=64g (or --ipc=host); in Kubernetes an emptyDir of medium Memory there."
    return Check(id_, "FAIL" if worst < SHM_LEAST_BYTES else "WARN", detail, tuple(low), remedy)


def memlock(case: PreflightData) -> Check:
    """Return the `Check` that locked memory is unlimited: with RDMA, which pins memory, a limit is a FAIL."""
    id_ = "limits.memlock"
    known = [
        (rank, rank.reported.memlock_bytes)
        for rank in case.ranks
        if rank.reported and rank.reported.memlock_bytes
    ]
    if not known:
        return skipped(id_, NO_RANK)
    low = [rank for rank, limit in known if limit != UNLIMITED]
    if not low:
        return passed(id_, f"locked memory is unlimited: {counted(len(known), 'rank')}")
    rdma = any(node.host and node.host.ib for node in case.nodes)
    limits, nodes = node_limits(((rank.node, limit) for rank, limit in known), inf)
    reported = differing({node: kib(limit) for node, limit in limits.items()})
    detail = f"locked memory is limited for {counted(len(low), 'rank')}: {reported}"
    remedy = "Run `ulimit -l unlimited` before the launcher starts (LimitMEMLOCK=infinity in its unit)."
    if not rdma:
        return passed(id_, f"{detail}; no node has an RDMA port, which would need more")
    return Check(id_, "FAIL", detail, tuple(nodes), remedy)


def kib(limit: float) -> str:
    """Return a locked-memory limit (bytes) as text; infinity: `unlimited`."""
    return "unlimited" if limit == inf else limit_text(int(limit))


def node_limits(known: Iterable[tuple[str, int | None]], enough: float) -> tuple[dict[str, float], list[str]]:
    """Return the lowest limit of each node (inf: none, or unknown), and the nodes whose limit is too low.

    These are the nodes below both `enough` and the most common limit; if there are none, all below `enough`.
    `known`: (node, limit), one per rank.
    """
    limits: dict[str, float] = {}
    for node, limit in known:
        number = inf if limit is None or limit == UNLIMITED else float(limit)
        limits[node] = min(number, limits.get(node, inf))
    counts = Counter(limits.values())
    usual = max(counts, key=lambda one: (counts[one], one))
    under = [node for node, one in limits.items() if one < min(usual, enough)]
    return limits, under or [node for node, one in limits.items() if one < enough]


def open_files(case: PreflightData) -> Check:
    """Return the `Check` that every rank may open MIN_NOFILE files, as data loaders and sockets add up."""
    id_ = "limits.nofile"
    known = [(rank, rank.reported.nofile) for rank in case.ranks if rank.reported and rank.reported.nofile]
    if not known:
        return skipped(id_, NO_RANK)
    low = [(rank, limit) for rank, limit in known if limit not in (UNLIMITED, None) and limit < MIN_NOFILE]
    if not low:
        return passed(id_, f"{MIN_NOFILE:,} open files or more: {counted(len(known), 'rank')}")
    limits, nodes = node_limits(((rank.node, limit) for rank, limit in known), MIN_NOFILE)
    reported = differing({node: "unlimited" if one == inf else f"{one:,.0f}" for node, one in limits.items()})
    detail = f"open files are limited for {counted(len(low), 'rank')}: {reported}"
    return Check(
        id_, "WARN", detail, tuple(nodes), f"Run `ulimit -n {MIN_NOFILE}` before the launcher starts."
    )


def variables(case: PreflightData) -> Check:
    """Return the `Check` that NCCL variables are equal on all ranks of a job: otherwise ranks may hang.

    `MAY_DIFFER` are left out; of variables with their own value on each node, only their absence counts.
    """
    id_ = "env.equal"
    apart: list[str] = []
    nodes: dict[str, None] = {}
    compared = 0
    for job, ranks in by_job(case.ranks).items():
        reported = {rank.name: rank.reported.variables for rank in ranks if rank.reported}
        compared += len(reported) if len(reported) > 1 else 0
        for name in sorted({name for values in reported.values() for name in values} - MAY_DIFFER):
            its_own = name in OWN_VALUE or name.endswith(OWN_VALUE_ENDS)
            values = {
                rank: ("(set)" if its_own else one[name]) if name in one else "(not set)"
                for rank, one in reported.items()
            }
            if len(set(values.values())) > 1:
                odd = set(odd_ones(values))
                nodes |= dict.fromkeys(rank.node for rank in ranks if rank.name in odd)
                apart.append(f"{job}: {name} {differing(by_node(values, ranks))}")
    if apart:
        return Check(id_, "FAIL", listed(apart), tuple(nodes), "Set them in the launcher, for all ranks.")
    if not compared:
        return skipped(id_, "no job has two ranks that report their settings")
    return passed(id_, f"the NCCL settings are equal on {counted(compared, 'rank')}")


def by_node(values: Mapping[str, str], ranks: Sequence[PreflightRank]) -> Mapping[str, str]:
    """Return node -> value if all ranks of each node agree; else, or for one node, `rank-3` -> value."""
    nodes: dict[str, set[str]] = {}
    for rank in ranks:
        if rank.name in values:
            nodes.setdefault(rank.node, set()).add(values[rank.name])
    if len(nodes) > 1 and all(len(one) == 1 for one in nodes.values()):
        return {node: one.pop() for node, one in nodes.items()}
    return {name.replace("rank ", "rank-"): value for name, value in values.items()}


def settings_that_slow(case: PreflightData) -> Check:
    """Return the `Check` that no debugging setting of `WARNED_OF` was left on."""
    id_ = "env.sane"
    reported = [(rank, rank.reported.variables) for rank in case.ranks if rank.reported]
    if not reported:
        return skipped(id_, NO_RANK)
    found: dict[str, list[PreflightRank]] = {}
    for rank, values in reported:
        for name, value in values.items():
            if f"{name}={value}" in WARNED_OF:
                found.setdefault(f"{name}={value}", []).append(rank)
    if not found:
        return passed(id_, f"no setting slows the job down: {counted(len(reported), 'rank')}")
    detail = "; ".join(
        f"{name} on {counted(len(ranks), 'rank')}: {WARNED_OF[name][0]}" for name, ranks in found.items()
    )
    nodes = tuple(dict.fromkeys(rank.node for ranks in found.values() for rank in ranks))
    return Check(id_, "WARN", detail, nodes, "; ".join(WARNED_OF[name][1] for name in found) + ".")


def visible_devices(case: PreflightData) -> Check:
    """Return the `Check` that two ranks of a node that are limited to one GPU each have different ones."""
    id_ = "env.visible_devices"
    given: dict[tuple[str, str], list[PreflightRank]] = {}
    for rank in case.ranks:
        value = rank.reported.variables.get("CUDA_VISIBLE_DEVICES") if rank.reported else None
        if value is not None:
            given.setdefault((rank.node, value), []).append(rank)
    if not given:
        return skipped(id_, "no rank has CUDA_VISIBLE_DEVICES set")
    alike = {key: ranks for key, ranks in given.items() if len(ranks) > 1 and "," not in key[1]}
    if not alike:
        return passed(id_, f"every rank has devices of its own: {counted(len(case.ranks), 'rank')}")
    detail = "; ".join(
        f"{node}: {', '.join(rank.name for rank in ranks[:4])} all have GPU {value or '(none)'}"
        for (node, value), ranks in list(alike.items())[:4]
    )
    remedy = "Give each rank its own GPU, or all GPUs and let it choose by LOCAL_RANK."
    return Check(id_, "FAIL", detail, tuple(dict.fromkeys(node for node, _ in alike)), remedy)
