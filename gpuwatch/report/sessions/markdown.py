"""A report of sessions as Markdown (GitHub's tables)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuwatch.plain import plain
from gpuwatch.report.sessions.charts import Chart, number_text
from gpuwatch.report.sessions.document import ReportTable, SessionDocument

ACTIVE = re.compile(r"([\\`*_\[\]|#~$])")
"""Characters with a meaning in Markdown or HTML."""
LINKED = re.compile(r"(?<=\w)(?=://)|(?<=\bwww)(?=\.)|(?<=@)(?=\w)|(?<=#)(?=\d)", re.IGNORECASE)
"""Places where GitHub would see an address, a user or an issue; an empty comment prevents that."""
NOTHING = "<!-- -->"


def markdown_of(document: SessionDocument) -> str:
    """Return the whole Markdown text."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: SessionDocument) -> Iterator[str]:
    yield f"# {inert(document.title)}"
    yield ""
    yield inert(document.made)
    for section in document.sections:
        yield ""
        yield f"## {inert(section.title)}"
        for note in section.notes:
            yield ""
            yield f"> {inert(note)}"
        if section.lines:
            yield ""
            yield from (f"- {inert(line)}" for line in section.lines)
        for table in section.tables:
            yield ""
            yield from _table(table)
        if section.charts:
            yield ""
            yield from _table(chart_table(section.charts))


def _table(table: ReportTable) -> Iterator[str]:
    if table.title:
        yield f"### {inert(table.title)}"
        yield ""
    yield f"| {' | '.join(map(inert, table.columns))} |"
    yield f"|{'---|' * len(table.columns)}"
    for row in table.rows:
        yield f"| {' | '.join(map(inert, row))} |"


def chart_table(charts: list[Chart]) -> ReportTable:
    """Return the first, last, lowest and highest values of the charts' lines: Markdown has no charts."""
    rows = []
    for chart in charts:
        for one in chart.series:
            values = [value for _, value in one.points]
            numbers = (values[0], values[-1], min(values), max(values))
            rows.append((chart.title, one.label, *map(number_text, numbers)))
    return ReportTable(("Quantity", "Line", "First", "Last", "Lowest", "Highest"), tuple(rows))


def inert(text: str) -> str:
    """Return the text escaped so that it is displayed literally."""
    shown = LINKED.sub("\0", plain(text)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return ACTIVE.sub(r"\\\1", shown).replace("\0", NOTHING)
