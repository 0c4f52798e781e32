"""Searches the files of a folder, each search in its own process, as in the agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gpuwatch.agent.logs.ipc.outbox import lines_frames
from gpuwatch.agent.logs.queries.search import (
    BLOCK_BYTES,
    RunningSearch,
    SearchPlan,
    SearchReporter,
    search_in_turns,
    search_pieces,
)
from gpuwatch.runs.files.files import reason
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.runs.files.opening import open_file
from gpuwatch.runs.files.packing import Contents
from gpuwatch.wire import Search

MAX_SEARCHES = 8
Frame = dict[str, Any]


def search_logs(plan: SearchPlan, logs: Iterable[LogPath], send: Callable[[Frame], object]) -> None:
    """Search the files in turns, each with an equal share of the plan's limit.

    Sends `wire.Lines` frames, the last one `done`; why a file cannot be read is the `error` of the last one.
    """
    logs = list(logs)
    total = float(sum(log.size for log in logs)) or 1.0
    reporter = SearchReporter(plan, total, lambda frame: send({**frame, "seq": 0}))

    def search_file(log: LogPath, at: int) -> int | None:
        reporter.until = log.until
        try:
            return search_pieces(plan, log.name, _pieces(log, at), reporter, at)
        except OSError as error:
            reporter.trouble = f"{log.name}: {reason(error)}"
            return None

    search_in_turns(logs, search_file, reporter)
    reporter.end()


def _pieces(log: LogPath, at: int) -> Iterator[tuple[bytes, int]]:
    """Yield the unpacked text of a file in pieces, each with the number of file bytes it was read from."""
    if log.packing is None:
        with open_file(log.path) as file:
            file.seek(at)
            while data := file.read(BLOCK_BYTES):
                yield data, len(data)
        return
    contents, read = Contents(log.path, log.packing), 0
    for piece in contents.pieces():
        yield piece[at:], contents.read - read
        at = max(0, at - len(piece))
        read = contents.read


class SearchServer:
    """The running searches, each in a forked process; it must live in a single-threaded process."""

    def __init__(self, send: Callable[[Frame | str], None]) -> None:
        """Create the server. `send` takes a frame as a dict or as JSON text."""
        self._send = send
        self._files: dict[str, LogPath] = {}
        self._running: dict[int, RunningSearch] = {}

    @property
    def descriptors(self) -> list[int]:
        """File descriptors that become readable when a search has results."""
        return [each.descriptor for each in self._running.values()]

    def take_files(self, logs: Iterable[LogPath]) -> None:
        """Replace the list of files."""
        self._files = {log.name: log for log in logs}

    def begin(self, request: Search) -> None:
        """Start a search; if that fails, answer with the reason."""
        if len(self._running) >= MAX_SEARCHES:
            self._end(request.id, f"{MAX_SEARCHES} searches are already running")
            return
        try:
            plan = SearchPlan(
                {
                    "id": request.id,
                    "pattern": request.pattern,
                    "ignore_case": request.ignore_case,
                    "limit": request.limit,
                }
            )
            logs = [self._files[name] for name in request.files or self._files if name in self._files]
            self._running[request.id] = RunningSearch(plan, logs, search_logs)
        except (ValueError, OSError) as error:
            self._end(request.id, str(error))

    def cancel(self, number: int) -> None:
        """End a search and send its last frame; an unknown number is ignored."""
        if number in self._running:
            self._running.pop(number).end()
            self._end(number, None)

    def step(self) -> None:
        """Forward the results of all searches, and end those that make no progress."""
        for number, search in list(self._running.items()):
            try:
                for text in search.read():
                    self._send(text)
            except BlockingIOError:
                why = search.stalled()
                if why is not None:
                    self._running.pop(number).end()
                    self._end(number, why)
                continue
            if search.ended:
                search.end()
                del self._running[number]

    def close(self) -> None:
        """End all searches."""
        for search in self._running.values():
            search.end()

    def _end(self, number: int, error: str | None) -> None:
        for frame in lines_frames(number, "", [], done=True, error=error):
            self._send({**frame, "seq": 0})
