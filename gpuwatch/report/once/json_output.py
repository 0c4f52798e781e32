"""The fleet as plain data for scripts. `docs/json.md` documents every key.

Unknown is None. Values of stale or lost nodes stay, with their age.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import asdict

from gpuwatch import __version__
from gpuwatch.diagnose.hang.silence.silence_snapshot import SilentJob
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.log_coverage import unranked
from gpuwatch.fleet.nodes.node import STALE_TICKS, Gpu, Node
from gpuwatch.plain import plain, plain_json
from gpuwatch.report.incidents.json_output import Facts, alert_facts, hang_check_facts, incident_facts
from gpuwatch.report.once.ended_jobs import ended_facts
from gpuwatch.report.once.jobs import servers_as_facts, training_facts
from gpuwatch.report.once.problems.active import Standing, healthy
from gpuwatch.report.once.problems.health import PlacedCondition, without_log
from gpuwatch.report.once.problems.pending import Pending, pending
from gpuwatch.report.once.problems.unseen import busy_unseen
from gpuwatch.report.output.checkpoints import job_checkpoint_facts
from gpuwatch.report.output.masked import masked_in
from gpuwatch.wire import (
    AgentCost,
    Event,
    GpuFast,
    GpuInfo,
    GpuMedium,
    GpuSlow,
    HostSample,
    Process,
)

__all__ = ["Facts", "as_data", "fleet_facts", "node_error", "processes_on", "rounded", "to_json"]

FRAME_FIELDS = frozenset({"t", "seq", "v"})
NOT_RECEIVED = {
    "connecting": "no answer yet: the node is down, behind a firewall, or slow to log in",
    "stale": f"no sample for more than {STALE_TICKS:.0f} intervals",
}
INVENTORY = (
    "driver",
    "cuda",
    "nvml",
    "kernel",
    "os",
    "python",
    "agent",
    "cpu_model",
    "cpu_count",
    "kernel_log",
)
"""Keys of the hello frame that are included in a node's data."""


def _silent_job(job: SilentJob) -> dict[str, object]:
    return {
        "job": job.job,
        "ranks": job.ranks,
        "nodes": list(job.nodes),
        "silent_s": round(job.seconds, 1),
        "usual_s": rounded(job.usual_s),
        "stopped": list(job.stopped),
        "all_stopped": job.all_stopped,
        "blocked": list(job.blocked),
        "hang_check": None if job.hang_check is None else hang_check_facts(job.hang_check),
    }


def fleet_facts(
    fleet: Fleet, found: list[PlacedCondition], now: float, time: float, stands: Standing | None = None
) -> Facts:
    """Return the report on the fleet as data. `now`: our monotonic clock, `time`: the same, unix seconds."""
    stands = stands or Standing()
    facts: Facts = {"gpuwatch": __version__, "time": round(time, 3), "source": fleet.plan.source}
    if any(node.spec.link == "demo" for node in fleet.nodes.values()):
        facts["demo"] = True
    facts["allocation"] = None if fleet.plan.allocation is None else asdict(fleet.plan.allocation)
    facts["interval_s"] = fleet.plan.interval_s
    facts["healthy"] = healthy(fleet, found, now, stands)
    facts["unreadable_parts"] = stands.damaged
    facts["incidents"] = [incident_facts(incident) for incident in stands.incidents]
    facts["alerts"] = [alert_facts(alert) for alert in stands.alerts]
    facts["silent_jobs"] = [_silent_job(each) for each in stands.silent]
    facts["stepless_jobs"] = [
        {
            "job": each.job,
            "ranks": each.ranks,
            "nodes": list(each.nodes),
            "started_s": round(each.started_s, 1),
            "line_s": rounded(each.line_s),
        }
        for each in stands.stepless
    ]
    facts["jobs"] = training_facts(fleet, now, time)
    facts["servers"] = servers_as_facts(fleet, now)
    facts["cut_searches"] = [node.name for node in fleet.nodes.values() if node.search_cut]
    facts["unranked"] = [
        {"node": each.node, "pids": list(each.pids), "files": [plain(file) for file in each.files]}
        for each in unranked(fleet.nodes.values())
    ]
    facts["checkpoints"] = job_checkpoint_facts(stands.checkpoints)
    facts["ended_jobs"] = ended_facts(stands.ended, stands.of_ended, stands.checkpoints)
    facts["unread_logs"] = [
        {"node": node.name, "file": plain(file.path), "read_pct": rounded(file.backlog_pct)}
        for node, file in stands.unread
    ]
    facts["unreadable_logs"] = [
        {"node": node.name, "file": plain(file.path), "why": plain(file.reason or "")}
        for node in fleet.nodes.values()
        for file in node.logs
        if file.state == "unreadable"
    ]
    facts["log_misses"] = [
        {"option": plain(option), "why": plain(why)} for option, why in without_log(fleet).items()
    ]
    facts["busy_unseen"] = [{"node": node, "gpus": gpus} for node, gpus in busy_unseen(fleet).items()]
    facts["pending"] = [pending_facts(each) for each in pending(fleet, now)]
    facts["nodes"] = [node_facts(node, now) for node in fleet.nodes.values()]
    facts["conditions"] = [condition_facts(finding) for finding in found]
    facts["secrets_masked"] = masked_in(facts)
    return facts


