"""Decides whether a file is a metrics table (CSV, TSV), and passes its rows on as progress lines."""

from ..matching.prefilter import SHAPELESS
from ..progress.metrics_table import COMMON, ENDINGS, table_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

    from ..matching.ruleset import RuleSet
    from ..progress.metrics_table import MetricsTable


def is_table_name(name: str) -> bool:
    """Return True if a file name is one of a table (CSV, TSV)."""
    return name.lower().endswith(ENDINGS)


class TableFile(object):
    """The metrics table in one file, if it is one; its header is read at the first use."""

    def __init__(self, ruleset: "RuleSet", header: "Callable[[], bytes]") -> None:
        """Create the table of a log file, unread; `header` returns the first bytes of that file."""
        self._words = next((each.words for each in ruleset.dialects if each.id == COMMON), {})
        self._header = header
        self._looked = False
        self._table: MetricsTable | None = None

    def get(self) -> "MetricsTable | None":
        """Return the metrics table of the file; None: the file contains other text."""
        if not self._looked:
            begin = self._header()
            self._looked = b"\n" in begin or b"\r" in begin
            self._table = table_of(begin, self._words)
        return self._table


class TablePrefilter(object):
    """The prefilter of a table file: all its rows may report progress."""

    def __init__(self, prefilter: "Any", file: "TableFile") -> None:
        self._prefilter = prefilter
        self._file = file

    def hits(
        self, data: bytes, newest: "Any" = None, known: "set[int] | None" = None
    ) -> "list[tuple[int, Any]]":
        """Return (offset in `data`, phrase) where a rule's phrase occurs; pass all rows to `newest`."""
        table = self._file.get()
        if table is None:
            return self._prefilter.hits(data, newest, known)  # type: ignore[no-any-return]  # the prefilter is the agent's or hyperscan's
        if newest is not None:
            lines = data.replace(b"\r", b"\n").split(b"\n")
            shapes = [line.translate(None, SHAPELESS) for line in lines]
            newest.take(lines, shapes, dict.fromkeys(filter(None, shapes), [table]), len(data))
        return self._prefilter.hits(data, None, known)  # type: ignore[no-any-return]  # the prefilter is the agent's or hyperscan's

    def surely_lacks(self, data: bytes, texts: "Sequence[bytes]") -> bool:
        """Return True if it is known that none of the texts occurs in the data; False: unknown."""
        return self._prefilter.surely_lacks(data, texts)  # type: ignore[no-any-return]  # the prefilter is the agent's or hyperscan's

    def no_progress(self, shape: bytes) -> None:
        """Do nothing: a row may have any shape."""
