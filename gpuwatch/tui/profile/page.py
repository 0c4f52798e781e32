"""The page of one profile: cost, frames that differ between two ranks, flame graphs, hottest frames."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from rich.segment import Segment
from rich.style import Style

from gpuwatch.diagnose.profiles.call_tree import ThreadTree
from gpuwatch.diagnose.profiles.flame_layout import FlameCell, flame_cells, shared_text
from gpuwatch.diagnose.profiles.hot_frames import differences, hot_frames
from gpuwatch.diagnose.profiles.profiled_rank import ProfiledRank
from gpuwatch.diagnose.profiles.sentences import (
    difference_row,
    doubts,
    hot_row,
    measured_cost,
    rank_name,
    samples_text,
)
from gpuwatch.tui.model.session_protocol import Profiling
from gpuwatch.tui.toolkit.lines.item_page import ItemPage, PageItem, hanging
from gpuwatch.tui.toolkit.lines.rows import Row, heading, wrapped
from gpuwatch.tui.toolkit.styles import clean, fit

MAX_ROWS = 12
MAX_DEPTH = 14
BESIDE_COLUMNS = 110
"""From this width, two flame graphs are shown side by side."""

KERNELS = "GPU kernels of a rank that was started with KINETO_USE_DAEMON=1: gpuwatch profile SOURCE --kernels"


class ProfilePage(ItemPage):
    """The page with the estimated cost of a profile, and with the profiles when the samples have arrived."""

    DEFAULT_CSS = "ProfilePage { height: 1fr; }"

    def __init__(self, profiling: Profiling) -> None:
        super().__init__(id="profile")
        self.profiling = profiling
        self._profiles: list[ProfiledRank] = []
        self._read_at = -1

    def made_for(self) -> Hashable:
        return self.profiling.version, self.profiling.over, self.profiling.progress

    @property
    def profiles(self) -> list[ProfiledRank]:
        """The profiles received so far."""
        if self._read_at != self.profiling.version:
            self._profiles, self._read_at = self.profiling.profiles(), self.profiling.version
        return self._profiles

    def parts(self, width: int) -> Iterator[Row | PageItem]:
        look, profiling = self.look, self.profiling
        named = " against ".join(rank_name(each) for each in self.profiles)
        yield heading(f"Profile of {clean(named)}", width, look, f"{self.cockpit.key_of('app.copy')} copies")
        if not profiling.over:
            if profiling.ready:
                yield from wrapped(profiling.cost, width, look.text, indent=3)
                key = self.cockpit.key_of("move.open")
                start = (Segment(f" {look.glyphs.slope} ", look.title), Segment(f"{key}: start", look.strong))
                yield PageItem("start", (start,))
            else:
                yield from wrapped(profiling.progress, width, look.dim, indent=3)
            return
        yield from self._outcome(width)
        sampled = [each for each in self.profiles if each.main is not None]
        if len(sampled) > 1:
            yield from self._differences(sampled[0], sampled[1], width)
        yield from self._flames(sampled, width)
        if sampled:
            yield from self._hot(sampled[0], width)
        yield from wrapped(KERNELS, width, look.dim, indent=3)

    def _outcome(self, width: int) -> Iterator[Row]:
        look = self.look
        for each in self.profiles:
            yield from wrapped(samples_text(each), width, look.text, indent=3)
            yield from wrapped(measured_cost(each), width, look.dim, indent=5)
            for doubt in doubts(each, self.profiling.options.rate):
                yield from wrapped(doubt, width, look.severity["warning"], indent=5)

    def _differences(self, mine: ProfiledRank, other: ProfiledRank, width: int) -> Iterator[Row | PageItem]:
        if mine.main is None or other.main is None:
            return
        look = self.look
        title = f"Frames that differ: points, % of rank {mine.rank}, % of rank {other.rank}"
        yield heading(title, width, look)
        found = differences(hot_frames(mine.main), hot_frames(other.main))
        if not found:
            yield from wrapped(
                "both ranks spend their time in the same frames (within 3 points)", width, look.dim
            )
        for number, each in enumerate(found[:MAX_ROWS]):
            points, own, there, frame = difference_row(each)
            style = look.severity["warning"] if each.points > 0 else look.text
            yield _item(("difference", number), f" {points:>6} {own:>6} {there:>6}  ", frame, width, style)

    def _hot(self, profile: ProfiledRank, width: int) -> Iterator[Row | PageItem]:
        if profile.main is None:
            return
        look = self.look
        title = f"Main thread of rank {profile.rank}: % in the frame itself, % with what it calls"
        yield heading(title, width, look)
        for number, frame in enumerate(hot_frames(profile.main)[:MAX_ROWS]):
            own, total, text = hot_row(frame)
            yield _item(("hot", number), f" {own:>6} {total:>6}  ", text, width, look.text)
        for thread in profile.threads[1:]:
            hottest = next(iter(hot_frames(thread)), None)
            if hottest is not None:
                words = f"thread {thread.name}: {hottest.own_pct:.0f} % in {hottest.code.short}"
                yield from wrapped(words, width, look.dim, indent=3)

    def _flames(self, profiles: Sequence[ProfiledRank], width: int) -> Iterator[Row]:
        trees = [
            (f"main thread of rank {each.rank}", each.main) for each in profiles if each.main is not None
        ]
        if not trees:
            return
        yield heading("Flame graph", width, self.look)
        beside = len(trees) == 2 and width >= BESIDE_COLUMNS
        columns = (width - 4) // 2 if beside else width - 2
        drawn = [list(self._flame(title, tree, columns)) for title, tree in trees]
        if not beside:
            yield from ((Segment(" "), *row) for part in drawn for row in part)
            return
        gap = (Segment(" " * columns),)
        for number in range(max(map(len, drawn))):
            left, right = (part[number] if number < len(part) else gap for part in drawn)
            yield (Segment(" "), *left, Segment("  "), *right)

    def _flame(self, title: str, tree: ThreadTree, columns: int) -> Iterator[Row]:
        look = self.look
        shared = shared_text(tree)
        yield (Segment(fit(title, columns), look.strong),)
        yield (Segment(fit(clean(shared), columns), look.dim),)
        for row in flame_cells(tree, columns, MAX_DEPTH, fit):
            yield tuple(Segment(clean(cell.text), self._style(cell)) for cell in row)

    def _style(self, cell: FlameCell) -> Style | None:
        if cell.own is None:
            return None
        colour = (("#ffb454", "#ff9a3c") if cell.own else ("#7fb2dd", "#9cc4e6"))[cell.shade]
        return Style(color="#000000", bgcolor=colour)


def _item(key: Hashable, numbers: str, text: str, width: int, style: Style) -> PageItem:
    """Return an item with numbers in columns, followed by a frame."""
    return PageItem(key, hanging((Segment(numbers, style),), text, width, style), text=clean(text))
