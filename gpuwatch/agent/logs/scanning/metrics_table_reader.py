"""Reads a metrics table (CSV, TSV) as a log: rows are passed on as progress lines."""

from ..lines.prefixes import Speaker
from ..lines.timestamps import time_of
from .progress_reader import ProgressReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

    from .table_prefilter import TableFile, TablePrefilter

MIN_EPOCH_S, MIN_EPOCH_MS = 1e9, 1e12
"""Smallest valid times since 1970 in a time column, in seconds and in milliseconds."""


class TableReader(ProgressReader):
    """Reads the rows of a table by its header; lines of files that are no tables as other readers do."""

    def __init__(
        self, name: str, search: "Any", prefilter: "TablePrefilter", speaker: "Any", file: "TableFile"
    ) -> None:
        ProgressReader.__init__(self, name, search, prefilter, speaker)
        self._table_file = file

    def readings(
        self, line: bytes, dialects: "list[Any]", local_ranks: bool
    ) -> "Iterator[tuple[Any, Any, str]]":
        """Yield (values, writer, text) of a table's row, or of a line of another file.

        See `ProgressReader.readings`.
        """
        table = self._table_file.get()
        if table is None:
            for stated in ProgressReader.readings(self, line, dialects, local_ranks):
                yield stated
            return
        text = line.decode("utf-8", "replace")
        reading = table.read(text)
        if reading is not None:
            yield reading, Speaker(), text

    def written_at(self, line: bytes, arrived: float) -> "float | None":
        """Return the row's or line's own time (unix seconds); None: it has none."""
        table = self._table_file.get()
        if table is None:
            return ProgressReader.written_at(self, line, arrived)
        cell = table.time_cell(line.decode("utf-8", "replace"))
        try:
            seconds = float(cell)
        except ValueError:
            return time_of(cell, arrived)
        seconds = seconds / 1000.0 if seconds >= MIN_EPOCH_MS else seconds
        return seconds if MIN_EPOCH_S <= seconds < MIN_EPOCH_MS else None
