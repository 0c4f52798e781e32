"""Builds the text of `once` from the fleet and a clock. `tables.py` prints it."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from gpuwatch import __version__
from gpuwatch.blocks.model import Line, Style
from gpuwatch.diagnose.model.text import allocation_text, job_text, unreadable_text
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.metrics import NODE_METRICS
from gpuwatch.fleet.nodes.missing_text import has_only_logs, without_gpus
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.hosts.names import fold
from gpuwatch.number_text import moment, plural, seconds_text
from gpuwatch.plain import plain
from gpuwatch.report.once.gpu_columns import COLUMNS, OLD_TICKS, gpu_style, process_text
from gpuwatch.report.once.jobs import server_lines
from gpuwatch.report.once.json_output import node_error
from gpuwatch.report.once.problem_lines import (
    alert_lines,
    ended_lines,
    finding_lines,
    incident_sentences,
    nothing_runs,
    notice_lines,
    pending_lines,
    reported_kinds,
    silent_lines,
    stepless_lines,
    unranked_lines,
    unread_lines,
    unreadable_lines,
)
from gpuwatch.report.once.problems.active import Standing, healthy
from gpuwatch.report.once.problems.health import PlacedCondition, without_log
from gpuwatch.report.once.problems.pending import pending
from gpuwatch.report.once.problems.unseen import busy_unseen
from gpuwatch.whole_number import whole_number


class NodeBlock(Struct, frozen=True):
    """One node: its line, its GPUs as rows of cells, and remarks."""

    heading: Line
    rows: list[tuple[list[str], str]]
    """Cells in the order of `COLUMNS`, and the row's style."""
    notes: list[Line]


class Report(Struct, frozen=True):
    """The content of the printed report, in order."""

    title: Line
    incidents: list[Line]
    """Lines about incidents, one sentence each."""
    nodes: list[NodeBlock]
    notices: list[Line]
    findings: list[Line]
    verdict: Line


def report(
    fleet: Fleet, found: list[PlacedCondition], now: float, time: float, stands: Standing | None = None
) -> Report:
    """Build the report, without conditions that an alert or incident states, or that are pending.

    `now`: our monotonic clock, `time`: the same moment in unix seconds.
    """
    stands = stands or Standing()
    left = [
        finding
        for finding in found
        if not stands.states(finding) and finding.condition.code != "gpu_unanswered"  # it is pending
    ]
    return Report(
        title=title(fleet, time),
        incidents=incident_sentences(stands),
        nodes=[node_block(node, now) for node in fleet.nodes.values()],
        notices=[
            *notice_lines(fleet),
            *unranked_lines(fleet),
            *unreadable_lines(fleet),
            *allocation_lines(fleet, time),
            *server_lines(fleet, now),
            *pending_lines(fleet, now),
            *unread_lines(stands),
            *silent_lines(stands),
            *stepless_lines(stands),
            *ended_lines(fleet, stands, time),
        ],
        findings=[*alert_lines(stands.alerts), *finding_lines(left)],
        verdict=verdict(fleet, found, now, stands),
    )


def title(fleet: Fleet, time: float) -> Line:
    """Return the title: source, time, and a mark for simulations."""
    demo = any(node.spec.link == "demo" for node in fleet.nodes.values())
    mark = "DEMO, a simulated cluster  " if demo else ""
    return Line(
        f"{mark}{moment(time)}  {fleet.plan.source}  gpuwatch {__version__}", "warning" if demo else "plain"
    )


def allocation_lines(fleet: Fleet, time: float) -> list[Line]:
    """Return lines about the scheduler's job, and about pods that do not run, with the reason."""
    job = fleet.plan.allocation
    lines = [] if job is None else [Line(allocation_text(job, time), "plain")]
    for spec in fleet.plan.nodes:
        if "kube_reason" in spec.labels:
            phase, reason = (plain(spec.labels.get(name, "")) for name in ("kube_phase", "kube_reason"))
            restarts = plural(whole_number(spec.labels.get("kube_restarts", "")) or 0, "restart")
            lines.append(Line(f"warning   {spec.name}: pod is {phase}: {reason}, {restarts}", "warning"))
    return lines


# --------------------------------------------------------------------------- a node


def node_block(node: Node, now: float) -> NodeBlock:
    """Return one node as heading, rows and notes."""
    return NodeBlock(
        heading=node_line(node, now),
        rows=[
            ([column.text(gpu, node, now) for column in COLUMNS], gpu_style(gpu, node, now))
            for gpu in node.gpu_list()
        ],
        notes=node_notes(node),
    )


