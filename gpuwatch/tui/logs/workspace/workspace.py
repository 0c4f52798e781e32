"""The user's selection on the logs screen: which files, in separate panes or merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.number_text import folded
from gpuwatch.tui.logs.data.finding_marks import Marked
from gpuwatch.tui.logs.data.merge import Merge
from gpuwatch.tui.logs.data.sources import (
    ChoiceError,
    LogSource,
    all_sources,
    choose,
    every_rank,
    file_of,
    known_ranks,
    of_job,
    rank_sources,
    with_content,
)
from gpuwatch.tui.logs.data.viewport import View
from gpuwatch.tui.logs.search.bookmark_file import BookmarkFile
from gpuwatch.tui.logs.search.bookmarks import Bookmarks, Key
from gpuwatch.tui.logs.search.incident_logs import (
    Course,
    course_of,
    incident_logs,
    incident_named,
    name_of,
)
from gpuwatch.tui.logs.search.rank_selection import failed_ranks, first_choice, silent_ranks
from gpuwatch.tui.logs.search.session import SearchState
from gpuwatch.tui.logs.workspace.open_files import OpenLogs
from gpuwatch.tui.model.alert_snapshot import AlertSnapshot
from gpuwatch.tui.model.view_state import ViewState
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.cockpit import OpenRequest
from gpuwatch.tui.toolkit.time_input import since

Mode: TypeAlias = Literal["panes", "merged", "everyone"]
MODES: tuple[Mode, ...] = ("panes", "merged", "everyone")
MAX_PANES = 16
MAX_FILES = 1024
SLOWEST_RANKS = 4
CAUSE_NEAR_S = 1.0
"""Seconds from an incident's cause up to which a merged view begins on the line of the cause."""


