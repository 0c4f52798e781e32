"""A scan as text: the evidence of each incident, then other alerts; the headlines are last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TextIO

from gpuwatch.blocks.model import Line, Style
from gpuwatch.number_text import plural, scaled_text
from gpuwatch.plain import plain
from gpuwatch.report.incidents.brief_text import brief_lines, sentence_line
from gpuwatch.report.incidents.text import incident_lines, outside_lines
from gpuwatch.report.output.console import console_on, show
from gpuwatch.report.scan.report import ScanReport
from gpuwatch.report.scan.silent_ranks import silent_rank_parts
from gpuwatch.runs.files.files import FLIGHT_DUMP, Skipped
from gpuwatch.runs.scan.result import Scan

EMPTY = Line("")
NOTHING = dict.fromkeys(("finished", "running", "unknown"), "no problem found") | {
    "stopped": "no line states why"
}


def print_scan(report: ScanReport, out: TextIO, *, verbose: bool) -> None:
    """Write the report on scanned logs, coloured if the terminal, NO_COLOR and TERM allow it.

    `verbose`: with evidence.
    """
    with console_on(out) as console:
        for line in scan_lines(report, verbose=verbose):
            show(console, line)


def scan_lines(report: ScanReport, *, verbose: bool) -> Iterator[Line]:
    """Yield the lines of a scan's report; `verbose`: with all evidence and each incident's timeline."""
    details = incident_lines if verbose else brief_lines
    for incident in report.incidents:
        yield from details(incident, report.place)
        yield EMPTY
    if report.outside:
        title = "other findings, not in an incident:" if report.incidents else "no incident; other findings:"
        yield Line(title)
        yield from outside_lines(report.outside, report.place)
        yield EMPTY
    yield from trouble_lines(report.scan)
    yield from (sentence_line(incident) for incident in report.incidents)
    yield verdict(report, verbose=verbose)


def trouble_lines(scan: Scan) -> Iterator[Line]:
    """Yield a line for each incompletely read file and each suspended rule, with the reason."""
    for file in scan.files:
        if file.trouble is not None:
            yield Line(f"{file.name}: {file.trouble}", "warning")
    for skipped in scan.skipped:
        if skipped.unreadable:
            yield Line(f"{skipped.name}: {skipped.why}", "warning")
    for rule, why in scan.suspended.items():
        yield Line(plain(f"rule {rule} suspended: {why}"), "warning")


def verdict(report: ScanReport, *, verbose: bool) -> Line:
    """Return the last line: how the job ended, and what was found and read.

    `2 incidents in 66 files (512MB, 3.1 s); 64 ranks on 8 nodes; 12 skipped (9 data, 3 picture)`.
    """
    scan = report.scan
    what = found_text(report)
    files = len(scan.files)
    size = scaled_text(scan.bytes, 1024)
    trained = report.end.step is not None or any(file.series or file.epochs for file in scan.files)
    unstated = report.end.state == "unknown" and (not trained or report.incidents)
    unstated = unstated and report.end.signal is None
    state = "" if unstated else f"{report.end.text}; "
    if report.jobs:
        state = "".join(f"{plain(each.name)}: {each.end.text}; " for each in report.jobs)
    parts = [f"{state}{what} in {files} file{'s' * (files != 1)} ({size}B, {report.seconds:.1f} s)"]
    ranks, nodes = len(scan.places.ranks), known_nodes(scan)
    on_nodes = f"{nodes or 'unknown'} node{'s' * (nodes != 1)}"
    if ranks:
        parts.append(f"{ranks} rank{'s' * (ranks != 1)} on {on_nodes}")
    elif nodes:
        parts.append(on_nodes)
    parts += silent_rank_parts(scan)
    if count := report.unexplained:
        parts.append(f"{count} error line{'s' * (count != 1)} not matched by any rule")
    if unreadable := sum(each.unreadable for each in scan.skipped):
        parts.append(f"{unreadable} not readable")
    if dumps := sum(each.why == FLIGHT_DUMP for each in scan.skipped):
        parts.append(plural(dumps, FLIGHT_DUMP))
    skipped = [each for each in scan.skipped if not each.unreadable and each.why != FLIGHT_DUMP]
    if skipped:
        parts.append(skipped_text(skipped))
    if report.incidents and not verbose:
        parts.append("-v shows the evidence")
    style: Style = (
        "critical" if report.incidents else "warning" if report.has_problems or report.unexplained else "ok"
    )
    return Line("; ".join(parts), style)


def found_text(report: ScanReport) -> str:
    """Return as text how many incidents were found, else how many kinds of warnings, else of notes.

    Notes are not counted if the job stopped.
    """
    if report.incidents:
        return plural(len(report.incidents), "incident")
    warnings = {alert.code for alert in report.outside if alert.severity != "info"}
    if warnings:
        return f"no incident, {plural(len(warnings), 'warning')}"
    notes = {alert.code for alert in report.outside}
    if notes and report.end.state != "stopped":
        return f"no problem, {plural(len(notes), 'note')}"
    return "no problem found" if report.end.signal is not None else NOTHING[report.end.state]


def skipped_text(skipped: Sequence[Skipped]) -> str:
    """Return the skipped files as text, with at most four kinds: `12 skipped (9 data, 3 picture)`."""
    kinds = Counter(each.why for each in skipped)
    return (
        f"{kinds.total()} skipped ({', '.join(f'{number} {kind}' for kind, number in kinds.most_common(4))})"
    )


def known_nodes(scan: Scan) -> int:
    """Return the number of nodes that the logs name."""
    nodes = {place.node for place in scan.places.ranks if place.node}
    return len(nodes | {file.node for file in scan.files if file.node})
