"""Formats problems, incidents and gaps as lines of `once`'s text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpuwatch.blocks.model import Line
from gpuwatch.diagnose.hang.hang_watch import CODE as HANG
from gpuwatch.diagnose.hang.silence.silence_snapshot import SilentJob
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.diagnose.model.text import job_text, place
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.log_coverage import unranked
from gpuwatch.hosts.names import fold
from gpuwatch.number_text import listed, plural, ranges
from gpuwatch.plain import plain
from gpuwatch.report.once.ended_jobs import ended_sentence
from gpuwatch.report.once.problems.active import Standing
from gpuwatch.report.once.problems.health import PlacedCondition, without_log
from gpuwatch.report.once.problems.pending import pending, unreadable
from gpuwatch.report.once.problems.unseen import busy_unseen, processes_hidden
from gpuwatch.wire import Notice, Severity

NAMED_ALERTS = 12
"""Maximum number of kinds of alerts that are listed."""
NAMED_REMARKS = 4
"""Maximum number of remarks of one kind that are listed."""


def notice_lines(fleet: Fleet) -> list[Line]:
    """Return lines with the agents' informational notices, each sentence once; others are conditions."""
    holds: dict[Notice, list[str]] = {}
    for node in fleet.nodes.values():
        for notice in node.hello.notices if node.hello is not None else ():
            if notice.severity == "info":
                holds.setdefault(notice, []).append(node.name)
    return [labelled("info", f"{fold(nodes)}: {notice_text(notice)}") for notice, nodes in holds.items()]


def unranked_lines(fleet: Fleet) -> list[Line]:
    """Return a line for each node with processes that write training logs and whose ranks are unknown."""
    return [labelled("info", plain(each.text)) for each in unranked(fleet.nodes.values())]


def notice_text(notice: Notice) -> str:
    """Return the text of a notice and its remedy."""
    if not notice.remedy:
        return notice.text
    return f"{notice.text.rstrip('.')}. What to do: {notice.remedy}"


def whereabouts(alerts: Sequence[Alert]) -> str:
    """Return the places of alerts as text.

    `ranks 0-3 (gpu-[001-002])` if all alerts have a rank, else the names of the nodes or of each place.
    """
    ranks = {alert.rank for alert in alerts if alert.rank is not None}
    nodes = {alert.node for alert in alerts if alert.node is not None}
    if len(ranks) > 1 and all(alert.rank is not None for alert in alerts):
        return f"ranks {ranges(ranks)}" + (f" ({fold(nodes)})" if nodes else "")
    if len(nodes) > 1 and all(alert.node and alert.gpu is None and alert.rank is None for alert in alerts):
        return fold(nodes)
    return listed(list(dict.fromkeys(map(_whereabouts, alerts))))


def _whereabouts(alert: Alert) -> str:
    """Return the place of one alert as text, with its job if no node is known."""
    who = place(alert.rank, alert.node, alert.gpu)
    job = alert.job or str(alert.fields.get("job", ""))
    if alert.node is not None or not job:
        return who or "the job"
    return f"{who} of {job_text(job)}" if who else job_text(job)


# --------------------------------------------------------------------------- the end


def finding_lines(found: list[PlacedCondition]) -> list[Line]:
    """Return lines with all conditions above `info`, and the first few remarks (`info`) of each kind."""
    lines: list[Line] = []
    remarks: Counter[str] = Counter()
    for finding in found:
        condition = finding.condition
        if condition.severity == "info":
            remarks[condition.code] += 1
            if remarks[condition.code] > NAMED_REMARKS:
                continue
        lines.append(
            labelled(condition.severity, f"{finding.place}: {condition.text} ({condition.evidence})")
        )
    more = {code: count - NAMED_REMARKS for code, count in remarks.items() if count > NAMED_REMARKS}
    return lines + [
        labelled("info", f"and {count} more of {code} (--json lists them all)")
        for code, count in more.items()
    ]


def incident_sentences(stands: Standing) -> list[Line]:
    """Return the lines of each incident: its headline, then restarts, checkpoint, recurrence and notes."""
    lines = []
    for each in stands.incidents:
        lines.append(labelled(each.severity, plain(f"incident: {each.headline}")))
        if each.restarted:
            lines.append(Line(plain(f"{'':8}  {each.restarted}"), "plain"))
        if each.checkpoint is not None:
            lines.append(Line(plain(f"{'':8}  {each.checkpoint.text}"), "plain"))
        if each.recurrence is not None and each.recurrence.text:
            lines.append(Line(plain(f"{'':8}  {each.recurrence.text}"), "plain"))
        lines += [Line(plain(f"{'':8}  note of {one.by}: {one.text}"), "plain") for one in each.notes]
    return lines


def alert_lines(alerts: Sequence[Alert]) -> list[Line]:
    """Return lines with the alerts outside of incidents, equal ones merged: NAMED_ALERTS, then a count."""
    kinds: dict[tuple[Severity, str], list[Alert]] = {}
    for alert in alerts:
        kinds.setdefault((alert.severity, alert.text), []).append(alert)
    lines = []
    for (severity, text), same in list(kinds.items())[:NAMED_ALERTS]:
        count = sum(alert.count for alert in same)
        times = f" ({count} times)" if count > len(same) else ""
        lines.append(labelled(severity, plain(f"{whereabouts(same)}: {text}{times}")))
    more = len(kinds) - NAMED_ALERTS
    if more > 0:
        lines.append(labelled("info", f"and {more} more kinds of alerts (--json lists them all)"))
    return lines


