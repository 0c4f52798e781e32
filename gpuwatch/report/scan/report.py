"""What a scan found, judged: incidents, the alerts outside of them, and what was read. Also as JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec import structs

from gpuwatch import __version__
from gpuwatch.diagnose.alerts.finding_place import LocatedFinding
from gpuwatch.diagnose.alerts.from_findings import alerts_of
from gpuwatch.diagnose.error_outcome.consequence import LAST_LINES, followed_nothing, without_harm
from gpuwatch.diagnose.error_outcome.later_attempts import with_later_attempts, with_restarts
from gpuwatch.diagnose.error_outcome.outcomes import with_outcomes
from gpuwatch.diagnose.error_outcome.own_logs import with_own_logs
from gpuwatch.diagnose.error_outcome.recovery_by_lines import Reader, last_offset, with_later_lines
from gpuwatch.diagnose.error_outcome.recovery_by_steps import FINISHED
from gpuwatch.diagnose.incidents.builder import incidents
from gpuwatch.diagnose.job_end.closing import saved_at_end
from gpuwatch.diagnose.job_end.completed_run import with_completed_run, without_teardown
from gpuwatch.diagnose.job_end.job_end import JobEnd, job_end
from gpuwatch.diagnose.job_end.jobs_apart import NamedEnd, ends_by_job
from gpuwatch.diagnose.job_end.log_tracks import closings_of, is_growing, is_settled, last_lines_of, tracks_of
from gpuwatch.diagnose.job_end.planned_end import with_planned_ends
from gpuwatch.diagnose.job_end.stop_alerts import stop_alerts
from gpuwatch.diagnose.job_end.training_tracks import main_tracks
from gpuwatch.diagnose.job_end.unfinished import unfinished_alerts
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.failure_classes import UNEXPLAINED
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint, of_lines
from gpuwatch.diagnose.past_jobs.logged_numbers import progress_alerts, with_lasting
from gpuwatch.fleet.jobs.places import RankPlace
from gpuwatch.plain import plain
from gpuwatch.report.incidents.json_output import alert_facts, evidence, incident_facts, named, outside
from gpuwatch.report.once.json_output import Facts, rounded
from gpuwatch.report.output.checkpoints import checkpoint_facts
from gpuwatch.report.output.masked import masked_in
from gpuwatch.report.output.renamed_keys import with_new_names
from gpuwatch.report.scan.silent_ranks import MAX_LISTED, ranks_with_empty_logs, ranks_without_log
from gpuwatch.rules.load import Packs
from gpuwatch.runs.files.around import Around, around
from gpuwatch.runs.files.line_numbers import line_numbers
from gpuwatch.runs.files.packing import is_section
from gpuwatch.runs.scan.result import LogScan, Scan

UNKNOWN_END = JobEnd("unknown")
PACE = ("train.", "slower_")
"""Classes that are about speed alone."""
Lines = Mapping[tuple[str, int], int]
"""(file, offset) -> the line's number, from 1."""


@dataclass(frozen=True)
class ScanReport:
    """Everything that is stated."""

    scan: Scan
    incidents: tuple[Incident, ...]
    """In the order of their first cause."""
    outside: tuple[Alert, ...]
    """Alerts that belong to no incident."""
    lines: Lines
    """Of the evidence."""
    time: float
    seconds: float
    end: JobEnd = UNKNOWN_END
    jobs: tuple[NamedEnd, ...] = ()
    """How each of several jobs ended; empty: there is one."""
    checkpoint: Checkpoint | None = None
    """The last one that the lines report."""

    @property
    def has_problems(self) -> bool:
        """Whether anything went wrong, the job stopped early, or a log was not read to its end."""
        return self.reported or self.end.state == "stopped" or self.unread

    @property
    def unread(self) -> bool:
        """Whether a part of a log was not searched: nothing is known about that part."""
        scan = self.scan
        damaged = any(file.trouble is not None for file in scan.files)
        return damaged or bool(scan.suspended) or any(each.unreadable for each in scan.skipped)

    @property
    def reported(self) -> bool:
        """Whether a finding is more than a remark."""
        return bool(self.incidents) or any(alert.severity != "info" for alert in self.outside)

    @property
    def unexplained(self) -> int:
        """How many error lines no rule explains, also of ranks that trained on."""
        alerts = [*self.outside, *(alert for incident in self.incidents for alert in incident.alerts)]
        return sum(alert.count for alert in alerts if alert.code == UNEXPLAINED)

    def place(self, proof: Proof) -> str:
        """`file:line`, which editors open."""
        if proof.file is None:
            return proof.node or "?"
        line = None if proof.offset is None else self.lines.get((proof.file, proof.offset))
        if line is None:
            return f"{proof.file} +{proof.offset}"
        parts = (file for file in self.scan.files if file.name == proof.file and is_section(file.packing))
        return f"{next((plain(str(file.path)) for file in parts), proof.file)}:{line}"