def pending_facts(waited: Pending) -> Facts:
    """Return a part that has not answered yet as data."""
    return {
        "node": waited.node,
        "part": waited.part,
        "gpu_index": None if waited.gpu is None else waited.gpu.info.index,
        "file": None if waited.file is None else plain(waited.file.path),
        "searched_from": None if waited.file is None else waited.file.searched_from,
        "searched_to": None if waited.file is None else waited.file.searched_to,
        "text": plain(waited.text),
        "waited_s": rounded(waited.waited_s),
    }


def to_json(facts: Facts) -> str:
    """Return indented JSON text; non-finite numbers become null."""
    return plain_json(msgspec.json.format(msgspec.json.encode(facts), indent=2).decode())


def node_facts(node: Node, now: float) -> Facts:
    """Return one node with its GPUs as data."""
    hello = node.hello
    return {
        "name": node.name,
        "state": node.state(now),
        "age_s": rounded(node.age(now)),
        "error": node_error(node, now),
        "retry_in_s": None if node.link.retry_at is None else rounded(max(0.0, node.link.retry_at - now)),
        "link": node.spec.link,
        "labels": dict(node.spec.labels),
        "hostname": None if hello is None else hello.host,
        **{name: getattr(hello, name, None) for name in INVENTORY},
        "clock_offset_s": None if node.clock is None else rounded(node.clock.offset_s),
        "clock_error_s": None if node.clock is None else rounded(node.clock.error_s),
        "refused_frames": node.refused,
        "watching": None if node.cost is None else values_of(AgentCost, node.cost),
        "host": None if node.host is None else host_facts(node, now),
        "gpus_expected": node.gpus_expected(),
        "gpus_present": node.gpus_present(),
        "gpus": [gpu_facts(gpu, node, now) for gpu in node.gpu_list()],
        "processes_age_s": since(node.processes_at, now),
        "processes_partial": node.processes_partial,
        "processes": [values_of(Process, process) for process in node.processes if not process.gpus],
        "notices": [] if hello is None else [as_data(notice) for notice in hello.notices],
        "events": [values_of(Event, event, without=FRAME_FIELDS - {"t"}) for event in node.events],
        "topology": None if hello is None else as_data(hello.topology),
    }


def node_error(node: Node, now: float) -> str | None:
    """Return why the node is not live, by its link, its agent's last message or its state; None if it is."""
    state = node.state(now)
    if state == "live":
        return None
    return node.link.reason or node.bye or NOT_RECEIVED.get(state)


def host_facts(node: Node, now: float) -> Facts:
    """Return the last host sample and its age as data."""
    ages = {"age_s": since(node.host_at, now), "disks_age_s": since(node.disks_at, now)}
    return {**ages, **values_of(HostSample, node.host, without=FRAME_FIELDS)}


