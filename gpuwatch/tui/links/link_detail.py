"""The panel of the link under the matrix's cursor: both directions, every rail, facts of both nodes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style

from gpuwatch.number_text import counted, rate_text, share_text
from gpuwatch.probe.results import Results
from gpuwatch.tui.links.matrix import LinkMatrix
from gpuwatch.tui.links.matrix_cells import sign
from gpuwatch.tui.links.matrix_model import CODES, NOT_MEASURED, UNREACHED, Peers
from gpuwatch.tui.links.probe_view import LinkView
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.lines.item_page import hanging
from gpuwatch.tui.toolkit.lines.rows import Row, heading, wrapped
from gpuwatch.tui.toolkit.lines.selectable_lines import RebuiltPage
from gpuwatch.tui.toolkit.styles import fit

CLASS = {"same_node": "inside the node", "same_rail": "same rail", "cross_rail": "across rails"}
LABEL, RAIL = 10, 5
BARE_COLUMNS = 60
"""Below this width, numbers have no labels."""


class LinkCell(RebuiltPage, can_focus=False):
    """The panel with both directions of the link under the cursor of a matrix, and facts of its nodes."""

    DEFAULT_CSS: ClassVar[str] = "LinkCell { height: 6; background: $surface; overflow-y: hidden; }"

    def __init__(self, matrix: LinkMatrix) -> None:
        super().__init__(id="link-cell")
        self.matrix = matrix
        self._built_for: Hashable = None

    @property
    def view(self) -> LinkView:
        """The view that the matrix shows."""
        return self.matrix.view

    def prepare(self) -> None:
        built_for = (self.view.version, self.view.view, self.matrix.place, self.columns, id(self.look))
        if built_for != self._built_for:
            self._built_for = built_for
            super().prepare()

    def build(self, width: int) -> list[Row]:
        results = self.view.results
        if results is None or not self.matrix.shape.size or not self.matrix.is_current:
            return []
        return list(self._lines(results, width))

    def links(self, *, back: bool = False) -> list[Peers]:
        """Return the links measured from source to destination at the cursor; with `back`, in reverse.

        Empty if none was measured, or if the matrix's layout is outdated.
        """
        if not self.matrix.is_current:
            return []
        a, b = self.matrix.place
        return self.view.board.between(self.view.view, *((b, a) if back else (a, b)))

    def _lines(self, results: Results, width: int) -> Iterator[Row]:
        a, b = self.matrix.place
        names = self.matrix.labels
        inside = a == b
        title = f"inside {names[a]}" if inside else f"{names[a]} {self.look.glyphs.slope} {names[b]}"
        there, back = self.links(), [] if inside else self.links(back=True)
        note = CLASS[there[0].pair.link] if len(there) == 1 and width >= BARE_COLUMNS else ""
        yield heading(title, width, self.look, note)
        if not there and not back:
            yield from self._nothing(width)
            return
        yield self._direction("" if inside else "forward", there, width)
        if not inside:
            yield self._direction("reverse", back, width)
        if not inside:
            yield from self._rails(there, back, width)
        elif len(there) > 1:
            yield self._summary("pairs", there)
        yield from self._errors(there + back, width)
        yield from self._ends(results, width)

    def _nothing(self, width: int) -> Iterator[Row]:
        a, b = self.matrix.place
        place = int(self.view.board.cells(self.view.view)[a, b])
        if place == UNREACHED:
            why = self.view.board.unreached[a, b]
            yield from wrapped(f"{why.src} cannot connect to {why.dst}: {why.error}", width, self.look.text)
        elif place == NOT_MEASURED:
            same = self.view.view == "ranks" and a == b
            words = "no link: same rank" if same else "not measured"
            yield (Segment(f" {words}", self.look.dim),)

    def _direction(self, name: str, links: list[Peers], width: int) -> Row:
        """Return the line of one direction: its worst link, with everything known about that."""
        look = self.look
        left = [Segment(fit(f" {name}", LABEL), look.text)]
        if not links:
            return (*left, Segment("not measured", look.dim))
        worst = max(links, key=lambda each: CODES[each.grade] * 10 - (each.ratio or 0.0))
        pair = worst.pair
        if worst.grade == "dead":
            return (*left, Segment(f"{sign('dead', look)} no data gets through", look.severity["critical"]))
        severity: Severity = {"bad": "critical", "low": "warning", "noisy": "warning"}.get(worst.grade, "ok")  # type: ignore[assignment]  # the grades are those of a link
        mark = f" {sign(worst.grade, look)} {worst.grade}" if worst.grade != "ok" else " ok"
        of = f" of {rate_text(worst.reference)}" if worst.reference and width >= BARE_COLUMNS else ""
        row = [
            *left,
            Segment(f"{rate_text(pair.bandwidth_gb_per_s):>5} GB/s", look.strong),
            Segment(f" {share_text(worst.ratio):>4}{of}", look.text),
            Segment(f"{mark:<8}", look.severity[severity]),
        ]
        facts = [
            f"worst of {len(links)} links" if len(links) > 1 else "",
            f"{pair.latency_us:.1f} us" if pair.latency_us is not None else "",
            f"spread {share_text(pair.spread)}" if pair.spread is not None else "",
            "retested alone" if pair.retested else "",
        ]
        used = sum(part.cell_length for part in row)
        for fact in facts:
            if fact and used + len(fact) + 2 < width:
                row.append(Segment(f"  {fact}", look.dim))
                used += len(fact) + 2
        return tuple(row)

    def _rails(self, there: list[Peers], back: list[Peers], width: int) -> Iterator[Row]:
        """Yield lines with each rail's percentage per direction, which tell a bad NIC from a bad node.

        Nothing for a single rail. The links across rails are summed up in one line.
        """
        look = self.look
        local = {slot.rank: slot.local for slot in self.view.board.slots}
        rails = [[each for each in links if each.pair.link == "same_rail"] for links in (there, back)]
        if len(rails[0]) > 1:
            room = max(1, (width - LABEL) // RAIL)
            names = "".join(f"{local[each.pair.src]:>{RAIL}}" for each in rails[0][:room])
            yield (Segment(fit(" rail", LABEL), look.dim), Segment(names, look.dim))
            for name, links in zip((" forward %", " reverse %"), rails, strict=True):
                row = [Segment(fit(name, LABEL), look.dim)]
                for each in links[:room]:
                    row += self._share(each, RAIL)
                yield tuple(row)
        across = [each for each in (*there, *back) if each.pair.link == "cross_rail"]
        if len(there) > 1 and across:
            yield self._summary("across", across)

    def _share(self, each: Peers, width: int) -> list[Segment]:
        look = self.look
        text = sign("dead", look) if each.ratio is None else f"{each.ratio * 100:.0f}"
        return [Segment(" " * max(0, width - len(text))), Segment(text, self._style(each))]

    def _style(self, each: Peers) -> Style:
        look = self.look
        if each.grade == "ok":
            return look.text
        return look.severity["warning"] if each.grade in ("low", "noisy") else look.badge["critical"]

    def _summary(self, name: str, links: list[Peers]) -> Row:
        """Return one line for many links: how many are bad, the worst and the best."""
        look = self.look
        ratios = sorted(each.ratio for each in links if each.ratio is not None)
        bad = sum(each.grade in ("bad", "dead") for each in links)
        stated = f"{share_text(ratios[0])} to {share_text(ratios[-1])}" if ratios else "no data gets through"
        row = [
            Segment(fit(f" {name}", LABEL), look.dim),
            Segment(f"{counted(len(links), 'link')}, {stated}", look.text),
        ]
        if bad:
            row.append(Segment(f"  {sign('bad', look)} {bad} bad", look.severity["critical"]))
        return tuple(row)

    def _errors(self, links: list[Peers], width: int) -> Iterator[Row]:
        errors = list(dict.fromkeys(each.pair.error for each in links if each.pair.error))
        for error in errors[:2]:
            yield from wrapped(error, width, self.look.severity["critical"])

    def _ends(self, results: Results, width: int) -> Iterator[Row]:
        """Yield rows with the changed counters, the transports and the NICs of the link's nodes."""
        look, board = self.look, self.view.board
        numbers = dict.fromkeys(self.matrix.place)
        nodes = [board.nodes[n] if self.view.view == "nodes" else board.slots[n].node for n in numbers]
        for node in dict.fromkeys(nodes):
            ranks = {slot.rank for slot in board.slots if slot.node == node}
            over = sorted(name for name, own in results.transports.items() if ranks & set(own))
            nics = dict.fromkeys(slot.nic for slot in board.slots if slot.node == node and slot.nic)
            moved = [
                f"{each.name.replace(':', ' ')} +{each.after - each.before:,.0f}"
                for each in results.counters
                if each.node == node and each.after > each.before and not each.name.startswith("=")
            ]
            facts = [*moved, *over, _folded(list(nics))]  # what is cut off reports least
            stated = "  ".join(fact for fact in facts if fact)
            if stated:
                style = look.severity["warning"] if moved else look.dim
                yield from hanging((Segment(fit(f" {node}", 12) + " ", look.text),), stated, width, style)


def _folded(names: list[str]) -> str:
    """Return names joined by commas; three or more as `mlx5_0 to mlx5_7`."""
    return ", ".join(names) if len(names) < 3 else f"{names[0]} to {names[-1]}"