def judged(scan: Scan, packs: Packs, time: float, seconds: float) -> ScanReport:
    """Alerts and incidents of what was found; the lines of the evidence are counted in the files."""
    found = [LocatedFinding(hang_check.node, hang_check.finding) for hang_check in scan.located]
    tracks = tracks_of(scan.files)
    own = {file.name: file.rank for file in scan.files if file.rank is not None and not file.kernel}
    placed = with_own_logs(alerts_of(found, packs, scan.places, tracks), own, tracks)
    alerts = with_restarts(with_later_attempts(with_outcomes(placed, tracks), tracks), tracks)
    by_end = {alert.id for alert in alerts if alert.recovered and alert.recovered_step is None}
    alerts = with_later_lines(alerts, around_in(scan.files), own, tracks)
    closings = closings_of(scan.files)
    growing, settled = is_growing(scan.files, time), is_settled(scan.files, tracks, time)
    jobs: tuple[NamedEnd, ...] = ()
    if all(file.attempt is None for file in scan.files):
        jobs = ends_by_job(tracks, alerts, closings, growing=growing, settled=settled)
    end = jobs[0].end if jobs else job_end(tracks, alerts, closings, growing=growing, settled=settled)
    if end.state == "stopped" and not jobs:
        again = [alert for alert in placed if alert.id in by_end and alert.rank in (None, *end.behind)]
        not_over = {alert.id: alert for alert in with_later_lines(again, around_in(scan.files), own, tracks)}
        alerts = [not_over.get(alert.id, alert) for alert in alerts]  # that end is not true of all ranks
    judged_tracks = jobs[0].tracks if jobs else tracks
    ends = tuple(line for file in scan.files for line in file.last_lines[-LAST_LINES:])
    alerts = without_teardown(with_completed_run(alerts, end, judged_tracks), end)
    saved_last = saved_at_end(main_tracks(tracks), closings)
    alerts = without_harm(alerts, scan.saves, ends, saved_last=saved_last)
    alerts = with_planned_ends(alerts, closings)
    alerts = with_lasting([alert for alert in alerts if alert.code != FINISHED], scan.files)
    alerts += of_progress(alerts, scan.files, end)
    alerts += stop_alerts(end, judged_tracks, alerts, closings)
    alerts += unfinished_alerts(scan.unfinished, end, alerts, scan.files)
    judgement = sorted(
        incidents(alerts, scan.places, packs, time, last_lines_of(scan.files)),
        key=lambda incident: incident.first,
    )
    numbered = [structs.replace(each, number=number) for number, each in enumerate(judgement, 1)]
    loose = [followed_nothing(alert) for alert in outside(alerts, numbered)]
    proofs = [proof for incident in numbered for _, proof in evidence(incident)]
    proofs += [alert.proof[0] for alert in loose if alert.proof]
    last = job_checkpoint(scan, end)
    numbered = [structs.replace(each, checkpoint=last) for each in numbered]
    lines = lines_of(proofs, scan)
    return ScanReport(scan, tuple(numbered), tuple(loose), lines, time, seconds, end, jobs, last)


def job_checkpoint(scan: Scan, end: JobEnd) -> Checkpoint | None:
    """The last checkpoint that the lines report, and what came after it."""
    last = of_lines(scan.checkpoints)
    if last is None:
        return None
    times = [rank.at for rank in end.ranks if rank.at is not None]
    times += [file.last_time for file in scan.files if file.last_time is not None and not file.kernel]
    return structs.replace(last, last_step=end.step, last_at=max(times, default=None))


def around_in(files: Iterable[LogScan]) -> Reader:
    """What reads the lines around errors in these files; system logs are of many programs."""
    logs = {file.name: file for file in files if not file.kernel}

    def read(alert: Alert) -> Around | None:
        proof = alert.proof[0]
        file = logs.get(proof.file or "")
        if file is None or proof.offset is None:
            return None
        return around(file.path, file.packing, proof.offset, last_offset(alert))

    return read