def gpu_facts(gpu: Gpu, node: Node, now: float) -> Facts:
    """Return one GPU as data: the most requested keys first, then every other field of its tiers."""
    fast = values_of(GpuFast, gpu.fast, without=FRAME_FIELDS)
    medium = values_of(GpuMedium, gpu.medium, without=FRAME_FIELDS)
    slow = values_of(GpuSlow, gpu.slow, without=FRAME_FIELDS)
    info = values_of(GpuInfo, gpu.info)
    total = fast["memory_total_bytes"]
    first = {
        "index": gpu.info.index,
        "uuid": gpu.info.uuid if gpu.info.identified else None,
        "name": gpu.info.name or None,
        "state": gpu.state,
        "reason": gpu.reason,
        "age_s": rounded(gpu.age(now)),
        "stuck_in": gpu.stuck_in,
        "stuck_s": rounded(gpu.stuck_s(now)),
        "utilization_pct": fast["utilization_pct"],
        "memory_used_bytes": fast["memory_used_bytes"],
        "memory_total_bytes": gpu.info.memory_total_bytes if total is None else total,
        "temperature_c": fast["temperature_c"],
        "power_w": fast["power_w"],
        "power_limit_w": medium["power_limit_w"],
        "processes": [process_facts(process, gpu) for process in processes_on(node, gpu)],
    }
    ages = {
        "medium_age_s": since(gpu.medium_at, now),
        "slow_age_s": since(gpu.slow_at, now),
        "missing": dict(gpu.missing),
    }
    rest = {**fast, **medium, **slow, **info}
    return {**first, **ages, **{key: value for key, value in rest.items() if key not in first}}


def processes_on(node: Node, gpu: Gpu) -> list[Process]:
    """Return the processes on this GPU, by rank, then by pid."""
    holders = [p for p in node.processes if any(hold.uuid == gpu.info.uuid for hold in p.gpus)]
    return sorted(holders, key=lambda p: (p.rank is None, p.rank or 0, p.pid))


def process_facts(process: Process, gpu: Gpu) -> Facts:
    """Return a process and its use of this GPU as data."""
    hold = next(hold for hold in process.gpus if hold.uuid == gpu.info.uuid)
    shares = {"memory_bytes": hold.memory_bytes, "sm_pct": hold.sm_pct}
    return {**values_of(Process, process, without=frozenset({"gpus"})), **shares}


def condition_facts(finding: PlacedCondition) -> Facts:
    """Return a condition and its place as data."""
    gpu, condition = finding.gpu, finding.condition
    return {
        "node": finding.node.name,
        "gpu_index": None if gpu is None else gpu.info.index,
        "gpu_uuid": None if gpu is None or not gpu.info.identified else gpu.info.uuid,
        "code": condition.code,
        "severity": condition.severity,
        "text": condition.text,
        "evidence": as_data(condition.evidence),
    }


def values_of(
    kind: type[msgspec.Struct], struct: msgspec.Struct | None, without: frozenset[str] = frozenset()
) -> Facts:
    """Return every field of a struct by name, except those in `without`.

    None for each if there is no struct, so that keys are always present.
    """
    names = [name for name in kind.__struct_fields__ if name not in without]
    return {name: None if struct is None else as_data(getattr(struct, name)) for name in names}


def as_data(value: object) -> Any:  # noqa: ANN401  JSON data
    """Return a value with its structs as dicts with all keys; msgspec's conversion leaves out defaults."""
    if isinstance(value, msgspec.Struct):
        return values_of(type(value), value)
    if isinstance(value, (list, tuple)):
        return [as_data(item) for item in value]
    if isinstance(value, dict):
        return {key: as_data(item) for key, item in value.items()}
    return value


def since(at: float | None, now: float) -> float | None:
    """Return the seconds since a time of our monotonic clock; None: never."""
    return None if at is None else rounded(max(0.0, now - at))


def rounded(seconds: float | None) -> float | None:
    """Return seconds rounded to milliseconds, never -0.0; None stays None."""
    return None if seconds is None else round(seconds, 3) + 0.0
