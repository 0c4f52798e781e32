"""Checks of the job: ranks present, reachable, in step and evenly loaded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from statistics import mean

from gpuwatch.diagnose.hang.silence.silence_snapshot import silent_jobs
from gpuwatch.diagnose.model.failure_classes import of_kinds
from gpuwatch.diagnose.model.text import NO_RANK_SEEN
from gpuwatch.diagnose.preflight.check import (
    MAX_SHOWN,
    Check,
    PreflightData,
    PreflightRank,
    Status,
    by_job,
    by_sentence,
    listed,
    passed,
    skipped,
)
from gpuwatch.hosts.names import fold
from gpuwatch.number_text import counted, gibibytes
from gpuwatch.wire import NO_PYTHON, NOT_RECORDED

IMBALANCE_PCT = 20.0
"""Largest (max - min) / mean of the ranks' GPU memory, in percent, for a balanced load."""
STEP_IMBALANCE_PCT = 10.0
"""Largest (max - min) / mean of the ranks' step times, in percent."""
COMMUNICATION = of_kinds("communication")
"""Classes of failed communication between ranks."""
RENDEZVOUS_PORT = "29500"
"""Default port of torchrun and torch.distributed."""
OUT_OF_STEP = ("mismatch", "desync", "timeout", "hang")


def job(case: PreflightData) -> Iterator[Check]:
    """Yield the checks of the ranks, then of their logs and their rendezvous."""
    yield initialised(case)
    yield network(case)
    yield nccl(case)
    yield in_step(case)
    yield stragglers(case)
    yield balanced(case)
    yield spread(case)
    yield logs(case)
    yield master(case)
    yield port(case)


def initialised(case: PreflightData) -> Check:
    """Return the `Check` that the job has as many ranks as it announces."""
    id_ = "ranks.initialised"
    if not case.ranks:
        return skipped(id_, no_rank(case, NO_RANK_SEEN))
    reported: list[str] = []
    missing: list[str] = []
    for job, ranks in by_job(case.ranks).items():
        size = max((rank.process.world_size or 0 for rank in ranks), default=0)
        there = {rank.number for rank in ranks}
        if gone := missing_from(there, size):
            present = sum(number < size for number in there)
            missing.append(f"{job}: {present} of {size} ranks, missing {gone}")
        elif size:
            reported.append(f"all {size} ranks of {job}")
    if not reported and not missing:
        return skipped(id_, f"{counted(len(case.ranks), 'rank')}, but none reports the size of its job")
    if not missing:
        return passed(id_, f"{listed(reported)} run")
    remedy = (
        "Check the logs of the missing ranks (gpuwatch SOURCE, screen Logs); they may run on other nodes."
    )
    return Check(id_, "FAIL", listed(missing), (), remedy)


def no_rank(case: PreflightData, text: str) -> str:
    """Return `text`, or that some nodes have not reported their processes yet, which proves nothing."""
    waited = [*case.silent, *(node.name for node in case.nodes if node.processes_at is None)]
    return f"unknown: no process list from {fold(waited)} yet; use --wait to wait longer" if waited else text


def missing_from(there: Collection[int], size: int) -> str:
    """Return the missing ranks below `size` as text, `3, 5-7`; "": none. At most MAX_SHOWN ranges."""
    gaps = []
    free = 0
    for number in [*sorted(number for number in there if number < size), size]:
        if number > free:
            gaps.append(f"{free}-{number - 1}" if number - 1 > free else str(free))
        free = number + 1
    return ", ".join(gaps[:MAX_SHOWN]) + (", ..." if len(gaps) > MAX_SHOWN else "")


def network(case: PreflightData) -> Check:
    """Return the `Check` that every node responds, also for settings (WARN for nodes without an agent)."""
    id_ = "net.reachable"
    if case.silent:
        detail = listed(f"{node}: {why}" for node, why in case.silent.items())
        return Check(id_, "FAIL", detail, tuple(case.silent), "See gpuwatch hosts check SOURCE.")
    mute = tuple(node.name for node in case.nodes if node.name not in case.reported)
    if mute and case.recorded:
        return skipped(id_, f"settings and limits of {fold(mute)}: {NOT_RECORDED}")
    if mute:
        detail = f"settings and limits were not reported in time by {fold(mute)}: other checks leave them out"
        due = any(
            node.hello is not None and node.hello.python != NO_PYTHON
            for node in case.nodes
            if node.name in mute
        )
        status: Status = "FAIL" if due else "WARN"
        return Check(id_, status, detail, mute, "A dead mount or a missing Python can cause this.")
    return passed(id_, f"all answer: {counted(len(case.nodes), 'node')}")


