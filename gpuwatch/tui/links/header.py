"""The head of the links screen: which probe, its progress, and its verdict in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from rich.segment import Segment

from gpuwatch.diagnose.model.text import clock
from gpuwatch.number_text import counted, lasting
from gpuwatch.probe.results import Results
from gpuwatch.tui.links.probe_view import LinkPage
from gpuwatch.tui.model.probe_text import (
    DOING,
    SEVERITY,
    backend_text,
    sentence_of,
    standing_of,
    transports_text,
)
from gpuwatch.tui.toolkit.lines.item_page import PageItem, hanging
from gpuwatch.tui.toolkit.lines.rows import Row
from gpuwatch.tui.toolkit.styles import clean

BAR = 32
MAX_LINES = 5


class LinkHead(LinkPage):
    """The lines at the top of the links screen: which probe, its progress and verdict; nothing to select."""

    DEFAULT_CSS: ClassVar[str] = "LinkHead { height: 2; background: $surface; overflow-y: hidden; }"
    can_focus = False

    def parts(self, width: int) -> Iterable[Row | PageItem]:
        if self.view.results is None:
            return [(Segment(" Links: bandwidth and latency between ranks", self.look.strong),)]
        return super().parts(width)

    def parts_of(self, results: Results, width: int) -> Iterator[Row]:
        yield self._which(results, width)
        if not results.over and results.phase != "asking":
            yield self._progress(results, width)
        yield from self._verdict(results, width)

    def _which(self, results: Results, width: int) -> Row:
        look, wall = self.look, self.view_state.wall()
        severity, word = standing_of(results)
        badge = look.badge[severity] if severity != "unknown" else look.strong
        number = (self.view.at or 0) + 1
        lasted = (results.ended or wall) - results.started
        facts = [
            "NEWER than the frozen view" if self.view.newer else "",
            clock(results.started, wall),
            f"took {lasting(lasted)}" if results.ended else f"for {lasting(lasted)}",
            f"{counted(len(self.view.board.nodes), 'node')}, {counted(len(results.slots), 'rank')}"
            if results.slots
            else "",
            backend_text(results),
            f"over {over}" if (over := transports_text(results)) else "",
            f"torch {results.torch}" if results.torch else "",
        ]
        left = [Segment(f" {word} ", badge), Segment(f" probe {number} ", look.strong)]
        room = width - sum(part.cell_length for part in left) - 1
        stated = ""
        for fact in facts:
            if fact and len(stated) + len(fact) + 2 <= room:
                stated += f" {clean(fact)} {look.glyphs.dot}" if fact is not facts[-1] else f" {clean(fact)}"
        return (*left, Segment(stated.rstrip(f"{look.glyphs.dot} "), look.dim))

    def _progress(self, results: Results, width: int) -> Row:
        look, glyphs = self.look, self.look.glyphs
        doing = DOING[results.phase]
        room = max(8, min(BAR, width - len(doing) - 30))
        share = results.done_steps / results.all_steps if results.all_steps else 0.0
        full = int(room * min(1.0, share))
        bar = [
            Segment(glyphs.bar[0] * full, look.severity["ok"]),
            Segment(glyphs.bar[2] * (room - full), look.track),
        ]
        steps = f" {share * 100:3.0f}%" if results.all_steps else ""
        left = f"  {lasting(results.left_s)} left" if results.left_s is not None else ""
        part = f"  step {results.done_steps} of {results.all_steps}" if results.all_steps else ""
        return (
            Segment(" "),
            *bar,
            Segment(steps, look.strong),
            Segment(left, look.text),
            Segment(f"  {doing}", look.text),
            Segment(part if width > room + len(doing) + 45 else "", look.dim),
        )

    def _verdict(self, results: Results, width: int) -> Iterator[Row]:
        look = self.look
        reported = sentence_of(results)
        if not reported:
            return
        severity, _ = standing_of(results)
        if not results.over and results.verdict is not None:
            severity = SEVERITY[results.verdict.status]
        style = look.severity[severity] + look.strong if severity != "unknown" else look.strong
        rows = hanging((Segment(" "), look.mark(severity), Segment(" ")), reported, width, style)
        yield from rows[: MAX_LINES - 1]
