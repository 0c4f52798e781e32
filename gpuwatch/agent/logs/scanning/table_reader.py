"""A table of metrics (CSV, TSV) read as a log: its rows are handed on as lines of progress."""

from ..lines.prefixes import Speaker
from ..lines.timestamps import time_of
from ..matching.prefilter import SHAPELESS
from ..progress.metrics_table import COMMON, ENDINGS, table_of
from .progress_reader import ProgressReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator  # noqa: F401 - used in type comments

    from ..matching.ruleset import RuleSet  # noqa: F401 - used in type comments
    from ..progress.metrics_table import MetricsTable  # noqa: F401 - used in type comments

LEAST_EPOCH_S, LEAST_EPOCH_MS = 1e9, 1e12
"""A smaller number in a column of times is no time since 1970 in seconds; from the other on it is in ms."""


def is_table_name(name):
    # type: (str) -> bool
    """Whether a file of this name may hold a table."""
    return name.lower().endswith(ENDINGS)


class TableFile(object):
    """The table of one file: its header is read when the first row is."""

    def __init__(self, ruleset, header):
        # type: (RuleSet, Callable[[], bytes]) -> None
        """`header` gives the first bytes of the file."""
        self._words = next((each.words for each in ruleset.dialects if each.id == COMMON), {})
        self._header = header
        self._looked = False
        self._table = None  # type: MetricsTable | None

    def get(self):
        # type: () -> MetricsTable | None
        """The table; None: the file holds other text."""
        if not self._looked:
            begin = self._header()
            self._looked = b"\n" in begin or b"\r" in begin
            self._table = table_of(begin, self._words)
        return self._table


class TableSieve(object):
    """Stands in for the `Sieve` of a file that is a table: all of its rows may report progress."""

    def __init__(self, sieve, file):
        # type: (Any, TableFile) -> None
        self._sieve = sieve
        self._file = file

    def hits(self, data, newest=None):
        # type: (bytes, Any) -> list[tuple[int, Any]]
        """As `Sieve.hits`."""
        table = self._file.get()
        if table is None:
            return self._sieve.hits(data, newest)  # type: ignore[no-any-return]
        if newest is not None:
            lines = data.replace(b"\r", b"\n").split(b"\n")
            shapes = [line.translate(None, SHAPELESS) for line in lines]
            newest.take(lines, shapes, dict.fromkeys(filter(None, shapes), [table]), len(data))
        return self._sieve.hits(data)  # type: ignore[no-any-return]

    def no_progress(self, shape):
        # type: (bytes) -> None
        """Any shape may be that of a row."""


class TableReader(ProgressReader):
    """Reads the rows of a table by its header, and lines of other files as they stand."""

    def __init__(self, name, search, sieve, speaker, file):
        # type: (str, Any, TableSieve, Any, TableFile) -> None
        ProgressReader.__init__(self, name, search, sieve, speaker)
        self._table_file = file

    def readings(self, line, dialects, local_ranks):
        # type: (bytes, list[Any], bool) -> Iterator[tuple[Any, Any, str]]
        """As `ProgressReader.readings`."""
        table = self._table_file.get()
        if table is None:
            for stated in ProgressReader.readings(self, line, dialects, local_ranks):
                yield stated
            return
        text = line.decode("utf-8", "replace")
        reading = table.read(text)
        if reading is not None:
            yield reading, Speaker(), text

    def written_at(self, line, arrived):
        # type: (bytes, float) -> float | None
        """As `ProgressReader.written_at`."""
        table = self._table_file.get()
        if table is None:
            return ProgressReader.written_at(self, line, arrived)
        cell = table.time_cell(line.decode("utf-8", "replace"))
        try:
            seconds = float(cell)
        except ValueError:
            return time_of(cell, arrived)
        seconds = seconds / 1000.0 if seconds >= LEAST_EPOCH_MS else seconds
        return seconds if LEAST_EPOCH_S <= seconds < LEAST_EPOCH_MS else None
