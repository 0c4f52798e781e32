"""What the person has on the log screen: which files, beside each other or merged, at which time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gpuwatch.tui.log_buffer import PAGE, Buffer
from gpuwatch.tui.log_findings import Marked
from gpuwatch.tui.log_hunt import LogHunt
from gpuwatch.tui.log_marks import Bookmarks, Key
from gpuwatch.tui.log_merge import KEPT, Merge
from gpuwatch.tui.log_ranks import failed_ranks, first_choice, silent_ranks
from gpuwatch.tui.log_source import (
    LogSource,
    all_sources,
    choose,
    every_rank,
    folded,
    known_ranks,
    rank_sources,
)
from gpuwatch.tui.log_view import View
from gpuwatch.tui.scene import Scene

Mode: TypeAlias = Literal["panes", "merged", "everyone"]
MODES: tuple[Mode, ...] = ("panes", "merged", "everyone")
MOST_PANES = 16
MOST_FILES = 1024
OPENED_AT_ONCE = 16
"""Files that are asked for in one frame."""
SETTLED_S = 0.25
"""So long the cursor must rest before other files are read at its second."""
SLOWEST = 4
UNSURE_S = 1.0
"""A clock error over this is told."""


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


class LogDesk:
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
        self.views: dict[LogSource, View] = {}
        self.merged: View | None = None
        self.time: float | None = None
        """Where all panes are, on our clock; None: at the end."""
        self.bookmarks = Bookmarks()
        self.hunt = LogHunt(scene, self.offset)
        self.filter_text = ""
        self.clocks = False
        self.wrap = False
        self.folding = True
        self.marked = Marked()
        self._buffers: dict[LogSource, Buffer] = {}
        self._to_open: list[Buffer] = []
        self._moved_at: float | None = None
        self._sent_to: dict[LogSource, float] = {}

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
        self.time, self.mode, self.led = wanted.at, "panes", True
        self.show(dict.fromkeys(own))
        if wanted.offset is not None and own:
            self.view_of(own[0]).go(offset=wanted.offset)
            self.led_to = (own[0].node, own[0].file, wanted.offset)
            if wanted.at is not None:  # the second would take it away from its line
                self._sent_to[own[0]] = wanted.at
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

    def view_of(self, source: LogSource) -> View:
        """The view of one file; opened when it is first looked at."""
        view = self.views.get(source)
        if view is None:
            view = self.views[source] = View(self._buffer(source, PAGE))
            view.sheet.only_rank = source.rank if source.shared else None
            view.wrap, view.sheet.folding = self.wrap, self.folding
            self._filter(view)
            self._begin(view.buffers[0])
            view.following = self.time is None
        return view

    @property
    def ink(self) -> tuple[int, int, bool]:
        """Moves when every line must be painted anew."""
        return self.hunt.version, self.bookmarks.version, self.clocks

    def everyone(self, view: View) -> list[int]:
        """The ranks whose lines a view holds: who of them is missing is worth a word."""
        return known_ranks(buffer.source for buffer in view.buffers if buffer.lines)

    def all_views(self) -> list[View]:
        """Every view that is open."""
        return [*self.views.values(), *([self.merged] if self.merged else [])]

    def _arrange(self) -> None:
        """Open what the mode needs and close what nobody looks at."""
        self.merged = None
        if self.mode == "panes":
            wanted = list(self.sources)
        else:
            everyone = every_rank(all_sources(self.scene.fleet))[:MOST_FILES]
            wanted = (
                self.sources if self.mode == "merged" else list(dict.fromkeys([*self.sources, *everyone]))
            )
            page = max(40, min(PAGE, KEPT // 2 // max(1, len(wanted))))
            known = set(self._buffers)
            buffers = [self._buffer(source, page) for source in wanted]
            self._to_open = [buffer for buffer in buffers if buffer.source not in known]
            self.merged = View(Merge(buffers))
            self.merged.wrap, self.merged.sheet.folding = self.wrap, self.folding
            self._filter(self.merged)
            self.merged.following = self.time is None
            if self.time is not None:
                self.merged.to_time(self.time)
        for source in [source for source in self._buffers if source not in wanted]:
            self._buffers.pop(source).close()
            self.views.pop(source, None)
        if self.time is not None:
            self._moved_at = self.scene.now - SETTLED_S
            self._sent_to.clear()

    def _buffer(self, source: LogSource, page: int) -> Buffer:
        buffer = self._buffers.get(source)
        if buffer is None:
            buffer = self._buffers[source] = Buffer(source, self.scene.session, page=page)
            buffer.offset_s = self.offset(source.node)
        return buffer

    def _begin(self, buffer: Buffer) -> None:
        if self.time is None:
            buffer.follow()
        else:
            buffer.go(at=self.time)

    # ---- clocks

    def offset(self, node: str) -> float:
        """A node's clock minus ours."""
        known = self.scene.fleet.nodes.get(node)
        return known.clock.offset_s if known and known.clock else 0.0

    def unsure_clocks(self, view: View) -> list[str]:
        """The nodes in a view whose clock is not known to a second."""
        names = dict.fromkeys(buffer.source.node for buffer in view.buffers)
        nodes = [self.scene.fleet.nodes[name] for name in names if name in self.scene.fleet.nodes]
        return [node.name for node in nodes if node.clock is None or node.clock.error_s > UNSURE_S]

    # ---- once a frame

    def pull(self) -> None:
        """Take in what came; ask for what is due."""
        frozen = self.scene.frozen
        self.marked.refresh(self.scene.fleet)
        for buffer in self._to_open[:OPENED_AT_ONCE]:
            self._begin(buffer)
        del self._to_open[:OPENED_AT_ONCE]
        for source, buffer in self._buffers.items():
            buffer.offset_s = self.offset(source.node)
            buffer.pull(frozen=frozen)
        if self._moved_at is not None and (frozen or self.scene.now - self._moved_at >= SETTLED_S):
            self._moved_at = None
            self._send_all()
        self.hunt.pull()

    def move_time(self, at: float | None, own: View | None) -> None:
        """The cursor of one pane is at another second: the others go there, too."""
        self.time = at
        for view in self.all_views():
            if view is own:
                continue
            if at is None:
                self._follow(view)
            elif not self._go_if_loaded(view, at):
                view.following = False
        self._moved_at = None if at is None else self.scene.now
        if at is None:
            self._sent_to.clear()

    def _go_if_loaded(self, view: View, at: float) -> bool:
        if all(buffer.covers(at) for buffer in view.buffers if not buffer.error):
            view.to_time(at)
            return True
        return False

    def _send_all(self) -> None:
        if self.time is None:
            return
        for view in self.views.values():
            source = view.buffers[0].source
            if not view.buffers[0].covers(self.time) and self._sent_to.get(source) != self.time:
                self._sent_to[source] = self.time
                view.go(at=self.time, mark=False, lead=False)

    def _follow(self, view: View) -> None:
        view.follow()
        for buffer in view.buffers:
            buffer.follow()

    def go_to_time(self, at: float) -> None:
        """All panes to a time of our clock."""
        self.time = at
        self._sent_to.clear()
        for view in self.all_views():
            view.go(at=at, mark=False, lead=False)

    # ---- filter, folding, wrapping

    def set_filter(self, text: str) -> None:
        """Keep only lines in which a pattern is found, or with `!` in front those in which it is not.

        Raises:
            re.error: Not a regular expression.
        """
        if text.strip() not in ("", "!"):
            re.compile(text.removeprefix("!"))
        self.filter_text = "" if text.strip() in ("", "!") else text
        for view in self.all_views():
            self._filter(view)
            view.forget()

    def _filter(self, view: View) -> None:
        text, sheet = self.filter_text, view.sheet
        body = text.removeprefix("!")
        pattern = re.compile(body, re.IGNORECASE if body == body.lower() else 0) if body else None
        sheet.keep = None if text.startswith("!") else pattern
        sheet.without = pattern if text.startswith("!") else None

    def set_folding(self, *, on: bool) -> None:
        """Fold tracebacks and repeated lines, or show every line."""
        self.folding = on
        for view in self.all_views():
            view.sheet.folding = on
            view.forget()

    def set_wrap(self, *, on: bool) -> None:
        """Long lines over several screen lines, or cut."""
        self.wrap = on
        for view in self.all_views():
            view.wrap, view.left = on, 0

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
            self.move_time(view.time, view)

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
        self._close_unseen(shown)

    def _close_unseen(self, shown: int) -> None:
        if self.mode == "panes":
            seen = self.panes(shown)
            for source in [source for source in self._buffers if source not in seen]:
                self._buffers.pop(source).close()
                self.views.pop(source, None)

    def leave(self) -> None:
        """Nobody looks any more: every request on every node ends."""
        self.hunt.end_search()
        self.hunt.end_quest()
        for buffer in self._buffers.values():
            buffer.close()
        self._buffers.clear()
        self.views.clear()
        self._to_open.clear()
        self.merged = None
