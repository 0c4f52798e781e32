"""Blocks as one HTML file: no scripts, no external resources, light and dark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from gpuwatch.blocks.lines import text_lines
from gpuwatch.blocks.model import PAIRS, Block, Heading, Item, Line, Table
from gpuwatch.blocks.plot import Plot
from gpuwatch.blocks.svg import legend_of, svg_of

LIGHT = "#0072b2 #d55e00 #009e73 #cc79a7 #b58900 #56b4e9 #7a4fbf #555555"
DARK = "#66b2ff #ff9b52 #3fd0a4 #f0a3cf #fff699 #9ad5ff #bfa3ff #bbbbbb"
"""Colours of lines on a dark page, colour-blind safe (Okabe and Ito, lighter)."""
SECTION = 2
"""Level of the headings that begin a section of the page."""
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
.muted { color: var(--dim); margin: 4px 0 0 }
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


def html(blocks: Sequence[Block]) -> str:
    """Return the blocks as a whole HTML file; the first heading is its title."""
    return "\n".join(_page(blocks)) + "\n"


def _style() -> str:
    def lines(colours: str) -> str:
        return "".join(f"--line-{number}: {colour}; " for number, colour in enumerate(colours.split()))

    return STYLE.replace("LIGHT", lines(LIGHT)).replace("DARK", lines(DARK))


def _page(blocks: Sequence[Block]) -> Iterator[str]:
    title = next((escape(block.text) for block in blocks if isinstance(block, Heading)), "")
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    yield '<meta name="referrer" content="no-referrer">'
    yield f"<title>{title}</title><style>{_style()}</style></head><body>"
    is_open = False
    for kind, group in groupby(blocks, type):
        if kind is Plot:
            yield '<div class="charts">'
            yield from map(_block, group)
            yield "</div>"
            continue
        for block in group:
            if isinstance(block, Heading) and block.level == SECTION:
                yield "</section>" * is_open + f"<section><h2>{escape(block.text)}</h2>"
                is_open = True
            else:
                yield _block(block)
    yield "</section>" * is_open + "</body></html>"


def _block(block: Block) -> str:
    match block:
        case Heading():
            anchor = f' id="{escape(block.anchor)}"' if block.anchor else ""
            return f"<h{block.level}{anchor}>{escape(block.text)}</h{block.level}>"
        case Line():
            return f'<p class="{block.style}">{escape(block.text)}</p>'
        case Item():
            text = escape(block.text)
            text = f'<a href="#{escape(block.target)}">{text}</a>' if block.target else text
            return f'<p class="{"note" if block.sign == "warning" else "figures"}">{text}</p>'
        case Table():
            return "\n".join(_table(block))
        case Plot():
            return f"<div><h3>{escape(block.title)}</h3>{svg_of(block)}{legend_of(block)}</div>"
        case _:
            return "".join(f"<p>{escape(line.text)}</p>" for line in text_lines([block]))


def _table(table: Table) -> Iterator[str]:
    title = escape(table.title)
    if table.folded:
        yield f"<details><summary>{title} ({len(table.rows)})</summary>"
    elif title:
        yield f"<h3>{title}</h3>"
    is_pairs = table.columns == PAIRS
    yield f'<div class="scroll"><table{" class=pairs" if is_pairs else ""}>'
    if not is_pairs:
        yield f"<thead><tr>{''.join(f'<th>{escape(name)}</th>' for name in table.columns)}</tr></thead>"
    for row in table.rows:
        yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
    yield "</table></div>"
    if table.folded:
        yield "</details>"
