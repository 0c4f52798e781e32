"""A probe as text: collectives, pairs, GPUs, alerts, and the verdict last, next to the prompt."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.cells import cell_len

from gpuwatch import __version__
from gpuwatch.blocks.model import Line, Style
from gpuwatch.number_text import moment, share_text
from gpuwatch.plain import plain
from gpuwatch.probe.judging.text.grade_symbols import Marks
from gpuwatch.probe.results import Results
from gpuwatch.probe.verdict import Culprit, ProbeVerdict
from gpuwatch.report.output.console import console_on, show
from gpuwatch.report.probe.format import backend_text, marks_for
from gpuwatch.report.probe.matrix import pair_lines
from gpuwatch.report.probe.preflight import unreachable_lines
from gpuwatch.report.probe.tables import collective_lines, counter_lines, gpu_lines, transport_lines

EMPTY = Line("")
VERDICT_STYLES: dict[str, Style] = {"ok": "ok", "noisy": "warning", "bad": "critical", "failed": "critical"}
SHOWN_CULPRITS = 12
HANGING = 4


def print_lines(lines: Sequence[Line], out: TextIO) -> None:
    """Write lines; colours depend on the terminal, NO_COLOR and TERM; unencodable characters become `?`."""
    with console_on(out) as console:
        for line in lines:
            text = writable(line.text, out.encoding)
            for part in wrapped(text, console.width):
                show(console, Line(part, line.style))


def wrapped(text: str, width: int) -> list[str]:
    """Return the text wrapped to this width, with continuation lines indented; non-ASCII text unwrapped."""
    if cell_len(text) <= width or not text.isascii():
        return [text]
    indent = len(text) - len(text.lstrip()) + HANGING
    return textwrap.wrap(text, width, subsequent_indent=" " * indent, drop_whitespace=True) or [text]


def width_of(out: TextIO) -> int | None:
    """Return the width of a terminal; None if `out` is no terminal."""
    if not out.isatty():
        return None
    with console_on(out) as console:
        return console.width


def writable(text: str, encoding: str | None) -> str:
    """Return the text with a question mark for each character that the output cannot encode."""
    known = encoding or "utf-8"
    return text.encode(known, "replace").decode(known)


def title_line(results: Results, source: str, *, demo: bool) -> Line:
    """Return the title: source, time, version, and a mark for simulations."""
    mark = "DEMO, a simulated cluster  " if demo else ""
    return Line(
        plain(f"{mark}{moment(results.started)}  probe of {source}  gpuwatch {__version__}"),
        "warning" if demo else "plain",
    )


def print_results(results: Results, out: TextIO) -> None:
    """Write all measurements, fitted to the output."""
    print_lines(list(result_lines(results, marks_for(out.encoding), width_of(out))), out)


def result_lines(results: Results, marks: Marks, width: int | None) -> Iterator[Line]:
    """Yield all lines: back end, unreachable nodes, tables of measurements, notes, and the verdict last."""
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
            [Line(plain(note)) for note in results.notes if not _is_reported(note, results.verdict)],
        ),
    )
    for title, lines in sections:
        if lines:
            yield EMPTY
            if title:
                yield Line(title)
            yield from (Line(f"  {line.text}", line.style) if title else line for line in lines)
    yield EMPTY
    yield from verdict_lines(results)


def _is_reported(note: str, verdict: ProbeVerdict | None) -> bool:
    """Return True if the verdict already states the reason of a note."""
    culprits = verdict.culprits if verdict is not None else ()
    return any(note.endswith(f": {why}") for culprit in culprits for why in culprit.evidence)


def backend_lines(results: Results) -> Iterator[Line]:
    """Yield the line about the back end, unless the back end is unknown."""
    text = backend_text(results)
    if text:
        torch = f"; torch {plain(results.torch)}" if results.torch else ""
        yield Line(f"{text}{torch}", "warning" if text.startswith("gloo") else "plain")


def verdict_lines(results: Results) -> Iterator[Line]:
    """Yield lines with why the probe ended early, alerts, advice, then the verdict, or that there is none."""
    verdict = results.verdict
    if results.phase == "cancelled":
        yield Line("cancelled: results so far", "warning")
    elif results.phase == "failed" and not (
        verdict and results.reason and results.reason in verdict.sentence
    ):
        yield Line(plain(f"probe failed: {results.reason}"), "critical")
    if verdict is None:
        yield Line("verdict: none, too little was measured", "warning")
        return
    for alert in verdict.alerts:
        yield Line(plain(f"ALERT  {alert}"), "warning")
    for advice in verdict.advice:
        yield Line(plain(f"advice: {advice}"))
    yield from sentence_lines(verdict)


def sentence_lines(verdict: ProbeVerdict) -> Iterator[Line]:
    """Yield lines with the verdict, `BAD  gpu-003: all 14 links at 25 % of its peers`, and its evidence.

    The culprits, at most `SHOWN_CULPRITS`, and the number of further ones are last.
    """
    yield Line(plain(f"{verdict.status.upper()}  {verdict.sentence}"), VERDICT_STYLES[verdict.status])
    for evidence in verdict.evidence:
        if evidence not in verdict.sentence:
            yield Line(plain(f"  {evidence}"))
    for culprit in verdict.culprits[:SHOWN_CULPRITS]:
        yield from culprit_lines(culprit, verdict.sentence)
    more = len(verdict.culprits) - SHOWN_CULPRITS
    if more > 0:
        yield Line(f"  and {more} more (--json lists them)")


def _states(sentence: str, evidence: str) -> bool:
    """Return True if a sentence already contains this evidence, or the evidence without its leading rank."""
    who, _, what = evidence.partition(": ")
    return evidence in sentence or (who.startswith("rank ") and bool(what) and what in sentence)


def culprit_lines(culprit: Culprit, sentence: str) -> Iterator[Line]:
    """Yield lines with a culprit, `  node n3  25% of its peers' rate`, and the evidence not stated yet."""
    ratio = culprit.state if culprit.ratio is None else f"{share_text(culprit.ratio)} of its peers' rate"
    yield Line(plain(f"  {culprit.kind} {culprit.name}  {ratio}"), "critical")
    for evidence in culprit.evidence:
        if not _states(sentence, evidence):
            yield Line(plain(f"    {evidence}"))