class LogWorkspace:
    """The selected logs, their open views, the search and the bookmarks.

    Leaving the screen closes the views and the search; the selection and the bookmarks stay.
    """

    def __init__(
        self,
        view_state: ViewState,
        bookmarks: BookmarkFile | None = None,
        key_of: Callable[[str], str] = keys.key_of,
    ) -> None:
        """Create a workspace without logs.

        Args:
            view_state: The state of the screens, with the fleet whose logs are shown.
            bookmarks: Where the bookmarks are saved; None: nowhere.
            key_of: Returns the current key of a binding from its id.
        """
        self.view_state = view_state
        self.text = ""
        """The selection, as it was typed."""
        self.sources: list[LogSource] = []
        self.first = 0
        """Index of the first source with a pane."""
        self.mode: Mode = "panes"
        self.led = False
        """True if another screen opened it: "merged" then means all ranks, not the files of the one alert."""
        self.led_to: Key | None = None
        """The line that it jumped to, highlighted wherever it is shown."""
        self.marked = Marked()
        self.opened = OpenLogs(view_state, self.marked)
        self.bookmarks = Bookmarks(bookmarks, self._is_here)
        self.searching = SearchState(view_state, self.opened.offset, key_of)
        self.key_of = key_of
        self.clocks = False
        """True to show a time before every line."""
        self.course: Course | None = None
        """The times of the incident whose logs are shown, to which the merged view refers."""
        self._alerts_seen: AlertSnapshot | None = None
        self._chosen_for: str | None = None
        """The most important incident when the logs were selected."""

    def _is_here(self, source: LogSource) -> bool:
        """Return True if a file may belong to this session: of its nodes, or to the opened folder."""
        fleet = self.view_state.session.fleet
        if self.view_state.folder is None:
            return source.node in fleet.nodes
        return file_of(fleet, source) is not None

    # ---- what is shown

    def choose(self, text: str) -> None:
        """Show the files that a typed text selects.

        Raises:
            ChoiceError: The text selects nothing; what is shown stays.
        """
        found = choose(text, self.view_state.fleet, self.special)
        leading = self.view_state.snapshot.leading
        names = [name_of(leading) if word == "failed" and leading else word for word in text.split()]
        self.text, self.led = " ".join(names), False
        self.show(found)

    def show(self, sources: Iterable[LogSource], lead: tuple[LogSource, int] | None = None) -> None:
        """Show these files, in panes or merged, at most `MAX_FILES`.

        `lead` is one of them and the byte offset of a line to jump to.
        """
        self.sources, self.first = list(sources)[:MAX_FILES], 0
        self._chosen_for, self._alerts_seen = self._leading_id, None
        if self.mode == "everyone":
            self.mode = "merged"
        self._arrange(lead)

    def open(self, wanted: OpenRequest) -> None:
        """Open what another screen requests: a line, a time, ranks, and the logs of its incident.

        A filter or level of an earlier visit would hide lines of it and is taken away.
        """
        self.opened.show_all()
        known = all_sources(self.view_state.fleet)
        own = [s for s in known if s.node == wanted.node and wanted.file in (None, s.file)]
        if wanted.node is not None and wanted.file is not None and not own:
            own = [LogSource(wanted.node, wanted.file)]
        incident = self.view_state.snapshot.incident(wanted.incident or "")
        job = incident.job if incident else self.view_state.scope.job
        for rank in wanted.ranks:
            own += with_content(rank_sources(of_job(known, job), rank))
        about = incident_logs(incident, known) if incident else []
        self.text = folded(wanted.ranks) or " ".join(part for part in (wanted.node, wanted.file) if part)
        if incident is not None:
            self.text = f"{'' if set(own) <= set(about) else self.text} {name_of(incident)}".strip()
        self.opened.time, self.led = wanted.at, True
        self.mode = "merged" if wanted.merged else "panes"
        lead = (own[0], wanted.offset) if wanted.offset is not None and own else None
        self.led_to = None if lead is None else (lead[0].node, lead[0].file, lead[1])
        self.show(dict.fromkeys([*own, *about]), lead)

    def has_rank(self, rank: int, job: str | None) -> bool:
        """Return True if a log has lines of this rank of the job; `job` None: of any job."""
        return bool(rank_sources(of_job(all_sources(self.view_state.fleet), job), rank))

    def choose_for_them(self) -> None:
        """Show the logs of the default selection (`first_choice`), if there are any."""
        self.text, found, self.led = first_choice(self.view_state)
        if found:
            self.show(found)

    def reopen(self, about: Incident | None = None) -> None:
        """Show the last selection again, or the logs of an incident that it neither names nor was made for.

        An incident without a known log, such as one about a GPU's values, leaves the selection.

        Args:
            about: The incident on the previous screen; None: the leading one.
        """
        incident = about or self.view_state.snapshot.leading
        if incident is not None and incident.id not in (self._chosen_for, self._about_id):
            if self.special(name_of(incident)):
                self._choose_for(incident)
                return
            self.searching.note = f"no log of {name_of(incident)} is known"
        try:
            self.choose(self.text)
        except ChoiceError:
            self.text = ""

    def _choose_for(self, incident: Incident) -> None:
        self.opened.time, self.mode = None, "panes"
        self.choose(name_of(incident))
        self._chosen_for = incident.id

    @property
    def _leading_id(self) -> str | None:
        leading = self.view_state.snapshot.leading
        return leading.id if leading else None

    @property
    def _about(self) -> Incident | None:
        """The incident that the selection names; None if it names none."""
        reported = self.view_state.snapshot
        return next((found for word in self.text.split() if (found := incident_named(word, reported))), None)

    @property
    def _about_id(self) -> str | None:
        about = self._about
        return about.id if about else None

    def special(self, word: str) -> Sequence[LogSource]:
        """Return the logs that `incident-1`, `failed` or `slowest` selects; empty if there are none.

        `failed`: those of the leading incident, else of the ranks with errors. `slowest`: those of the ranks
        silent for longest.
        """
        known, reported = all_sources(self.view_state.fleet), self.view_state.snapshot
        incident = reported.leading if word == "failed" else incident_named(word, reported)
        if incident is not None:
            return incident_logs(incident, known)
        ranks = failed_ranks(self.view_state) if word == "failed" else []
        if word == "slowest":
            ranks = silent_ranks(self.view_state)[:SLOWEST_RANKS]
        return [source for rank in ranks for source in rank_sources(known, rank)]

    def set_mode(self, mode: Mode, lead: tuple[LogSource, int] | None = None) -> None:
        """Show one pane per file, the files merged, or all ranks of all jobs merged.

        `lead` is a file and the byte offset of a line to put the cursor on, if the file is shown.
        """
        self.mode = mode
        self._arrange(lead)

    def panes(self, room: int) -> list[LogSource]:
        """Return the sources that have a pane now, if `room` panes fit."""
        room = max(1, min(room, MAX_PANES))
        self.first = max(0, min(self.first, len(self.sources) - 1))
        return self.sources[self.first : self.first + room]

    @property
    def ink(self) -> tuple[int, int, bool]:
        """A value that changes with the search, the bookmarks or the clocks; every line is then repainted."""
        return self.searching.version, self.bookmarks.version, self.clocks

    def _arrange(self, lead: tuple[LogSource, int] | None = None) -> None:
        """Open the files that the mode needs, close the others, and jump to the line `lead`."""
        if self.mode == "panes":
            self.opened.keep(self.sources)
            if lead is not None and lead[0] in self.sources:
                self.opened.lead(*lead)
            return
        wanted = self.sources
        if self.mode == "everyone":
            job = self._about.job if self._about else self.view_state.scope.job
            ranks = with_content(every_rank(of_job(all_sources(self.view_state.fleet), job)))[:MAX_FILES]
            wanted = list(dict.fromkeys([*self.sources, *ranks]))
        lead = lead or self._cause_among(wanted)
        self.opened.merge(wanted, lead if lead is None or lead[0] in wanted else None)

    def _cause_among(self, wanted: Sequence[LogSource]) -> tuple[LogSource, int] | None:
        """Return the file and offset of the incident's cause, to be read first; None if not at its time."""
        about, at = self._about, self.opened.time
        cause = course.cause if about is not None and (course := course_of(about)) else None
        if cause is None or at is None or abs(at - cause.at) > CAUSE_NEAR_S:
            return None
        own = (source for source in wanted if (source.node, source.file) == (cause.node, cause.file))
        return next(((source, cause.offset) for source in own), None)

    def pull(self) -> None:
        """Process what was received, request what is due, and update the marks; called once per frame."""
        self.marked.refresh(self.view_state.fleet)
        self.opened.pull()
        self.searching.pull()
        if self._alerts_seen is not (reported := self.view_state.snapshot):
            self._alerts_seen, about = reported, self._about
            self.course = course_of(about) if about else None
        if self.opened.merged is not None:
            self.opened.merged.rule = self._rule(self.opened.merged)

    def _rule(self, view: View) -> tuple[int, str] | None:
        """Return (line, text) of the rule above the first affected rank's line: the time since the cause.

        None without an incident, or while the line is not loaded.
        """
        echo = self.course.echo if self.course else None
        if self.course is None or echo is None or not isinstance(view.feed, Merge):
            return None
        view.feed.sync()
        source = next(
            (b.source for b in view.buffers if (b.source.node, b.source.file) == (echo.node, echo.file)), None
        )
        number = None if source is None else view.feed.number_of(source, echo.offset)
        return None if number is None else (number, since(echo.at, self.course.cause.at))

    def everyone(self, view: View) -> list[int]:
        """Return the ranks of a view's files with loaded lines; a row of several ranks names the others.

        A file of which a page is being read is left out: it may have the line.
        """
        return known_ranks(buffer.source for buffer in view.buffers if buffer.lines and not buffer.reading)

    def seek_bad(self, view: View, step: int, *, warnings: bool) -> None:
        """Jump to the next (1) or previous (-1) error or (`warnings`) warning; others follow its time."""
        if self.searching.to_bad(view, step, warnings=warnings):
            self._go_along(view)

    def seek_hit(self, view: View, step: int) -> None:
        """Jump to the next (1) or previous (-1) search hit in this pane; the other panes move to its time."""
        if self.searching.to_hit(view, step):
            self._go_along(view)

    def _go_along(self, view: View) -> None:
        if view.time is not None:
            self.opened.move_time(view.time, view)

    def add(self, source: LogSource) -> LogSource:
        """Add a file to the selection, so that it gets a pane; return its source as its node lists it."""
        known = [
            s for s in all_sources(self.view_state.fleet) if (s.node, s.file) == (source.node, source.file)
        ]
        source = known[0] if known else source
        if source not in self.sources:
            self.sources.insert(self.first, source)
        return source

    def turn(self, step: int, room: int) -> None:
        """Show the next (1) or previous (-1) page of the selected logs; if there is none, only a notice.

        Args:
            step: The direction.
            room: Panes per page.
        """
        pages, page = -(-len(self.sources) // room), self.first // room + step
        if self.mode != "panes" or pages < 2:
            self.searching.note = f"all chosen logs are shown; {self.key_of('logs.choose')} chooses others"
            return
        if not 0 <= page < pages:
            end, back, way = ("last", "logs.before", "back") if step > 0 else ("first", "logs.after", "on")
            self.searching.note = f"the {end} of {len(self.sources)} logs; {self.key_of(back)} goes {way}"
            return
        self.first, self.searching.note = page * room, ""
        self.opened.keep(self.panes(room))

    def leave(self) -> None:
        """Drop every request on the nodes: the search, the pending jump and all open files."""
        self.searching.end_search()
        self.searching.end_jump()
        self.searching.note = ""
        self.opened.close()