def nccl(case: PreflightData) -> Check:
    """Return the `Check` that the logs have no active error of the communication libraries."""
    id_ = "nccl.working"
    if not any(file.source != "kernel" for node in case.nodes for file in node.logs):
        return skipped(id_, "no log file of a job is followed")
    reported = [
        alert
        for alert in case.alerts
        if alert in COMMUNICATION and alert.state == "firing" and alert.severity in ("error", "critical")
    ]
    if not reported:
        return passed(id_, "no error of NCCL, gloo or RDMA in the logs that are followed")
    nodes = tuple(dict.fromkeys(alert.node for alert in reported if alert.node))
    detail = listed(f"{alert.title}: {alert.text}" for alert in reported)
    return Check(
        id_, "FAIL", detail, nodes, "gpuwatch SOURCE, screen Incidents, names the rank that failed first."
    )


def in_step(case: PreflightData) -> Check:
    """Return the `Check` that no incident shows ranks in different collectives, and no job is silent."""
    id_ = "ranks.in_step"
    if not case.ranks:
        return skipped(id_, no_rank(case, NO_RANK_SEEN))
    reported = [
        one for one in case.incidents if not one.over and any(word in one.code for word in OUT_OF_STEP)
    ]
    if not reported:
        if still := silent_jobs(case.nodes, case.hang_s, case.wall):
            nodes = tuple(dict.fromkeys(node for each in still for node in each.nodes))
            remedy = "If the ranks wait, gpuwatch stacks SOURCE finds the rank they wait for."
            return Check(id_, "WARN", listed(each.text for each in still), nodes, remedy)
        return passed(id_, f"no sign of ranks in different collectives: {counted(len(case.ranks), 'rank')}")
    nodes = tuple(dict.fromkeys(one.node for one in reported if one.node))
    return Check(
        id_,
        "FAIL",
        listed(one.headline for one in reported),
        nodes,
        "gpuwatch SOURCE, screen Incidents, has the evidence.",
    )


def stragglers(case: PreflightData) -> Check:
    """Return the `Check` that no GPU is slower or hotter than equally busy neighbours."""
    id_ = "ranks.stragglers"
    working = sum(
        1
        for node in case.nodes
        for gpu in node.gpus.values()
        if gpu.fast and (gpu.fast.utilization_pct or 0) >= 50
    )
    slow = [(node, c) for node, c in case.conditions if c.code in ("slower_than_peers", "hotter_than_peers")]
    if slow:
        status: Status = "FAIL" if any(c.code == "slower_than_peers" for _, c in slow) else "WARN"
        nodes = tuple(dict.fromkeys(node for node, _ in slow))
        remedy = "Run nvidia-smi -q -d PERFORMANCE there for the reason; every step waits for this rank."
        return Check(id_, status, listed(f"{node} {c.sentence}" for node, c in slow), nodes, remedy)
    if not working:
        return skipped(id_, "no GPU is busy: stragglers show only under load")
    return passed(id_, f"no GPU is slower than its peers: {counted(working, 'working GPU')}")


def spread(case: PreflightData) -> Check:
    """Return the `Check` that a training uses several GPUs, if its node has idle ones."""
    id_ = "ranks.multi_gpu"
    alone = [(node, each.text) for node, each in case.conditions if each.code == "lone_gpu"]
    if alone:
        remedy = "Unset CUDA_VISIBLE_DEVICES and start a rank for each GPU (torchrun --nproc-per-node=gpu)."
        return Check(id_, "WARN", by_sentence(alone), tuple(node for node, _ in alone), remedy)
    working = {(each.node, hold.uuid) for each in case.ranks for hold in each.process.gpus}
    if not working:
        return skipped(id_, no_rank(case, "no rank holds a GPU"))
    return passed(id_, f"{counted(len(working), 'GPU')} work for {counted(len(case.ranks), 'rank')}")


def balanced(case: PreflightData) -> Check:
    """Return the `Check` that the ranks of a job hold similar GPU memory and take similar time per step."""
    id_ = "ranks.balanced"
    by_memory, by_steps = widest(case, held), widest(case, lambda rank: step_s(case, rank))
    if by_memory is None and by_steps is None:
        return skipped(id_, "no job has two ranks that hold GPU memory or log their step times")
    even: list[str] = []
    uneven: list[str] = []
    nodes: list[str] = []
    for what, found, limit in (
        ("GPU memory differs", by_memory, IMBALANCE_PCT),
        ("step times differ", by_steps, STEP_IMBALANCE_PCT),
    ):
        if found is None:
            continue
        pct, high, low = found
        if pct <= limit:
            even.append(f"{what} by {pct:.0f} %")
            continue
        most, least = (
            f"{rank.name} on {rank.node} {of_memory(rank) if found is by_memory else of_steps(case, rank)}"
            for rank in (high, low)
        )
        uneven.append(f"{what} by {pct:.0f} %: {most}, {least}")
        nodes += [high.node, low.node]
    if not uneven:
        return passed(id_, f"{', '.join(even)} over the ranks of a job")
    remedy = "Pipeline stages may differ by design; otherwise look for uneven batches or a leak on one rank."
    return Check(id_, "WARN", "; ".join(uneven), tuple(dict.fromkeys(nodes)), remedy)


