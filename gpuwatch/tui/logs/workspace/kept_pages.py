"""The loaded pages of closed log files: what was read for an incident is not read again for it."""

from __future__ import annotations

from collections.abc import Callable

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.tui.logs.data.buffer import Buffer
from gpuwatch.tui.logs.data.merge import MAX_LINES
from gpuwatch.tui.logs.data.sources import LogSource, file_of


class KeptPages:
    """Pages of files that were closed, at most `MAX_LINES` lines; the oldest are dropped first."""

    def __init__(self, fleet: Callable[[], Fleet]) -> None:
        """Create an empty store; `fleet` returns the fleet, which reports the sizes of the files."""
        self._fleet = fleet
        self._pages: dict[tuple[str, str], tuple[Buffer, int]] = {}
        """(node, file) -> the page, and how often the file had been replaced when it was kept."""

    def keep(self, buffer: Buffer) -> None:
        """Keep the lines of a closed buffer; one with an error or without lines is dropped."""
        source = buffer.source
        file = file_of(self._fleet(), source)
        self._pages.pop((source.node, source.file), None)
        if file is None or buffer.error or not buffer.lines:
            return
        self._pages[source.node, source.file] = buffer, file.seams
        total = sum(len(page.lines) for page, _ in self._pages.values())
        for key in list(self._pages):
            if total <= MAX_LINES:
                break
            total -= len(self._pages.pop(key)[0].lines)

    def take(self, source: LogSource, page: int) -> Buffer | None:
        """Return the buffer with the kept lines of a file, which pages by `page` lines from now on.

        None if there are none, if the file was replaced, or if it has grown beyond a page that ended with it.
        """
        found, file = self._pages.pop((source.node, source.file), None), file_of(self._fleet(), source)
        if found is None or file is None or file.size is None or file.seams != found[1]:
            return None
        buffer, grown = found[0], file.size > found[0].lines[-1].end
        if grown and (buffer.live or buffer.at_end):
            return None
        buffer.reopen(source, page, ended=not grown)
        return buffer
