"""Judges a job's logs even if gpuwatch has a fault over some of what they say: it is left out and named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import structs

from gpuwatch.diagnose.alerts.from_findings import alerts_of
from gpuwatch.diagnose.alerts.placement.finding_place import LocatedFinding
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import RulePacks
from gpuwatch.diagnose.past_jobs.judgement import Judgement, judge
from gpuwatch.runs.files.files import Skipped
from gpuwatch.runs.flight.rank_dump import RankDump
from gpuwatch.runs.model.containment import contained, from_sound
from gpuwatch.runs.scan.result import LogScan, Scan, ScanFinding

Part: TypeAlias = LogScan | ScanFinding | RankDump
MAX_FAULTS = 4
"""Most parts that are left out one by one; each is found by about 12 judgements of a part of the logs."""
EVERYTHING = "all files"


def sound_judgement(
    scan: Scan,
    packs: RulePacks,
    time: float,
    dumps: Sequence[RankDump] = (),
    *,
    beside_finished: bool = False,
) -> Judgement:
    """Return the judgement of `judge`, for the same arguments; an exception in it ends nothing.

    Findings, files and dumps over which it raises one are left out, and their files are in `faults`. Findings
    that are left out, or that cannot be judged together, are alerts by themselves.
    """

    def of(parts: Sequence[Part]) -> Judgement:
        return judge(
            structs.replace(
                scan,
                files=tuple(each for each in parts if isinstance(each, LogScan)),
                located=tuple(each for each in parts if isinstance(each, ScanFinding)),
            ),
            packs,
            time,
            [each for each in parts if isinstance(each, RankDump)],
            beside_finished=beside_finished,
        )

    parts: list[Part] = [*scan.files, *scan.located, *dumps]
    found, fault = contained(from_sound, of, parts, most=MAX_FAULTS, alone=False)
    if found is None:
        return with_fault(Judgement(outside=tuple(_alone(scan.located, scan, packs))), fault or "")
    judgement, faults = found
    if not faults:
        return judgement
    left_out = [part for at in sorted(faults) if isinstance(part := parts[at], ScanFinding)]
    return structs.replace(
        judgement,
        outside=(*judgement.outside, *_alone(left_out, scan, packs)),
        faults={_file(parts[at]): _not_judged(why) for at, why in faults.items()},
    )


def with_fault(judgement: Judgement, fault: str) -> Judgement:
    """Return a judgement with the fault of another that failed for all files together."""
    return structs.replace(judgement, faults={**judgement.faults, EVERYTHING: _not_judged(fault)})


def with_faults(scan: Scan, faults: Mapping[str, str]) -> Scan:
    """Return the scan with the faults of its judgement, as the trouble of a file or as what was skipped."""
    if not faults:
        return scan
    files = tuple(
        structs.replace(file, trouble="; ".join(filter(None, (file.trouble, faults[file.name]))))
        if file.name in faults
        else file
        for file in scan.files
    )
    others = faults.keys() - {file.name for file in files}
    skipped = (Skipped(name, faults[name], unreadable=True) for name in sorted(others))
    return structs.replace(scan, files=files, skipped=(*scan.skipped, *skipped))


def _alone(findings: Iterable[ScanFinding], scan: Scan, packs: RulePacks) -> Iterable[Alert]:
    """Yield the alert of each finding by itself, if it has one."""
    for each in findings:
        found = [LocatedFinding(each.node, each.finding)]
        yield from contained(alerts_of, found, packs, scan.places, ())[0] or ()


def _file(part: Part) -> str:
    if isinstance(part, LogScan):
        return part.name
    return part.finding.file if isinstance(part, ScanFinding) else part.file


def _not_judged(fault: str) -> str:
    return fault.replace("not fully read", "not fully judged", 1)
