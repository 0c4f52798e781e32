"""Serves requests on files: tails, pages and searches."""

import os
import time

from ...base.regular_file import open_regular
from ..files import pages
from ..files.tails import FollowedTail
from ..ipc.outbox import lines_frames
from .search import RunningSearch, SearchPlan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..files.catalog import Catalog
    from ..files.entry import FileEntry
    from ..files.follower import Follower
    from ..ipc.outbox import Outbox
    from .kernel_lines import KernelLines

MAX_TAILS = 256
MAX_SEARCHES = 4
KERNEL = "kernel log"


class RequestRefusedError(Exception):
    """Raised if a request is impossible; the text is for the user."""


class _NotYetError(Exception):
    """Raised if a request cannot be answered yet; it is tried again."""


class Server(object):
    """Answers the cockpit's requests for lines of files: tails, pages and searches."""

    def __init__(self, catalog: "Catalog", kernel: "KernelLines", outbox: "Outbox") -> None:
        self._catalog = catalog
        self._kernel = kernel
        self._outbox = outbox
        self._tails: dict[int, tuple[FollowedTail, list[FollowedTail]]] = {}
        """Request id -> its tail, and the file's list that contains it."""
        self._searches: dict[int, RunningSearch] = {}
        self._settled = False
        self._later: list[dict[str, Any]] = []
        """Requests for files that may still be found."""

    def answer(self, request: "dict[str, Any]") -> None:
        """Start the work of a request, keep it if it is too early, or answer why it is impossible."""
        number = request["id"]
        actions = {"tail": self._tail, "read": self._read, "search": self._search, "cancel": self._cancel}
        try:
            actions[request["do"]](request)
        except _NotYetError:
            self._later.append(request)
        except RequestRefusedError as refused:
            self._refuse(number, str(refused))
        except OSError as error:
            self._refuse(number, "{}: {}".format(request.get("file"), error.strerror or error))
        except (KeyError, TypeError, ValueError) as error:
            self._refuse(number, "this request cannot be understood: {}".format(str(error)[:200]))

    def descriptors(self) -> "list[int]":
        """Return the searches' descriptors for select; empty while the output is full."""
        return [] if self._outbox.full else [search.descriptor for search in self._searches.values()]

    def step(self, settled: bool) -> None:
        """Send the results of searches, and end searches that hang.

        `settled`: all files are known, so waiting requests are tried again.
        """
        if settled and not self._settled:
            self._settled = True
            later, self._later = self._later, []
            for request in later:
                self.answer(request)
        for number, search in list(self._searches.items()):
            if self._outbox.full:
                search.listening()
                continue
            try:
                for text in search.read():
                    self._outbox.put_text("L", text)
            except BlockingIOError:
                why = search.stalled()
                if why is not None:
                    self._end_search(number, error=why)
                continue
            if search.ended:
                search.end()
                del self._searches[number]

    def seam(self, entry: "FileEntry", what: str) -> None:
        """Send to the tails of a file that it was truncated or replaced."""
        for tail in entry.tails:
            tail.seam(what)

    def forget(self, entry: "FileEntry", why: str) -> None:
        """End the tails of a file that is no longer followed under this name; `why` is sent."""
        for tail in entry.tails:
            tail.end(error=why)
            del self._tails[tail.number]
        del entry.tails[:]

    # ----------------------------------------------------------------- tails and pages

    def _tail(self, request: "dict[str, Any]") -> None:
        number, name, count = (
            request["id"],
            request["file"],
            min(int(request.get("lines", 200)), pages.MAX_ROWS),
        )
        if len(self._tails) >= MAX_TAILS:
            raise RequestRefusedError("this agent already follows {} files, its limit".format(MAX_TAILS))
        tail = FollowedTail(number, name, self._outbox)
        if name == KERNEL:
            tail.send(self._kernel.page(None, None, count, 0))
            self._tails[number] = tail, self._kernel.tails
        else:
            entry = self._entry(name)
            follower = entry.follower
            if follower is None:
                raise RequestRefusedError("{} is not followed: {}".format(name, entry.reason or entry.state))
            start, seam = _begin(follower, request.get("offset"), count)
            data = follower.at(start, follower.offset - start)
            tail.begin(
                data,
                start,
                pages.MAX_ROWS if request.get("offset") is not None else count,
                follower.size,
                seam,
            )
            self._tails[number] = tail, entry.tails
        self._tails[number][1].append(tail)

    def _read(self, request: "dict[str, Any]") -> None:
        number, name = request["id"], request["file"]
        before, after = max(0, int(request.get("before", 0))), max(0, int(request.get("after", 0)))
        offset, at = request.get("offset"), request.get("time")
        if name == KERNEL:
            rows = self._kernel.page(offset, at, before, after)
            self._send(number, name, rows, size=self._kernel.size, done=True)
            return
        entry = self._entry(name)
        descriptor = open_regular(entry.path)
        try:
            size = os.fstat(descriptor).st_size

            def read_at(place: int, count: int) -> bytes:
                return os.pread(descriptor, count, place)

            if offset is None and at is not None:
                offset = _place_of_time(entry, read_at, size, at)
            place = size if offset is None else max(0, int(offset))
            rows = pages.around(read_at, size, place, (before, after), request.get("bare") is True)
        finally:
            os.close(descriptor)
        self._send(number, name, rows, size=size, done=True)

    def _entry(self, name: str) -> "FileEntry":
        entry = self._catalog.named(name)
        if entry is None and not self._settled:
            raise _NotYetError
        if entry is None:
            raise RequestRefusedError("{} is not among the log files of this node".format(name))
        if entry.path in self._catalog.blocked:
            raise RequestRefusedError("{}: {}".format(name, self._catalog.blocked[entry.path]))
        return entry

    # ----------------------------------------------------------------- searches

    def _search(self, request: "dict[str, Any]") -> None:
        try:
            plan = SearchPlan(request)
        except ValueError as error:
            raise RequestRefusedError(str(error)) from None
        if len(self._searches) >= MAX_SEARCHES:
            raise RequestRefusedError("{} searches are already running here".format(MAX_SEARCHES))
        wanted = request.get("files") or [
            entry.name for entry in self._catalog.entries.values() if entry.state == "following"
        ]
        files = [self._entry(name).path for name in wanted if name != KERNEL]
        rows = (
            self._kernel.matching(plan.pattern, plan.limit)
            if not request.get("files") or KERNEL in wanted
            else []
        )
        if rows:
            self._send(plan.number, KERNEL, rows)
            plan.limit = max(1, plan.limit - len(rows))
        self._searches[plan.number] = RunningSearch(plan, files)

    def _cancel(self, request: "dict[str, Any]") -> None:
        number = request["of"]
        if any(one["id"] == number for one in self._later):
            self._later = [one for one in self._later if one["id"] != number]
            self._send(number, "", [], done=True)
        elif number in self._tails:
            tail, listed = self._tails.pop(number)
            listed.remove(tail)
            tail.end()
        elif number in self._searches:
            self._end_search(number)
        self._outbox.put("A", {"kind": "reply", "id": request["id"], "t": round(time.time(), 3)})

    def _end_search(self, number: int, error: "str | None" = None) -> None:
        self._searches.pop(number).end()
        self._send(number, "", [], done=True, error=error)

    # ----------------------------------------------------------------- sending

    def _send(self, number: int, file: str, rows: "list[list[Any]]", **rest: "Any") -> None:
        for frame in lines_frames(number, file, rows, **rest):
            self._outbox.put("L", frame)

    def _refuse(self, number: int, why: str) -> None:
        self._outbox.put("A", {"kind": "reply", "id": number, "t": round(time.time(), 3), "error": why[:500]})