def of_progress(alerts: Iterable[Alert], files: Iterable[LogScan], end: JobEnd) -> list[Alert]:
    """What the numbers state and no line does; a finished job's pace is a remark, a collapse is not."""
    stated = {(alert.code, alert.rank) for alert in alerts} | {(alert.code, None) for alert in alerts}
    found = [each for each in progress_alerts(files) if (each.code, each.rank) not in stated]
    if end.state != "finished":
        return found
    return [
        structs.replace(each, severity="info")
        if each.code.startswith(PACE) and "step" not in each.fields
        else each
        for each in found
    ]


def lines_of(proofs: Iterable[Proof], scan: Scan) -> Lines:
    """The line numbers of the proofs, each file read once."""
    wanted: dict[str, set[int]] = defaultdict(set)
    for proof in proofs:
        if proof.file is not None and proof.offset is not None:
            wanted[proof.file].add(proof.offset)
    files = {file.name: file for file in scan.files}
    return {
        (name, offset): line
        for name, offsets in wanted.items()
        if name in files
        for offset, line in line_numbers(files[name].path, files[name].packing, offsets).items()
    }


def scan_json(report: ScanReport) -> str:
    """The report as JSON text."""
    return json.dumps(scan_facts(report), indent=2, ensure_ascii=False)


def scan_facts(report: ScanReport) -> Facts:
    """The report as plain data; `docs/json.md` reports every key."""
    scan = report.scan
    facts: Facts = {
        "gpuwatch": __version__,
        "time": round(report.time, 3),
        "found": report.has_problems,
        "unexplained_errors": report.unexplained,
        "outcome": outcome_facts(report.end, report.jobs),
        "checkpoint": checkpoint_facts(report.checkpoint),
        "stopped": scan.stopped,
        "engine": scan.engine,
        "bytes": scan.bytes,
        "seconds": rounded(report.seconds),
        "incidents": [with_lines(incident_facts(each), report.lines) for each in report.incidents],
        "alerts": [with_lines(alert_facts(alert), report.lines) for alert in report.outside],
        "ranks": [rank_facts(place) for place in scan.places.ranks],
        "ranks_with_empty_logs": list(ranks_with_empty_logs(scan)[:MAX_LISTED]),
        "ranks_without_log": list(ranks_without_log(scan)[:MAX_LISTED]),
        "files": [
            {
                "name": file.name,
                "bytes": file.size,
                "node": named(file.node),
                "rank": file.rank,
                "attempt": file.attempt,
                "kernel": file.kernel,
                "findings": file.findings,
                "trouble": named(file.trouble),
            }
            for file in scan.files
        ],
        "skipped": [
            {"name": each.name, "why": each.why, "unreadable": each.unreadable} for each in scan.skipped
        ],
        "suspended": {rule: plain(why) for rule, why in scan.suspended.items()},
        "left_out": scan.left_out,
    }
    facts["secrets_masked"] = masked_in(facts)
    return with_new_names(facts)


def outcome_facts(end: JobEnd, jobs: Iterable[NamedEnd] = ()) -> Facts:
    """How the job ended; of several the one that ended worst."""
    return {
        "state": end.state,
        "text": end.text,
        "step": end.step,
        "total_steps": end.total_steps,
        "behind": list(end.behind),
        "early": end.early,
        "signal": end.signal,
        "jobs": [{"name": each.name, "state": each.end.state, "text": each.end.text} for each in jobs],
        "ranks": [{"rank": each.rank, "step": each.step, "at": each.at} for each in end.ranks],
    }


def with_lines(facts: Facts, lines: Lines) -> Facts:
    """The evidence with the numbers of its lines."""
    for proof in facts["evidence"]:
        proof["line"] = lines.get((proof["file"], proof["offset"]))
    return facts


def rank_facts(place: RankPlace) -> Facts:
    """Where a rank ran, and how that is known."""
    return {
        "rank": place.rank,
        "node": named(place.node),
        "gpu": place.gpu,
        "bus_id": place.bus_id,
        "pid": place.pid,
        "local_rank": place.local_rank,
        "world_size": place.world_size,
        "logs": list(place.logs),
        "how": place.how,
    }
