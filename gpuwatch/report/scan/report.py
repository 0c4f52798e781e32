"""The judged result of a scan: incidents, other alerts, and what was read; as an object and as JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from gpuwatch import __version__
from gpuwatch.diagnose.incidents.evidence import evidence
from gpuwatch.diagnose.job_end.job_end import JobEnd
from gpuwatch.diagnose.job_end.jobs_apart import NamedEnd
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.failure_classes import UNEXPLAINED
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.diagnose.past_jobs.folder.folder_judgement import judge_folder
from gpuwatch.diagnose.past_jobs.folder.sound_judgement import with_fault, with_faults
from gpuwatch.diagnose.past_jobs.judgement import UNKNOWN_END, Judgement
from gpuwatch.fleet.jobs.places import RankPlace
from gpuwatch.plain import plain, plain_json
from gpuwatch.report.incidents.json_output import alert_facts, incident_facts, named
from gpuwatch.report.once.json_output import Facts, rounded
from gpuwatch.report.output.checkpoints import checkpoint_facts
from gpuwatch.report.output.masked import masked_in
from gpuwatch.report.output.renamed_keys import with_new_names
from gpuwatch.report.scan.silent_ranks import MAX_LISTED, ranks_with_empty_logs, ranks_without_log
from gpuwatch.rules.load import Packs
from gpuwatch.runs.files.excerpts.line_numbers import line_numbers
from gpuwatch.runs.files.packing import is_section
from gpuwatch.runs.flight.rank_dump import RankDump
from gpuwatch.runs.model.containment import contained
from gpuwatch.runs.scan.result import Scan

Lines = Mapping[tuple[str, int], int]
"""(file, byte offset) -> line number from 1."""


class ScanReport(Struct, frozen=True):
    """The content of a scan's report."""

    scan: Scan
    incidents: tuple[Incident, ...]
    """The incidents, in the order of their causes."""
    outside: tuple[Alert, ...]
    """Alerts that belong to no incident."""
    lines: Lines
    """The line numbers of the evidence."""
    time: float
    seconds: float
    end: JobEnd = UNKNOWN_END
    jobs: tuple[NamedEnd, ...] = ()
    """The outcome of each job; empty if the logs are of one job."""
    checkpoint: Checkpoint | None = None
    """The last checkpoint in the logs."""

    @property
    def has_problems(self) -> bool:
        """True if a finding is above `info`, the job stopped early unasked, or a log was not read whole."""
        return self.reported or (self.end.state == "stopped" and not self.end.orderly) or self.unread

    @property
    def unread(self) -> bool:
        """True if a part of a log was not searched, or not for a suspended rule: its content is unknown."""
        scan = self.scan
        damaged = any(file.trouble is not None for file in scan.files)
        return damaged or bool(scan.suspended) or any(each.unreadable for each in scan.skipped)

    @property
    def reported(self) -> bool:
        """True if a finding is above `info`."""
        return bool(self.incidents) or any(alert.severity != "info" for alert in self.outside)

    @property
    def unexplained(self) -> int:
        """Number of error lines that no rule explains, including those of ranks that trained on."""
        alerts = [*self.outside, *(alert for incident in self.incidents for alert in incident.alerts)]
        return sum(alert.count for alert in alerts if alert in UNEXPLAINED)

    def place(self, proof: Proof) -> str:
        """Return the location of a proof, `file:line`, which editors can open; `file +offset` without a line.

        Without an offset `end of file`, without a file the node.
        """
        if proof.file is None:
            return proof.node or "?"
        line = None if proof.offset is None else self.lines.get((proof.file, proof.offset))
        if line is None:
            return f"{proof.file} +{proof.offset}" if proof.offset is not None else f"end of {proof.file}"
        parts = (file for file in self.scan.files if file.name == proof.file and is_section(file.packing))
        return f"{next((plain(str(file.path)) for file in parts), proof.file)}:{line}"


def judged(
    scan: Scan, packs: Packs, time: float, seconds: float, dumps: Sequence[RankDump] = ()
) -> ScanReport:
    """Judge a scan and the dumps beside its logs; line numbers of the evidence are read from the files.

    `time`: unix seconds of the report; `seconds`: duration of the scan.
    """
    found = judge_folder(scan, packs, time, dumps)
    lines, fault = contained(_lines_of_evidence, found, scan)
    scan = with_faults(scan, (found if fault is None else with_fault(found, fault)).faults)
    return ScanReport(
        *(scan, found.incidents, found.outside, lines or {}, time, seconds),
        *(found.end, found.jobs, found.checkpoint),
    )


def _lines_of_evidence(found: Judgement, scan: Scan) -> Lines:
    proofs = [proof for incident in found.incidents for _, proof in evidence(incident)]
    proofs += [alert.proof[0] for alert in found.outside if alert.proof]
    return lines_of(proofs, scan)


def lines_of(proofs: Iterable[Proof], scan: Scan) -> Lines:
    """Return (file, byte offset) -> line number of the proofs in the scanned files; each is read once."""
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
    """Return the report on scanned logs as JSON text."""
    return plain_json(json.dumps(scan_facts(report), indent=2, ensure_ascii=False))


def scan_facts(report: ScanReport) -> Facts:
    """Return the report on scanned logs as data; every key is documented in `docs/json.md`."""
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
    """Return how the job ended, as data; of several jobs, `end` is the worst."""
    return {
        **end_facts(end),
        "jobs": [{"name": each.name, **end_facts(each.end)} for each in jobs],
        "ranks": [{"rank": each.rank, "step": each.step, "at": each.at} for each in end.ranks],
    }


def end_facts(end: JobEnd) -> Facts:
    """Return how one job ended, without the last steps of its ranks, as data."""
    return {
        "state": end.state,
        "text": end.text,
        "step": end.step,
        "total_steps": end.total_steps,
        "behind": list(end.behind),
        "early": end.early,
        "signal": end.signal,
    }


def with_lines(facts: Facts, lines: Lines) -> Facts:
    """Add line numbers to the evidence of an incident's data, and return it."""
    for proof in facts["evidence"]:
        proof["line"] = lines.get((proof["file"], proof["offset"]))
    return facts


def rank_facts(place: RankPlace) -> Facts:
    """Return where a rank ran, and how that is known, as data."""
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
