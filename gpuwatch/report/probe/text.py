"""A probe in words: collectives, pairs, GPUs, alerts, and last the verdict, nearest to the prompt."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TextIO

from rich.cells import cell_len

from gpuwatch import __version__
from gpuwatch.plain import plain
from gpuwatch.probe.judging.text.grade_symbols import Marks
from gpuwatch.probe.results import Results
from gpuwatch.probe.verdict import Culprit, Verdict
from gpuwatch.report.output.console import console_on, show
from gpuwatch.report.output.report_line import ReportLine
from gpuwatch.report.probe.format import backend_text, marks_for, percent_text
from gpuwatch.report.probe.matrix import pair_lines
from gpuwatch.report.probe.preflight import unreachable_lines
from gpuwatch.report.probe.tables import collective_lines, counter_lines, gpu_lines, transport_lines

EMPTY = ReportLine("")
VERDICT_STYLES = {"ok": "ok", "noisy": "warning", "bad": "critical", "failed": "critical"}
SHOWN_CULPRITS = 12
HANGING = 4


def print_lines(lines: Sequence[ReportLine], out: TextIO) -> None:
    """Write lines; colours follow the terminal, NO_COLOR and TERM, and every character can be written."""
    with console_on(out) as console:
        for line in lines:
            text = writable(line.text, out.encoding)
            for part in wrapped(text, console.width):
                show(console, ReportLine(part, line.style))


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most so many cells; those that go on stand a little further in."""
    if cell_len(text) <= width or not text.isascii():
        return [text]
    indent = len(text) - len(text.lstrip()) + HANGING
    return textwrap.wrap(text, width, subsequent_indent=" " * indent, drop_whitespace=True) or [text]


def width_of(out: TextIO) -> int | None:
    """The cells of a terminal's line; None where nothing sets a width."""
    if not out.isatty():
        return None
    with console_on(out) as console:
        return console.width


def writable(text: str, encoding: str | None) -> str:
    """The text with a question mark for what this output cannot carry."""
    known = encoding or "utf-8"
    return text.encode(known, "replace").decode(known)


def title_line(results: Results, source: str, *, demo: bool) -> ReportLine:
    """What was probed, when, by which version; and that a simulation is one."""
    moment = datetime.fromtimestamp(results.started).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    mark = "DEMO, a simulated cluster  " if demo else ""
    return ReportLine(
        plain(f"{mark}{moment}  probe of {source}  gpuwatch {__version__}"), "warning" if demo else "plain"
    )


def print_results(results: Results, out: TextIO) -> None:
    """Everything that was measured, fitted to this output."""
    print_lines(list(result_lines(results, marks_for(out.encoding), width_of(out))), out)


def result_lines(results: Results, marks: Marks, width: int | None) -> Iterator[ReportLine]:
    """What was measured, then what it means."""
    yield from backend_lines(results)
    sections = (
        ("", list(unreachable_lines(results))),
        ("", collective_lines(results, width)),
        ("", pair_lines(results, marks, width)),
        ("", gpu_lines(results, width)),
        ("transport", transport_lines(results)),
        ("changed counters", counter_lines(results)),
        (
            "notes",
            [ReportLine(plain(note)) for note in results.notes if not _is_reported(note, results.verdict)],
        ),
    )
    for title, lines in sections:
        if lines:
            yield EMPTY
            if title:
                yield ReportLine(title)
            yield from (ReportLine(f"  {line.text}", line.style) if title else line for line in lines)
    yield EMPTY
    yield from verdict_lines(results)


def _is_reported(note: str, verdict: Verdict | None) -> bool:
    """Whether the verdict states why in the same words."""
    culprits = verdict.culprits if verdict is not None else ()
    return any(note.endswith(f": {why}") for culprit in culprits for why in culprit.evidence)


def backend_lines(results: Results) -> Iterator[ReportLine]:
    """Which back end ran, before any number."""
    text = backend_text(results)
    if text:
        torch = f"  torch {plain(results.torch)}" if results.torch else ""
        yield ReportLine(f"{text}{torch}", "warning" if text.startswith("GLOO") else "plain")


def verdict_lines(results: Results) -> Iterator[ReportLine]:
    """Alerts, advice, then the sentence with who is to blame and why."""
    verdict = results.verdict
    if results.phase == "cancelled":
        yield ReportLine("cancelled: results so far", "warning")
    elif results.phase == "failed" and not (
        verdict and results.reason and results.reason in verdict.sentence
    ):
        yield ReportLine(plain(f"probe failed: {results.reason}"), "critical")
    if verdict is None:
        yield ReportLine("verdict: none, too little was measured", "warning")
        return
    for alert in verdict.alerts:
        yield ReportLine(plain(f"ALERT  {alert}"), "warning")
    for advice in verdict.advice:
        yield ReportLine(plain(f"advice: {advice}"))
    yield from sentence_lines(verdict)


def sentence_lines(verdict: Verdict) -> Iterator[ReportLine]:
    """`BAD  gpu-003: all 14 links at 25 % of its peers`, and what it rests on."""
    yield ReportLine(plain(f"{verdict.status.upper()}  {verdict.sentence}"), VERDICT_STYLES[verdict.status])
    for evidence in verdict.evidence:
        if evidence not in verdict.sentence:
            yield ReportLine(plain(f"  {evidence}"))
    for culprit in verdict.culprits[:SHOWN_CULPRITS]:
        yield from culprit_lines(culprit, verdict.sentence)
    more = len(verdict.culprits) - SHOWN_CULPRITS
    if more > 0:
        yield ReportLine(f"  and {more} more (--json has them)")


def _states(sentence: str, evidence: str) -> bool:
    """Whether a sentence states this already, maybe without the rank in front of it."""
    who, _, what = evidence.partition(": ")
    return evidence in sentence or (who.startswith("rank ") and bool(what) and what in sentence)


def culprit_lines(culprit: Culprit, sentence: str) -> Iterator[ReportLine]:
    """`  node gpu-003  25% of its peers`.

    Then what it rests on that the verdict's sentence has not stated.
    """
    ratio = culprit.state if culprit.ratio is None else f"{percent_text(culprit.ratio)} of its peers"
    yield ReportLine(plain(f"  {culprit.kind} {culprit.name}  {ratio}"), "critical")
    for evidence in culprit.evidence:
        if not _states(sentence, evidence):
            yield ReportLine(plain(f"    {evidence}"))