def widest(
    case: PreflightData, value: Callable[[PreflightRank], float]
) -> tuple[float, PreflightRank, PreflightRank] | None:
    """Return (max - min) / mean in percent, and the highest and lowest rank, of the job where it is largest.

    None: no job has a spread.
    """
    spreads = [
        found for ranks in by_job(case.ranks).values() if (found := spread_of(ranks, value)) is not None
    ]
    return max(spreads, key=lambda found: found[0], default=None)


def spread_of(
    ranks: Sequence[PreflightRank], value: Callable[[PreflightRank], float]
) -> tuple[float, PreflightRank, PreflightRank] | None:
    """Return (max - min) / mean in percent within one job, and the ranks with the highest and lowest value.

    Ranks with 0 are left out; None if fewer than two remain.
    """
    known = [rank for rank in ranks if value(rank)]
    if len(known) < 2:
        return None
    high, low = max(known, key=value), min(known, key=value)
    return 100.0 * (value(high) - value(low)) / mean(value(rank) for rank in known), high, low


def of_memory(rank: PreflightRank) -> str:
    """Return `holds 71.2 GiB`."""
    return f"holds {gibibytes(held(rank))}"


def of_steps(case: PreflightData, rank: PreflightRank) -> str:
    """Return `takes 0.41 s`."""
    return f"takes {step_s(case, rank):.3g} s"


def step_s(case: PreflightData, rank: PreflightRank) -> float:
    """Return the duration of a step in seconds; 0.0: not logged."""
    return case.step_s.get((rank.node, rank.process.pid), 0.0)


def held(rank: PreflightRank) -> int:
    """Return the bytes of GPU memory that a rank holds."""
    return sum(hold.memory_bytes or 0 for hold in rank.process.gpus)


def logs(case: PreflightData) -> Check:
    """Return the `Check` that no two ranks of a node write one log file."""
    id_ = "logs.own"
    writers: dict[tuple[str, str], list[PreflightRank]] = {}
    for rank in case.ranks:
        for file in rank.process.logs:
            writers.setdefault((rank.node, file), []).append(rank)
    if not writers:
        return skipped(id_, "no log file of a rank is known")
    shared = {key: ranks for key, ranks in writers.items() if len(ranks) > 1}
    if not shared:
        return passed(id_, f"every rank writes its own log: {counted(len(writers), 'file')}")
    detail = listed(
        f"{node}:{file} is written by {len(ranks)} ranks" for (node, file), ranks in shared.items()
    )
    remedy = "torchrun --log-dir DIR --redirects 3, or %t in Slurm's --output, gives every rank its own."
    return Check(id_, "WARN", detail, tuple(dict.fromkeys(node for node, _ in shared)), remedy)


def master(case: PreflightData) -> Check:
    """Return the `Check` that the rendezvous address is reachable from every node."""
    id_ = "net.master"
    tried = [
        (node, address, why)
        for node, reported in case.reported.items()
        for address, why in reported.reached.items()
    ]
    if not tried:
        return skipped(id_, "no rank reports a rendezvous address")
    failed = [(node, f"{node} -> {address}: {why}") for node, address, why in tried if why]
    if not failed:
        addresses = sorted({address for _, address, _ in tried})
        nodes_of = {node for node, _, _ in tried}
        return passed(id_, f"{', '.join(addresses[:3])} can be reached from {counted(len(nodes_of), 'node')}")
    remedy = "Open the port in the firewall, or choose an address in a network that all nodes share."
    nodes = tuple(dict.fromkeys(node for node, _ in failed))
    return Check(id_, "FAIL", listed(text for _, text in failed), nodes, remedy)


def port(case: PreflightData) -> Check:
    """Return the `Check` that torchrun's default port is not in use by a process that belongs to no rank."""
    id_ = "net.port"
    reported = {node: one.listens.get(RENDEZVOUS_PORT) for node, one in case.reported.items() if one.listens}
    if not reported:
        return skipped(id_, "no node reports listening ports")
    ours = {(rank.node, rank.process.pid) for rank in case.ranks}
    ours |= {
        (rank.node, rank.reported.parent) for rank in case.ranks if rank.reported and rank.reported.parent
    }
    # the owner of the process may be unreadable: if the ranks' rendezvous has that port, it is theirs
    ours |= {
        (rank.node, 0) for rank in case.ranks if (rank.process.master or "").endswith(f":{RENDEZVOUS_PORT}")
    }
    taken = {node: pid for node, pid in reported.items() if pid is not None and (node, pid) not in ours}
    if not taken:
        return passed(
            id_,
            f"port {RENDEZVOUS_PORT}, torchrun's default, is free or used by a job: "
            + counted(len(reported), "node"),
        )
    who = listed(
        f"{node} {f'pid {pid}' if pid else 'a process of another user'}" for node, pid in taken.items()
    )
    remedy = "It may be the job's own launcher; else choose another port: torchrun --rdzv-endpoint HOST:PORT."
    return Check(id_, "WARN", f"port {RENDEZVOUS_PORT} is taken: {who}", tuple(taken), remedy)
