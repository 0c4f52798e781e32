"""Formats links as text: a line per node if there are many nodes, the slowest links, and their errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from statistics import median

from msgspec import Struct

from gpuwatch.blocks.model import Line, Style
from gpuwatch.hosts.names import fold
from gpuwatch.number_text import counted, rate_text, share_text
from gpuwatch.plain import plain
from gpuwatch.probe.judging.links.links import Grade, MeasuredLink
from gpuwatch.probe.judging.text.grade_symbols import Marks
from gpuwatch.probe.results import Results
from gpuwatch.report.probe.format import STYLES
from gpuwatch.report.probe.tables import TableColumn, table_lines

SLOW: tuple[Grade, ...] = ("dead", "bad", "low")
SHOWN_LINKS = 12
SHOWN_NODES = 16
SHOWN_ERRORS = 8


class NodeLinks(Struct, frozen=True):
    """The links of one node: outgoing and incoming."""

    node: str
    out: list[MeasuredLink]
    back: list[MeasuredLink]

    def count(self, *grades: Grade) -> int:
        """Return the number of the node's links with one of these grades."""
        return sum(link.grade in grades for link in (*self.out, *self.back))

    def troubled(self, nodes: Container[str]) -> bool:
        """Return True if the node is in `nodes`, or has a failed or slow link to a node that is not."""
        own = any(link.grade in SLOW and not touches(link, nodes) for link in (*self.out, *self.back))
        return own or self.node in nodes


def culprit_nodes(results: Results) -> set[str]:
    """Return the nodes of the verdict's culprits; the reason for their slow links is reported separately."""
    nodes = {slot.node for slot in results.slots}
    culprits = results.verdict.culprits if results.verdict is not None else ()
    return {culprit.node for culprit in culprits if culprit.kind != "link"} & nodes


def touches(link: MeasuredLink, nodes: Container[str]) -> bool:
    """Return True if a link starts or ends at one of these nodes."""
    return link.src.node in nodes or link.dst.node in nodes


def node_summary(
    links: Iterable[MeasuredLink],
    nodes: Sequence[str],
    culprits: Container[str],
    marks: Marks,
    width: int | None,
) -> list[Line]:
    """Return a table with a row for each culprit and each other node with a slow link, as lines.

    Links within a node, and slow links that start or end at one of `culprits`, do not count. At most
    `SHOWN_NODES` rows; the last line counts the nodes without slow links.
    """
    out: dict[str, list[MeasuredLink]] = defaultdict(list)
    back: dict[str, list[MeasuredLink]] = defaultdict(list)
    for link in links:
        if link.src.node != link.dst.node:
            out[link.src.node].append(link)
            back[link.dst.node].append(link)
    summaries = [NodeLinks(node, out[node], back[node]) for node in nodes]
    troubled = [each for each in summaries if each.troubled(culprits)]
    troubled.sort(key=lambda each: [-each.count(grade) for grade in ("bad", "dead", "low")])
    columns: tuple[TableColumn[NodeLinks], ...] = (
        TableColumn("node", lambda row: row.node, right=False),
        TableColumn("links", lambda row: str(len(row.out) + len(row.back))),
        TableColumn("FAILED", lambda row: str(row.count("dead"))),
        TableColumn(f"{marks['bad']} bad", lambda row: str(row.count("bad"))),
        TableColumn(f"{marks['low']} low", lambda row: str(row.count("low"))),
        TableColumn("median out", lambda row: rate_text(middle(row.out)), 1),
        TableColumn("median in", lambda row: rate_text(middle(row.back)), 1),
        TableColumn("slowest", lambda row: rate_text(min(rates((*row.out, *row.back)), default=None))),
    )
    lines = [Line(f"links between {counted(len(nodes), 'node')}, GB/s")]
    lines += table_lines(columns, troubled[:SHOWN_NODES], width, node_style)
    more = len(troubled) - SHOWN_NODES
    lines += (
        [Line(f"and {counted(more, 'node')} more with slow links (--json lists them)")] if more > 0 else []
    )
    well = [each for each in summaries if each.out and each not in troubled]
    if well:
        rate = rate_text(middle([link for each in well for link in each.out]))
        but = ", but with these" if troubled else ""
        lines.append(Line(f"{counted(len(well), 'node')} without a slow link{but}; median {rate} GB/s"))
    return lines