def reported_kinds(alerts: Sequence[Alert]) -> str:
    """Return the number of different alerts by severity, as text: `1 error, 2 warnings`."""
    kinds = {(alert.severity, alert.text) for alert in alerts}
    counts = Counter(severity for severity, _ in kinds)
    return ", ".join(plural(counts[each], each) for each in ORDER if counts[each])


def unreadable_lines(fleet: Fleet) -> list[Line]:
    """Return lines about the unreadable log files, and the `--log` patterns that match no file."""
    reasons: dict[str, list[tuple[str, str]]] = {}
    for node in fleet.nodes.values():
        for file in unreadable(node):
            reasons.setdefault(file.reason or "unreadable", []).append((node.name, file.path))
    lines = []
    for reason, places in reasons.items():
        nodes = fold({name for name, _ in places})
        files = listed(sorted({path for _, path in places}))
        lines.append(Line(plain(f"{'unknown':8}  {nodes}: {files} not read: {reason}"), "warning"))
    return lines + [
        labelled("warning", plain(f"no log file at {option} (--log): {why}"))
        for option, why in without_log(fleet).items()
    ]


def pending_lines(fleet: Fleet, now: float) -> list[Line]:
    """Return lines about what is still unknown, except nodes and logs; equal ones are merged."""
    places: dict[str, list[str]] = {}
    for each in pending(fleet, now):
        if each.part not in ("node", "log", "unreadable_log"):
            waited = (
                f" ({each.waited_s:.0f} s)" if each.part == "driver" and each.waited_s is not None else ""
            )
            places.setdefault(each.text + waited, []).append(each.place)
    return [
        Line(plain(f"{'unknown':8}  {listed(where)}: {text}"), "warning") for text, where in places.items()
    ]


def unread_lines(stands: Standing) -> list[Line]:
    """Return a line per node with its logs that are not searched to their end.

    Not those whose beginning is left: `pending_lines` states them.
    """
    by_node: dict[str, list[str]] = {}
    for node, file in stands.unread:
        if file.searched_from:
            continue  # `pending_lines` states its range
        by_node.setdefault(node.name, []).append(file.path)
    return [
        Line(
            plain(f"{'unknown':8}  {name}: not searched yet: {listed(paths)}; wait longer (--wait)"),
            "warning",
        )
        for name, paths in by_node.items()
    ]


def silent_lines(stands: Standing) -> list[Line]:
    """Return a line for each job that may hang, unless an incident reports the hang."""
    reported = {incident.job for incident in stands.incidents if incident.code == HANG}
    return [
        labelled("warning", plain(f"{job.text}; {_hang_text(job)}"))
        for job in stands.silent
        if job.job not in reported
    ]


def _hang_text(job: SilentJob) -> str:
    """Return the hang verdict if the ranks' answers show a fault, else the command that queries them."""
    check = job.hang_check
    if check is None or not check.verdict.wrong:
        return "run gpuwatch stacks to find the rank that they wait for"
    return f"{check.verdict.sentence} ({check.verdict.confidence} confidence)"


def stepless_lines(stands: Standing) -> list[Line]:
    """Return a line for each job without a logged step, except those that may hang."""
    silent = {job.job for job in stands.silent}
    return [labelled("info", plain(job.text)) for job in stands.stepless if job.job not in silent]


def ended_lines(fleet: Fleet, stands: Standing, time: float) -> list[Line]:
    """Return a line about the jobs that ended before gpuwatch connected, and one about cut-off searches.

    The first also states that no job runs. A line without anything to state is left out.
    """
    cut = [node.name for node in fleet.nodes.values() if node.search_cut]
    bounds = f"{fold(cut)}: search for ended jobs incomplete (too many files)"
    lines = [labelled("info", bounds)] if cut else []
    text = ended_sentence(stands.ended, stands.of_ended, time)
    if text is None:
        return lines
    bad = {incident.job for incident in stands.incidents} & {job.name for job in stands.ended}
    stated = text if job_runs(fleet) else f"No running job. {text}"
    return [labelled("warning" if bad else "info", stated), *lines]


def labelled(severity: Severity, text: str) -> Line:
    """Return the line with the severity as a word, so that colour is never the only sign."""
    return Line(f"{severity:8}  {text}", severity)


def job_runs(fleet: Fleet) -> bool:
    """Return True if a rank, or a process on a GPU, is known."""
    nodes = fleet.nodes.values()
    return any(process.rank is not None or process.gpus for node in nodes for process in node.processes)


def nothing_runs(fleet: Fleet) -> list[str]:
    """Return the limits of an all-clear as clauses: `no running job`, `no log is followed`; empty if none."""
    nodes, jobs = fleet.nodes.values(), job_runs(fleet)
    cut = any(node.search_cut for node in nodes)
    logs = any(file.source != "kernel" for node in nodes for file in node.logs)
    no_job = "no running job"
    if unranked(nodes):
        no_job = "processes write training logs, and no rank is known"
    elif busy_unseen(fleet):
        no_job = ""  # the verdict names the nodes whose jobs are not visible
    elif hidden := processes_hidden(fleet):
        no_job = (
            f"no running job among the visible processes (those of other users on {fold(hidden)} are not)"
        )
    clauses = [no_job] * bool(no_job and not jobs) + ["no log is followed"] * (not logs)
    return clauses + ["search for ended jobs incomplete"] * (cut and not jobs)
