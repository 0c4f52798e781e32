"""Shares a cluster's marks between running gpuwatches: writes own changes at once, and reads the others'."""

from __future__ import annotations

import getpass
import os
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.model.alert import Silence
from gpuwatch.hosts.plan import Plan
from gpuwatch.own_folders import state_folder
from gpuwatch.plain import plain
from gpuwatch.session.cluster_state import marks as change
from gpuwatch.session.cluster_state.marks import (
    MAX_NOTE_CHARS,
    ClusterMarks,
    KeptAcknowledgement,
    KeptNote,
    KeptSilence,
)
from gpuwatch.session.cluster_state.marks_file import Change, MarksError, MarksFile, Stamp, file_name

POLL_EVERY_S = 1.0
"""Seconds between checks of the marks file; a second cockpit shows a change within two checks."""
ANSWER_S = 2.0
"""Seconds to wait for the file system, per key press and at the end."""
Result = TypeVar("Result")


def marks_file(plan: Plan) -> MarksFile | None:
    """Return the marks file of a plan; None: marks are not stored (the demo, and logs without nodes)."""
    if any(spec.link in ("demo", "logs") for spec in plan.nodes):
        return None
    if plan.state is not None:
        return MarksFile(Path(plan.state), shared=True)
    return MarksFile(state_folder() / "clusters" / file_name(plan.source))