def node_style(row: NodeLinks) -> Style:
    """Return the style `critical` for a node with failed or bad links, else `warning`."""
    return "critical" if row.count("dead", "bad") else "warning"


def rates(links: Iterable[MeasuredLink]) -> list[float]:
    """Return the known bandwidths."""
    return [link.rate for link in links if link.rate is not None]


def middle(links: Iterable[MeasuredLink]) -> float | None:
    """Return the median of the known bandwidths; None if none is known."""
    known = rates(links)
    return median(known) if known else None


def slow_lines(links: Iterable[MeasuredLink], results: Results) -> list[Line]:
    """Return lines with the first `SHOWN_LINKS` slow links, slowest first; those of culprits are counted."""
    slow = sorted(
        (link for link in links if link.grade in ("bad", "low")), key=lambda link: link.ratio or 0.0
    )
    if not slow:
        return []
    culprits = culprit_nodes(results)
    reported = [link for link in slow if not touches(link, culprits)]
    lines = [Line(f"  {link_text(link, results)}", STYLES[link.grade]) for link in reported[:SHOWN_LINKS]]
    more = len(reported) - SHOWN_LINKS
    lines += [Line(f"  and {more} more (--json lists them)")] if more > 0 else []
    of_culprits = len(slow) - len(reported)
    lines += [Line(f"  {counted(of_culprits, 'link')} of {fold(culprits)}")] if of_culprits else []
    return [Line("slow links"), *lines]


def link_text(link: MeasuredLink, results: Results) -> str:
    """Return `gpu-003 GPU 4 -> gpu-007 GPU 4  12.1 GB/s, 26% of the 90th percentile (same rail), 31.2 us`."""
    parts = [f"{rate_text(link.rate)} GB/s"]
    if link.ratio is not None:
        parts.append(f"{share_text(link.ratio)} of the 90th percentile ({link.link.replace('_', ' ')})")
    pair = results.pairs.get(link.key)
    if pair is not None and pair.latency_us is not None:
        parts.append(f"{pair.latency_us:.1f} us")
    if link.retested:
        parts.append("retested alone")
    return plain(f"{ends_text(link)}  {', '.join(parts)}")


def ends_text(link: MeasuredLink) -> str:
    """Return the two ends of a link as text: `gpu-003 GPU 4 -> gpu-007 GPU 4`."""
    return f"{link.src.name} -> {link.dst.name}"


def error_lines(links: Iterable[MeasuredLink]) -> list[Line]:
    """Return lines with the first `SHOWN_ERRORS` errors of failed links; equal ones are merged.

    Not of links whose nodes cannot reach each other.
    """
    kinds: dict[str, list[MeasuredLink]] = defaultdict(list)
    for link in links:
        if (
            link.grade == "dead" and min(link.key) >= 0
        ):  # nodes that do not reach each other have their own lines
            kinds[link.error or "no error message"].append(link)
    lines = [
        Line(plain(f"{counted(len(failed), 'link')} FAILED, {which(failed)}: {error}"), "critical")
        for error, failed in list(kinds.items())[:SHOWN_ERRORS]
    ]
    more = len(kinds) - SHOWN_ERRORS
    return [*lines, Line(f"and {more} more kinds of failure (--json lists them)")] if more > 0 else lines


def which(links: Sequence[MeasuredLink]) -> str:
    """Return the ends of the first link, and the number of further links, as text."""
    return ends_text(links[0]) + (f" and {len(links) - 1} more" if len(links) > 1 else "")
