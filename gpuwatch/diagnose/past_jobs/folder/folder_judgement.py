"""Judges a folder of logs: each job by itself; a fault that several jobs share is reported once.

Example: `runs/job-1` and `runs/job-2` have the logs of four ranks each, and both jobs ended by an
out-of-memory error at about the same time: two incidents, each with the rank and the followers of its job. If
the same Xid of a node that both used ended them, there is one incident.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from gpuwatch.diagnose.incidents.builder import in_order
from gpuwatch.diagnose.incidents.causes.alert_job import GAP_S
from gpuwatch.diagnose.job_end.jobs_apart import NamedEnd, by_gravity, each_apart, names_of, tracks_by_job
from gpuwatch.diagnose.job_end.log_tracks import closings_of, tracks_of
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import NODE_FAILURES, RulePacks
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.past_jobs.folder.sound_judgement import sound_judgement, with_fault
from gpuwatch.diagnose.past_jobs.judgement import Judgement
from gpuwatch.diagnose.past_jobs.left_dumps import with_dumps
from gpuwatch.runs.flight.rank_dump import RankDump
from gpuwatch.runs.model.containment import contained
from gpuwatch.runs.scan.result import Scan
from gpuwatch.runs.steps.job_folders import folder_of


def judge_folder(scan: Scan, packs: RulePacks, time: float, dumps: Sequence[RankDump] = ()) -> Judgement:
    """Return the alerts and incidents of a scan, and how its job or jobs ended. Arguments as for `judge`.

    A fault of gpuwatch over what a file says ends nothing; the file is named in `faults`.
    """
    of_jobs, fault = contained(_judge_jobs, scan, packs, time, dumps)
    judgement = of_jobs or sound_judgement(scan, packs, time, dumps)
    return judgement if fault is None else with_fault(judgement, fault)


def _judge_jobs(scan: Scan, packs: RulePacks, time: float, dumps: Sequence[RankDump]) -> Judgement | None:
    """Return the judgement of several jobs, each by itself; None: it is one job."""
    tracks = tracks_by_job(tracks_of(scan.files))
    apart = tracks and set(tracks) == set(scan.folders) and each_apart(tracks)
    if not apart or any(file.attempt is not None for file in scan.files):
        return None
    by_folder: dict[str | None, list[RankDump]] = {folder: [] for folder in (None, *tracks)}
    for dump in dumps:
        by_folder[folder_of(dump.file, tracks)].append(dump)
    found = {
        folder: sound_judgement(scan.folders[folder], packs, time, by_folder[folder]) for folder in tracks
    }
    if any(each.end.state == "finished" for each in found.values()):
        for folder, each in found.items():
            if each.end.state == "stopped" and not each.incidents:
                part = scan.folders[folder]
                found[folder] = sound_judgement(part, packs, time, by_folder[folder], beside_finished=True)
    names = names_of(tracks, closings_of(scan.files))
    jobs = by_gravity(NamedEnd(names[folder], found[folder].end, tracks[folder]) for folder in tracks)
    of_jobs = {names[folder]: each for folder, each in found.items()}
    incidents, hit = once({job: each.incidents for job, each in of_jobs.items()})
    incidents = with_dumps(in_order(incidents), by_folder[None], RankIndex(scan.places))
    return Judgement(
        tuple(
            structs.replace(each, headline=f"{_names(hit[each.id])}: {each.headline}") for each in incidents
        ),
        tuple(_outside(found, names, incidents)),
        jobs[0].end,
        jobs,
        of_jobs[jobs[0].name].checkpoint,
        {file: why for each in found.values() for file, why in each.faults.items()},
    )


def once(by_job: Mapping[str, Iterable[Incident]]) -> tuple[list[Incident], dict[str, list[str]]]:
    """Return the incidents of all jobs, with a shared fault once; and incident id -> the jobs that it hit."""
    found: list[Incident] = []
    hit: dict[str, list[str]] = {}
    for job, incidents in by_job.items():
        for incident in incidents:
            of_others = (at for at, each in enumerate(found) if job not in hit[each.id])
            at = next((at for at in of_others if is_same_fault(found[at], incident)), None)
            if at is None:
                key = f"{job}-{incident.id.rpartition('-')[2]}"
                found.append(structs.replace(incident, id=key, job=job))
                hit[key] = [job]
            else:
                hit[found[at].id].append(job)
                found[at] = _joined(found[at], incident)
    return found, hit


def _names(jobs: Sequence[str]) -> str:
    """Return `llama`, `llama and bert` or `llama and 4 more jobs`."""
    others = jobs[1] if len(jobs) == 2 else f"{len(jobs) - 1} more jobs"
    return jobs[0] if len(jobs) == 1 else f"{jobs[0]} and {others}"


def is_same_fault(one: Incident, other: Incident) -> bool:
    """Return True if the same line caused both, or both report one device's failure at about one time."""
    if one.cause is None or other.cause is None:
        return False
    near = abs(one.first - other.first) <= GAP_S
    subject = _failed_device(one)
    return one.cause.id == other.cause.id or (
        near and subject is not None and subject == _failed_device(other)
    )


def _failed_device(incident: Incident) -> tuple[str, int | None, str] | None:
    """Return (node, GPU or None, class) of a hardware fault; None: the incident has another cause.

    For a fault of a whole node the class is "".
    """
    if incident.node is None or incident.cause is None:
        return None
    if incident.cause in NODE_FAILURES:
        return incident.node, None, ""
    return (incident.node, incident.gpu, incident.code) if incident.cause.kernel else None


def _joined(one: Incident, other: Incident) -> Incident:
    """Return the incident of a first job, extended by what the same fault did to another job."""
    known = {alert.id for alert in one.alerts}
    return structs.replace(
        one,
        last=max(one.last, other.last),
        alerts=(*one.alerts, *(alert for alert in other.alerts if alert.id not in known)),
        followers=one.followers + other.followers,
        timeline=tuple(sorted(dict.fromkeys((*one.timeline, *other.timeline)), key=lambda moment: moment.at)),
    )


def _outside(
    found: Mapping[str, Judgement], names: Mapping[str, str], incidents: Iterable[Incident]
) -> Iterator[Alert]:
    """Yield each alert that is in no incident; one from a job's own file names the job."""
    seen = {alert.id for incident in incidents for alert in incident.alerts}
    for judgement in found.values():
        for alert in judgement.outside:
            if alert.id not in seen:
                seen.add(alert.id)
                home = folder_of(alert.proof[0].file or "", names) if alert.proof else None
                yield alert if home is None else structs.replace(alert, job=names[home])