def node_line(node: Node, now: float) -> Line:
    """Return the line of a node: `gpu-001  live  8 GPUs  driver 570.86  CPU 34%  load 12.1  memory 45%`.

    Age, error and next attempt follow the state if the node is not live.
    """
    state = node.state(now)
    parts = [node.name, state]
    age = node.age(now)
    if state != "live" and age is not None:
        parts.append(f"last sample {seconds_text(age)} ago")
    error = node_error(node, now)
    if error:
        parts.append(error)
    if node.link.retry_at is not None and state == "lost":
        parts.append(f"next attempt in {seconds_text(max(0.0, node.link.retry_at - now))}")
    if node.hello is not None:
        parts.append(gpu_count(node))
        parts += host_parts(node, now)
    styles: dict[str, Style] = {"live": "ok", "stale": "warning", "lost": "critical", "connecting": "info"}
    return Line("  ".join(parts), styles[state])


def gpu_count(node: Node) -> str:
    """Return `8 GPUs`, `7 of 8 GPUs`, `no GPU`, `GPUs not known yet`."""
    present, expected = node.gpus_present(), node.gpus_expected()
    if expected == 0 or ((node.driver_starting or has_only_logs(node)) and not node.gpus):
        return without_gpus(node)
    if present != expected:
        return f"{present} of {expected} GPUs"
    return plural(present, "GPU")


def host_parts(node: Node, now: float) -> list[str]:
    """Return driver, CPU, load and memory as texts, with their age if a tick was missed."""
    parts = [] if node.hello is None or not node.hello.driver else [f"driver {node.hello.driver}"]
    for name, label in (("cpu", "CPU"), ("load", "load"), ("hostmem", "memory")):
        metric = NODE_METRICS[name]
        parts.append(f"{label} {metric.format(metric.read(node, now)).strip()}")
    age = None if node.host_at is None else now - node.host_at
    if age is not None and age > OLD_TICKS * node.interval_s:
        parts.append(f"({seconds_text(age)} old)")
    return parts


def node_notes(node: Node) -> list[Line]:
    """Return a line with the processes that use no GPU; empty if there are none."""
    without = [process for process in node.processes if not process.gpus]
    if not without:
        return []
    return [Line(f"without a GPU: {'; '.join(process_text(process) for process in without)}")]


def verdict(fleet: Fleet, found: list[PlacedCondition], now: float, stands: Standing) -> Line:
    """Return the last line of the report: the numbers of nodes and GPUs, and whether they are healthy."""
    nodes, gpus = len(fleet.nodes), len(fleet.gpus())
    answering = sum(node.gpus_present() for node in fleet.nodes.values())
    of_all = f"{answering} of " * (answering != gpus)
    counted = f"{of_all}{gpus} GPU{'s' * (gpus != 1)}"
    starting = [node.name for node in fleet.nodes.values() if node.driver_starting and not node.gpus]
    if starting:
        counted = f"{counted}, those of {fold(starting)} not known yet" if gpus else "GPUs not known yet"
    what = f"{nodes} node{'s' * (nodes != 1)}, {counted}"
    if healthy(fleet, found, now, stands):
        silent = [f"{plural(len(stands.silent), 'silent job')}"] if stands.silent else []
        reported = ", ".join([*filter(None, [reported_kinds(stands.alerts)]), *silent])
        idle = "; ".join(nothing_runs(fleet))
        end = (f"; {idle}" if idle else "") + (f"; {reported} (see above)" if reported else "")
        unknown = not_looked_at(fleet, stands)
        seen = "no problem found" if reported else "all healthy"
        seen = f"healthy, except that {' and '.join(unknown)}" if unknown else seen
        return Line(f"{what}: {seen}{end}", "warning" if busy_unseen(fleet) else "ok")
    severities = Counter(finding.condition.severity for finding in found if not stands.states(finding))
    severities.update(alert.severity for alert in stands.alerts)
    counts = [
        f"{count} {severity}"
        for severity in ("critical", "error", "warning")
        if (count := severities[severity])
    ]
    stand = len(stands.incidents)
    counts = [f"{stand} incident{'s' * (stand != 1)}"] * bool(stand) + counts
    if waiting := len([each for each in pending(fleet, now) if each.part != "node"]):
        counts.append(f"{plural(waiting, 'part')} {'has' if waiting == 1 else 'have'} not answered yet")
    stalled = sum(job.is_stalled for job in stands.silent)
    counts += [f"{plural(stalled, 'silent job')}"] * bool(stalled)
    counts += [unreadable_text(stands.damaged)] * bool(stands.damaged)
    counts += ["--log matches no log file"] * bool(without_log(fleet))
    return Line(f"{what}: {', '.join(counts) or 'not all nodes answered'}", "critical")


def not_looked_at(fleet: Fleet, stands: Standing) -> list[str]:
    """Return clauses about jobs and processes that an all-clear does not cover."""
    unseen = busy_unseen(fleet)
    found = [f"no process that uses the busy GPUs of {fold(unseen)} is visible"] if unseen else []
    silent = {each.job for each in stands.silent}
    jobs = [each.job for each in stands.stepless if each.job not in silent]
    if jobs:
        named = job_text(jobs[0]) if len(jobs) == 1 else plural(len(jobs), "job")
        found.append(f"no step of {named} has been logged yet")
    return found
