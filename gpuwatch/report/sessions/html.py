"""A report of sessions as one HTML file: no scripts, no external resources, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from gpuwatch.report.sessions.document import ReportSection, ReportTable, SessionDocument
from gpuwatch.report.sessions.svg import legend_of, svg_of

LIGHT = "#0072b2 #d55e00 #009e73 #cc79a7 #b58900 #56b4e9 #7a4fbf #555555"
DARK = "#66b2ff #ff9b52 #3fd0a4 #f0a3cf #fff699 #9ad5ff #bfa3ff #bbbbbb"
"""Colour-blind safe (Okabe and Ito), lighter for a dark page."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """\
:root { color-scheme: light dark; --page: #ffffff; --text: #1c1e21; --dim: #5c6166; --rule: #d9dce0;
  --head: #f3f4f6; --shade: #0004; --note: #fff4d6; --note-rule: #b58900; LIGHT }
@media (prefers-color-scheme: dark) { :root { --page: #14171a; --text: #e6e8ea; --dim: #9aa1a8; --rule: #343a40;
  --head: #1f2429; --shade: #fff5; --note: #2d2815; --note-rule: #fff699; DARK } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 24px 16px 64px; max-width: 1080px; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5em; margin: 0; overflow-wrap: anywhere }
h2 { font-size: 1.2em; margin: 40px 0 8px; padding-top: 12px; border-top: 1px solid var(--rule); overflow-wrap: anywhere }
h3 { font-size: 1em; margin: 20px 0 6px }
.made { color: var(--dim); margin: 4px 0 0 }
.figures { font-size: 1.1em; font-weight: 600; margin: 8px 0 }
.note { background: var(--note); border-left: 4px solid var(--note-rule); margin: 8px 0; padding: 6px 12px;
  overflow-wrap: anywhere }
.scroll { overflow-x: auto; max-width: 100%; background:
  linear-gradient(90deg, var(--page) 40%, transparent) local 0 0 / 32px 100% no-repeat,
  linear-gradient(270deg, var(--page) 40%, transparent) local 100% 0 / 32px 100% no-repeat,
  linear-gradient(90deg, var(--shade), transparent) scroll 0 0 / 14px 100% no-repeat,
  linear-gradient(270deg, var(--shade), transparent) scroll 100% 0 / 14px 100% no-repeat }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: 4px 14px 4px 8px; border-bottom: 1px solid var(--rule); vertical-align: top }
th { background: var(--head); font-weight: 600; white-space: nowrap }
td { max-width: 60ch; overflow-wrap: break-word }
td:first-child { white-space: nowrap }
.pairs td:first-child { color: var(--dim) }
summary { cursor: pointer; margin: 20px 0 6px; font-weight: 600 }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(460px, 100%), 1fr)); gap: 8px 24px }
.charts h3 { margin: 12px 0 4px }
.chart { width: 100%; height: auto; display: block }
.chart text { fill: var(--dim); font: 12px system-ui, sans-serif }
.chart .grid { stroke: var(--rule); stroke-width: 1 }
.chart polyline { fill: none; stroke-width: 2; stroke-linejoin: round }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 4px 0 0; padding: 0; font-size: .85em }
.legend li { overflow-wrap: anywhere }
.legend b { font-weight: 600 }
.key { display: inline-block; width: 18px; border-top: 3px solid; margin-right: 6px; vertical-align: middle }
.key.dashed { border-top-style: dashed }
@media (max-width: 560px) { body { padding: 16px 10px 48px; font-size: 14px } .chart text { font-size: 16px }
  th, td { padding: 4px 10px 4px 4px } th { background: none; border-bottom-width: 2px }
  .pairs td:last-child { overflow-wrap: anywhere } }
@media print { details > * { display: block } .chart { break-inside: avoid } }
"""  # noqa: E501 - CSS


def html_of(document: SessionDocument) -> str:
    """Return the whole HTML file."""
    return "\n".join(_lines(document)) + "\n"


def _style() -> str:
    def lines(colours: str) -> str:
        return "".join(f"--line-{number}: {colour}; " for number, colour in enumerate(colours.split()))

    return STYLE.replace("LIGHT", lines(LIGHT)).replace("DARK", lines(DARK))


def _lines(document: SessionDocument) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    yield '<meta name="referrer" content="no-referrer">'
    yield f"<title>{escape(document.title)}</title><style>{_style()}</style></head><body>"
    yield f'<h1>{escape(document.title)}</h1><p class="made">{escape(document.made)}</p>'
    for section in document.sections:
        yield from _section(section)
    yield "</body></html>"


def _section(section: ReportSection) -> Iterator[str]:
    yield f"<section><h2>{escape(section.title)}</h2>"
    for note in section.notes:
        yield f'<p class="note">{escape(note)}</p>'
    for line in section.lines:
        yield f'<p class="figures">{escape(line)}</p>'
    for table in section.tables:
        yield from _table(table)
    if section.charts:
        yield '<div class="charts">'
        for chart in section.charts:
            yield f"<div><h3>{escape(chart.title)}</h3>{svg_of(chart)}{legend_of(chart)}</div>"
        yield "</div>"
    yield "</section>"


def _table(table: ReportTable) -> Iterator[str]:
    title = escape(table.title)
    if table.folded:
        yield f"<details><summary>{title} ({len(table.rows)})</summary>"
    elif title:
        yield f"<h3>{title}</h3>"
    is_pairs = table.columns == ("Name", "Value")
    yield f'<div class="scroll"><table{" class=pairs" if is_pairs else ""}>'
    if not is_pairs:
        yield f"<thead><tr>{''.join(f'<th>{escape(name)}</th>' for name in table.columns)}</tr></thead>"
    for row in table.rows:
        yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
    yield "</table></div>"
    if table.folded:
        yield "</details>"
