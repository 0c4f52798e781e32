"""What the person has chosen on the log screen: which files, beside each other or merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gpuwatch.tui.logs.data.finding_marks import Marked
from gpuwatch.tui.logs.data.sources import (
    LogSource,
    all_sources,
    choose,
    every_rank,
    folded,
    known_ranks,
    rank_sources,
)
from gpuwatch.tui.logs.data.viewport import View
from gpuwatch.tui.logs.search.bookmarks import Bookmarks, Key
from gpuwatch.tui.logs.search.rank_selection import failed_ranks, first_choice, silent_ranks
from gpuwatch.tui.logs.search.session import LogHunt
from gpuwatch.tui.logs.workspace.open_files import OpenLogs
from gpuwatch.tui.model.view_state import Scene

Mode: TypeAlias = Literal["panes", "merged", "everyone"]
MODES: tuple[Mode, ...] = ("panes", "merged", "everyone")
MOST_PANES = 16
MOST_FILES = 1024
SLOWEST = 4


@dataclass(frozen=True)
class Wanted:
    """What another screen wants to have opened."""

    node: str | None = None
    file: str | None = None
    offset: int | None = None
    at: float | None = None
    """Unix seconds on our clock."""
    ranks: tuple[int, ...] = ()
    merged: bool = False


class LogWorkspace:
    """Survives the screen: the choice and the bookmarks are there when it is opened again."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.text = ""
        """The choice, as it was typed."""
        self.sources: list[LogSource] = []
        self.first = 0
        """The first source that has a pane."""
        self.mode: Mode = "panes"
        self.led = False
        """Another screen led here: what is merged next is all ranks, not the files of the one alert."""
        self.led_to: Key | None = None
        """The line that it led to: highlighted wherever it is shown."""
        self.opened = OpenLogs(scene)
        self.bookmarks = Bookmarks()
        self.hunt = LogHunt(scene, self.opened.offset)
        self.clocks = False
        """A time stands before every line."""
        self.marked = Marked()

    # ---- what is shown

    def choose(self, text: str) -> None:
        """Show other files.

        Raises:
            ChoiceError: The text names nothing; what is shown stays.
        """
        found = choose(text, self.scene.fleet, self.special)
        self.text, self.led = text.strip(), False
        self.show(found)

    def show(self, sources: Iterable[LogSource]) -> None:
        """Show these files, in panes of their own."""
        self.sources, self.first = list(sources)[:MOST_FILES], 0
        if self.mode == "everyone":
            self.mode = "merged"
        self._arrange()

    def open(self, wanted: Wanted) -> None:
        """Show what another screen leads to: a line, a second, some ranks."""
        known = all_sources(self.scene.fleet)
        own = [s for s in known if s.node == wanted.node and wanted.file in (None, s.file)]
        if wanted.node is not None and wanted.file is not None and not own:
            own = [LogSource(wanted.node, wanted.file)]
        for rank in wanted.ranks:
            own += rank_sources(known, rank)
        self.text = folded(wanted.ranks) or " ".join(part for part in (wanted.node, wanted.file) if part)
        self.opened.time, self.mode, self.led = wanted.at, "panes", True
        self.show(dict.fromkeys(own))
        if wanted.offset is not None and own:
            self.opened.lead(own[0], wanted.offset)
            self.led_to = (own[0].node, own[0].file, wanted.offset)
        if wanted.merged:
            self.set_mode("merged")

    def choose_for_them(self) -> None:
        """Show what matters most, as nobody has chosen yet."""
        self.text, found, self.led = first_choice(self.scene)
        if found:
            self.show(found)

    def special(self, word: str) -> Sequence[int]:
        """The ranks that failed, the first one first; or those whose logs have been silent longest."""
        if word == "failed":
            return failed_ranks(self.scene)
        return silent_ranks(self.scene)[:SLOWEST]

    def set_mode(self, mode: Mode) -> None:
        """One pane a file, all of them merged, or every rank of the job merged."""
        self.mode = mode
        self._arrange()

    def panes(self, room: int) -> list[LogSource]:
        """The sources that have a pane, where so many fit."""
        room = max(1, min(room, MOST_PANES))
        self.first = max(0, min(self.first, len(self.sources) - 1))
        return self.sources[self.first : self.first + room]

    @property
    def ink(self) -> tuple[int, int, bool]:
        """Moves when every line must be painted anew."""
        return self.hunt.version, self.bookmarks.version, self.clocks

    def _arrange(self) -> None:
        """Open what the mode needs and close what nobody looks at."""
        if self.mode == "panes":
            self.opened.keep(self.sources)
            return
        wanted = self.sources
        if self.mode == "everyone":
            ranks = every_rank(all_sources(self.scene.fleet))[:MOST_FILES]
            wanted = list(dict.fromkeys([*self.sources, *ranks]))
        self.opened.merge(wanted)

    def pull(self) -> None:
        """Once a frame: take in what came; ask for what is due."""
        self.marked.refresh(self.scene.fleet)
        self.opened.pull()
        self.hunt.pull()

    def everyone(self, view: View) -> list[int]:
        """The ranks whose lines a view holds: who of them is missing is worth a word."""
        return known_ranks(buffer.source for buffer in view.buffers if buffer.lines)

    def seek_bad(self, view: View, step: int, *, warnings: bool) -> None:
        """To the next (1) or previous (-1) error or warning; the other panes go along."""
        if self.hunt.to_bad(view, step, warnings=warnings):
            self._go_along(view)

    def seek_hit(self, view: View, step: int) -> None:
        """To the next or previous line that the search found, in this pane."""
        if self.hunt.to_hit(view, step):
            self._go_along(view)

    def _go_along(self, view: View) -> None:
        if view.time is not None:
            self.opened.move_time(view.time, view)

    def add(self, source: LogSource) -> LogSource:
        """Give one more file a pane, as its node knows it."""
        known = [s for s in all_sources(self.scene.fleet) if (s.node, s.file) == (source.node, source.file)]
        source = known[0] if known else source
        if source not in self.sources:
            self.sources.insert(self.first, source)
        return source

    def turn(self, step: int, shown: int) -> None:
        """To the logs after (1) or before (-1) the ones that are shown."""
        if len(self.sources) > shown:
            last = (len(self.sources) - 1) // shown * shown
            self.first = (self.first + step * shown) % (last + shown) // shown * shown
        else:
            files = all_sources(self.scene.fleet)
            ranked = every_rank(files)
            files = ranked + [source for source in files if source not in ranked]
            if not files:
                return
            at = files.index(self.sources[0]) if self.sources and self.sources[0] in files else 0
            count = max(1, len(self.sources))
            first = (at + step * count) % len(files)
            self.sources = files[first : first + count]
            self.text = " ".join(dict.fromkeys(source.name for source in self.sources[:4]))
        self._arrange()
        if self.mode == "panes":
            self.opened.keep(self.panes(shown))

    def leave(self) -> None:
        """Nobody looks any more: every request on every node ends."""
        self.hunt.end_search()
        self.hunt.end_quest()
        self.opened.close()