def _begin(follower: "Follower", offset: "int | None", count: int) -> "tuple[int, str | None]":
    """Return (start offset of a tail, None), or with why it is not `offset`: truncated, or bytes left out.

    `count`: how many lines to show if `offset` is None or beyond the end of the file.
    """
    if offset is None:
        return pages.tail_start(follower.at, follower.offset, count), None
    if offset > follower.offset:
        return pages.tail_start(follower.at, follower.offset, count), "truncated"
    if follower.offset - offset > pages.MAX_BYTES:
        start = pages.line_start(follower.at, follower.offset - pages.MAX_BYTES)
        return start, "{:,} bytes are left out here".format(start - offset)
    return offset, None


def _place_of_time(entry: "FileEntry", read_at: "Callable[[int, int], bytes]", size: int, at: float) -> int:
    """Return the offset in a file of the first line at or after a time (unix seconds).

    The lines' own times decide, else the times of their arrival.

    Raises:
        RequestRefusedError: Neither is known.
    """
    place = pages.offset_of_time(read_at, size, at)
    if place is not None:
        return place
    before: int | None = None
    for arrived, offset in entry.arrivals:
        if arrived > at and before is not None:
            return before
        before = offset
    if before is None:
        raise RequestRefusedError("no line of {} has a time".format(entry.name))
    return before if entry.arrivals[0][0] <= at else entry.arrivals[0][1]
