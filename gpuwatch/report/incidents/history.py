"""Incidents of earlier sessions as a table and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TextIO

from gpuwatch import __version__
from gpuwatch.blocks.model import Line, known_style
from gpuwatch.number_text import moment, plural
from gpuwatch.plain import plain, plain_json
from gpuwatch.report.incidents.json_output import Facts, named
from gpuwatch.report.output.console import console_on, show
from gpuwatch.session.history.seen_incident import SeenIncident


def print_history(found: Sequence[SeenIncident], since: str, out: TextIO) -> None:
    """Write a table of incidents, coloured on a terminal. `since`: the period as text, for no result."""
    with console_on(out) as console:
        for line in history_lines(found, since):
            show(console, line)


def history_lines(found: Sequence[SeenIncident], since: str) -> Iterator[Line]:
    """Yield a table with a line per incident, up to eight places with several of one class, then a count.

    Without incidents, yield only a line that states so. `since`: the period as text.
    """
    if not found:
        yield Line(f"no incident was seen in the last {since}", "ok")
        return
    head = ("first seen", "severity", "place", "class", "job", "headline")
    rows = [
        (
            moment(each.first),
            each.severity,
            plain(_place(each)),
            plain(each.code),
            plain(each.job or "-"),
            plain(each.headline),
        )
        for each in found
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head) - 1)]
    styles = [known_style(each.severity) for each in found]
    for row, style in zip((head, *rows), ("muted", *styles), strict=True):
        cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)]
        yield Line(f"{'  '.join(cells)}  {row[-1]}", style, hang=sum(widths) + 2 * len(widths))
    again = Counter((each.code, _place(each)) for each in found)
    repeated = [(count, code, where) for (code, where), count in again.most_common() if count > 1]
    yield Line("")
    for count, code, where in repeated[:8]:
        yield Line(plain(f"{count} times {code} on {where}"), "warning")
    yield Line(f"{plural(len(found), 'incident')} in the last {since}")


def _place(one: SeenIncident) -> str:
    return (one.node or "-") + (f" GPU {one.gpu}" if one.gpu is not None else "")


def history_json(found: Sequence[SeenIncident], now: float) -> str:
    """Return the history as of `now` (unix seconds) as JSON text; `docs/json.md` documents every key."""
    facts: Facts = {
        "gpuwatch": __version__,
        "time": round(now, 3),
        "incidents": [
            {
                "first_seen": each.first,
                "first_seen_exact": each.timed,
                "last_seen": each.last,
                "node": named(each.node),
                "gpu": each.gpu,
                "uuid": named(each.uuid),
                "class": plain(each.code),
                "severity": plain(each.severity),
                "job": named(each.job),
                "headline": plain(each.headline),
                "source": plain(each.source),
            }
            for each in found
        ],
    }
    return plain_json(json.dumps(facts, indent=2, ensure_ascii=False))