def person() -> str:
    """Return the user and host that marks are attributed to: `alice@login-1`."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.geteuid())
    return plain(f"{name}@{socket.gethostname().partition('.')[0]}")[:200]


class ClusterState:
    """Acknowledgements, silences and notes of a cluster, kept equal in the alert book and in the marks file.

    Call `restore` with the first book, `start` when the links start, `update` after each poll, then `close`.
    """

    def __init__(
        self, file: MarksFile | None, earlier: Callable[[], Iterable[Silence]], wall: Callable[[], float]
    ) -> None:
        """Create the shared marks; nothing is read yet.

        Args:
            file: The marks file; None: the marks are valid for this session only.
            earlier: Gives the silences that were stored before the marks file existed.
            wall: Unix seconds.
        """
        self.marks = ClusterMarks()
        self._file, self._earlier, self._wall = file, earlier, wall
        self._by = person()
        self._stamp: Stamp | None = None
        self._new: ClusterMarks | None = None
        self._unwritten: list[Change] = []
        self._trouble: str | None = None
        self._reported: set[str] = set()
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None

    def restore(self, book: AlertBook) -> None:
        """Read the marks file and apply its marks to the book.

        Without a file that can be read, apply the silences of `earlier`.
        """
        found = None if self._file is None else self._bounded(self._file.read)
        if found is not None:
            self.marks, self._stamp = found
        if self._stamp is None:
            kept = [KeptSilence(*_place(each), until=each.until) for each in self._earlier()]
            self.marks = ClusterMarks(silences=tuple(kept))
        self._show(book)

    def start(self) -> None:
        """Start a thread that watches the file for changes by others."""
        if self._file is not None and self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="cluster state", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop watching the file, and wait up to ANSWER_S seconds for the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(ANSWER_S)

    def take_trouble(self) -> str | None:
        """Return why the file cannot be read or written, each reason once; None: nothing new."""
        with self._changed:
            trouble, self._trouble = self._trouble, None
        if trouble is None or trouble in self._reported:
            return None
        self._reported.add(trouble)
        return trouble

    def update(self, book: AlertBook) -> None:
        """Apply the changes by others to the book, and drop lapsed acknowledgements from the file."""
        with self._changed:
            new, self._new = self._new, None
        if new is not None:
            for each in self._unwritten:
                new = each(new)
            if new != self.marks:
                self.marks = new
                self._show(book)
        lapsed = book.take_lapsed()
        if lapsed:
            self._change(lambda marks: change.unacknowledge(marks, lapsed))

    def acknowledge(self, book: AlertBook, ident: str) -> None:
        """Acknowledge an alert or an incident."""
        made = book.acknowledge(ident, self._by)
        kept = [KeptAcknowledgement(each.alert, each.at, self._by, each.first) for each in made]
        self._change(lambda marks: change.acknowledge(marks, kept))

    def unacknowledge(self, book: AlertBook, ident: str) -> None:
        """Remove the acknowledgement of an alert or an incident."""
        gone = book.unacknowledge(ident)
        self._change(lambda marks: change.unacknowledge(marks, gone))

    def silence(self, book: AlertBook, silence: Silence) -> str | None:
        """Add a silence. Returns why other cockpits and later sessions will not have it, or None."""
        kept = KeptSilence(*_place(silence), until=silence.until, at=self._wall(), by=self._by)
        return self._changed_silences(book, lambda marks: change.silence(marks, kept))

    def unsilence(self, book: AlertBook, silence: Silence) -> str | None:
        """Remove a silence. Return why other cockpits cannot read of it, or None."""
        return self._changed_silences(book, lambda marks: change.unsilence(marks, silence))

    def note(self, book: AlertBook, ident: str, text: str) -> str | None:
        """Add a note to an incident. Return why other cockpits will not have it, or None."""
        incident = next((each for each in book.incidents if each.id == ident), None)
        cause = "" if incident is None or incident.cause is None else incident.cause.id
        note = KeptNote(ident, plain(text)[:MAX_NOTE_CHARS], self._wall(), self._by, cause)
        trouble = self._change(lambda marks: change.with_note(marks, note))
        book.keep_notes(self.marks.notes_by_id())
        return trouble

    def _changed_silences(self, book: AlertBook, how: Change) -> str | None:
        trouble = self._change(how)
        book.restore(each.silence for each in self.marks.silences)
        return trouble

    def _show(self, book: AlertBook) -> None:
        book.restore(each.silence for each in self.marks.silences)
        book.restore_acknowledged(self.marks.acknowledgements, self._wall())
        book.keep_notes(self.marks.notes_by_id())

    def _change(self, how: Change) -> str | None:
        """Apply a change to the marks and the file. Return why the file lacks it; None: written, or no file.

        The next change writes what the file lacks.
        """
        self.marks = how(self.marks)
        file = self._file
        if file is None:
            return None
        first, waiting = self._stamp is None, [*self._unwritten, how]
        here = self.marks

        def whole(marks: ClusterMarks) -> ClusterMarks:
            if first and marks == ClusterMarks():
                return here  # with the silences of before there was a file
            for each in waiting:
                marks = each(marks)
            return marks

        written = self._bounded(lambda: file.change(whole, self._wall()))
        if written is None:
            self._unwritten = waiting
            return self._trouble or "see above"
        self._unwritten = []
        self.marks, self._stamp = written
        return None

    def _bounded(self, work: Callable[[], Result]) -> Result | None:
        """Return the result of `work`; None if it fails or takes longer than ANSWER_S seconds.

        `take_trouble` then returns the reason.
        """
        done: list[Result] = []
        failed: list[str] = []

        def run() -> None:
            try:
                done.append(work())
            except MarksError as error:
                failed.append(str(error))

        thread = threading.Thread(target=run, name="cluster state file", daemon=True)
        thread.start()
        thread.join(ANSWER_S)
        if not done:
            path = "" if self._file is None else f"{self._file.path}"
            self._tell(failed[0] if failed else f"{path} does not answer: its file system may hang")
        return done[0] if done else None

    def _tell(self, trouble: str) -> None:
        with self._changed:
            self._trouble = trouble

    def _watch(self) -> None:
        file = self._file
        while file is not None and not self._closing:
            with self._changed:
                self._changed.wait_for(lambda: self._closing, POLL_EVERY_S)
            if self._closing:
                return
            try:
                if file.stamp() != self._stamp:
                    marks, stamp = file.read()
                    with self._changed:
                        self._new, self._stamp = marks, stamp
            except MarksError as error:
                self._tell(str(error))
            except OSError as error:
                self._tell(f"{file.path} cannot be read: {error.strerror or error}")


def _place(silence: Silence) -> tuple[str, str | None, int | None, int | None]:
    return silence.code, silence.node, silence.gpu, silence.rank
