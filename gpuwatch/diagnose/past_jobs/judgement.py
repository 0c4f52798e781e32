"""Judges an ended job's logs: incidents, other alerts, and how the job ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field, structs

from gpuwatch.diagnose.alerts.from_findings import alerts_of
from gpuwatch.diagnose.alerts.placement.finding_place import LocatedFinding
from gpuwatch.diagnose.error_outcome.by_lines.recovery_by_lines import Reader, last_offset, with_later_lines
from gpuwatch.diagnose.error_outcome.consequence import LAST_LINES, followed_nothing, without_harm
from gpuwatch.diagnose.error_outcome.later_attempts import with_later_attempts, with_restarts
from gpuwatch.diagnose.error_outcome.outcomes import with_outcomes
from gpuwatch.diagnose.error_outcome.own_logs import with_own_logs
from gpuwatch.diagnose.incidents.builder import incidents
from gpuwatch.diagnose.job_end.closing import LogEnd, saved_at_end
from gpuwatch.diagnose.job_end.end_alerts.completed_run import (
    with_completed_run,
    with_passed_pressure,
    without_teardown,
)
from gpuwatch.diagnose.job_end.end_alerts.failed_closing import failed_closing_alerts, with_final_errors
from gpuwatch.diagnose.job_end.end_alerts.quiet_errors import with_quiet_errors
from gpuwatch.diagnose.job_end.end_alerts.stop_alerts import stop_alerts, with_stated_failure
from gpuwatch.diagnose.job_end.end_alerts.unfinished import unfinished_alerts
from gpuwatch.diagnose.job_end.job_end import JobEnd, job_end
from gpuwatch.diagnose.job_end.jobs_apart import NamedEnd, ends_by_job
from gpuwatch.diagnose.job_end.log_tracks import (
    closings_of,
    is_growing,
    is_settled,
    last_lines_of,
    shared_last_lines,
    tracks_of,
)
from gpuwatch.diagnose.job_end.planned_end import with_planned_ends
from gpuwatch.diagnose.job_end.saved_stacks import stack_alerts
from gpuwatch.diagnose.job_end.training_tracks import main_tracks
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import FINISHED, RulePacks, of_kinds
from gpuwatch.diagnose.model.incident import Incident, outside
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint, of_lines
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.past_jobs.cluster_events import with_started_pods, without_earlier_events
from gpuwatch.diagnose.past_jobs.explained_tables import with_tables_as_evidence
from gpuwatch.diagnose.past_jobs.last_words import ranks_with_last_words, with_last_words
from gpuwatch.diagnose.past_jobs.left_dumps import with_dumps
from gpuwatch.diagnose.past_jobs.logged_numbers import logged_writer, progress_alerts, with_lasting
from gpuwatch.diagnose.past_jobs.stated_repairs import with_repairs
from gpuwatch.diagnose.training.reporting_ranks import with_reporting_ranks
from gpuwatch.runs.files.excerpts.around import Around, around
from gpuwatch.runs.flight.rank_dump import RankDump
from gpuwatch.runs.placement.job_ranks import TASK
from gpuwatch.runs.scan.result import LogScan, Scan

UNKNOWN_END = JobEnd("unknown")
SPEED = of_kinds("speed")
"""Classes that are about speed alone."""


class Judgement(Struct, frozen=True):
    """The alerts and incidents in the files of a scan, and how each job ended.

    `gpuwatch scan` prints it; the screens over a folder show it.
    """

    incidents: tuple[Incident, ...] = ()
    """The incidents, ordered by the time of their root causes."""
    outside: tuple[Alert, ...] = ()
    """Alerts that belong to no incident."""
    end: JobEnd = UNKNOWN_END
    jobs: tuple[NamedEnd, ...] = ()
    """How each of several jobs ended; empty: there is one job."""
    checkpoint: Checkpoint | None = None
    """The last checkpoint in the logs."""
    faults: dict[str, str] = field(default_factory=dict)
    """File -> why some of what it says was not judged."""


def judge(
    scan: Scan,
    packs: RulePacks,
    time: float,
    dumps: Sequence[RankDump] = (),
    *,
    beside_finished: bool = False,
) -> Judgement:
    """Return the alerts and incidents of a scan, and how its job ended.

    Args:
        scan: The files and what the rules found in them.
        packs: The rules.
        time: Unix seconds now; shows with the times of the files whether the job still writes.
        dumps: The flight-recorder dumps beside the files.
        beside_finished: True if other jobs beside it finished.
    """
    found = [LocatedFinding(located.node, located.finding) for located in scan.located]
    tracks, own = tracks_of(scan.files), _own_logs(scan)
    placed = with_own_logs(alerts_of(found, packs, scan.places, tracks), own, tracks)
    stepped = with_restarts(with_later_attempts(with_outcomes(placed, tracks), tracks), tracks)
    alerts = with_later_lines(stepped, around_in(scan.files), own, tracks)
    alerts = without_earlier_events(with_started_pods(alerts, around_in(scan.files)), tracks)
    closings = closings_of(scan.files)
    growing, settled = is_growing(scan.files, time), is_settled(scan.files, tracks, time)
    jobs: tuple[NamedEnd, ...] = ()
    if all(file.attempt is None for file in scan.files):
        jobs = ends_by_job(tracks, alerts, closings, growing=growing, settled=settled)
    end = jobs[0].end if jobs else job_end(tracks, alerts, closings, growing=growing, settled=settled)
    if end.state == "stopped" and not jobs:
        by_end = {alert.id for alert in stepped if alert.recovered and alert.recovered_step is None}
        again = [alert for alert in placed if alert.id in by_end and alert.rank in (None, *end.behind)]
        not_over = {alert.id: alert for alert in with_later_lines(again, around_in(scan.files), own, tracks)}
        alerts = [not_over.get(alert.id, alert) for alert in alerts]  # other ranks did not end like this
    judged_tracks = jobs[0].tracks if jobs else tracks
    alerts = without_teardown(with_completed_run(alerts, end, judged_tracks), end, judged_tracks)
    saved_last = saved_at_end(main_tracks(tracks), closings)
    alerts = _with_consequences(alerts, scan, end, closings, saved_last=saved_last)
    alerts += of_progress(alerts, scan.files, end)
    others_finished = beside_finished or any(each.end.state == "finished" for each in jobs)
    alerts = with_quiet_errors(with_final_errors(alerts, scan.files, end), tracks, end, packs)
    alerts = with_tables_as_evidence(alerts)
    where = RankIndex(scan.places)
    if not jobs:
        alerts += stack_alerts(scan.files, end, alerts, where)
    alerts += stop_alerts(end, judged_tracks, alerts, closings, beside_finished=others_finished)
    alerts += unfinished_alerts(scan.unfinished, end, alerts, scan.files)
    if not jobs:
        alerts += failed_closing_alerts(scan.files, end, alerts)
    writers = [logged_writer(file, series).writer for file in scan.files for series in file.series]
    alerts = with_reporting_ranks(alerts, writers, where.sizes)
    if not jobs:
        words = ranks_with_last_words(main_tracks(tracks), closings)
        alerts = with_last_words(alerts, dict.fromkeys({alert.job for alert in alerts}, words))
    shared = shared_last_lines(alerts, around_in(scan.files), tasks_are_ranks=TASK in scan.places.counted)
    built = incidents(alerts, scan.places, packs, time, {**shared, **last_lines_of(scan.files)})
    judgement = sorted(with_dumps(built, dumps, where), key=lambda each: each.first)
    numbered = [structs.replace(each, number=number) for number, each in enumerate(judgement, 1)]
    loose = [followed_nothing(alert) for alert in outside(alerts, numbered)]
    end = end if jobs else with_stated_failure(end, alerts, tracks)
    last = job_checkpoint(scan, end)
    numbered = [structs.replace(each, checkpoint=last) for each in numbered]
    return Judgement(tuple(numbered), tuple(loose), end, jobs, last)


def _own_logs(scan: Scan) -> dict[str, int]:
    """Return file -> the rank that writes it, without logs of the kernel."""
    return {file.name: file.rank for file in scan.files if file.rank is not None and not file.kernel}


def _with_consequences(
    alerts: Sequence[Alert], scan: Scan, end: JobEnd, closings: Mapping[str, LogEnd], *, saved_last: bool
) -> list[Alert]:
    """Return the alerts; those without an effect, and those that were repaired, have a lower severity.

    Alerts for lines that a job writes when it ends well are left out. `saved_last`: whether the job saved a
    checkpoint at its end.
    """
    ends = tuple(line for file in scan.files for line in file.last_lines[-LAST_LINES:])
    left = without_harm(with_passed_pressure(alerts, end), scan.saves, ends, saved_last=saved_last)
    left = with_repairs(with_planned_ends(left, closings), around_in(scan.files))
    return with_lasting([alert for alert in left if alert not in FINISHED], scan.files)


def job_checkpoint(scan: Scan, end: JobEnd) -> Checkpoint | None:
    """Return the last checkpoint in the logs with the job's last step and line; None: the logs name none."""
    last = of_lines(scan.checkpoints)
    if last is None:
        return None
    times = [rank.at for rank in end.ranks if rank.at is not None]
    times += [file.last_time for file in scan.files if file.last_time is not None and not file.kernel]
    return structs.replace(last, last_step=end.step, last_at=max(times, default=None))


def around_in(files: Iterable[LogScan]) -> Reader:
    """Return a function alert -> the lines around it in these files; it returns None for a system log's."""
    logs = {file.name: file for file in files if not file.kernel}

    def read(alert: Alert) -> Around | None:
        proof = alert.proof[0]
        file = logs.get(proof.file or "")
        if file is None or proof.offset is None:
            return None
        return around(file.path, file.packing, proof.offset, last_offset(alert))

    return read


def of_progress(alerts: Iterable[Alert], files: Iterable[LogScan], end: JobEnd) -> list[Alert]:
    """Return alerts from logged metrics, without those that `alerts` already has.

    For a finished job slow speed is `info`; a collapse is not.
    """
    stated = {(alert.code, alert.rank) for alert in alerts} | {(alert.code, None) for alert in alerts}
    found = [each for each in progress_alerts(files) if (each.code, each.rank) not in stated]
    if end.state != "finished":
        return found
    return [
        structs.replace(each, severity="info") if each in SPEED and "step" not in each.fields else each
        for each in found
    ]
