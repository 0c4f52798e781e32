"""Creates the scanner of a followed file: for log lines, or for the rows of a table."""

from .matching.matcher import LineMatcher
from .matching.prefilter import Prefilter
from .progress.metrics_table import HEADER_BYTES
from .scanning.metrics_table_reader import TableReader
from .scanning.scanner import Scanner, ScanOutputs
from .scanning.table_prefilter import TableFile, TablePrefilter, is_table_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .files.entry import FileEntry
    from .matching.ruleset import RuleSet
    from .reporter import Numbers


class FileScanners(object):
    """Creates the scanners of all files; they share rules and finding ids."""

    def __init__(self, ruleset: "RuleSet", numbers: "Numbers") -> None:
        self.prefilter = Prefilter(ruleset)
        self._ruleset = ruleset
        self._numbers = numbers

    def of(self, entry: "FileEntry", steps: bool = True) -> "Scanner":
        """Return a new scanner for a file; without `steps` it reads no progress."""
        if not is_table_name(entry.name):
            outputs = ScanOutputs(steps=steps)
            return Scanner(self._ruleset, entry.name, self._numbers, entry.speaker, self.prefilter, outputs)
        table = TableFile(self._ruleset, lambda: _header_of(entry))
        prefilter = TablePrefilter(self.prefilter, table)
        search = LineMatcher(self._ruleset, entry.name)
        rows = TableReader(entry.name, search, prefilter, entry.speaker, table) if steps else None
        outputs = ScanOutputs(progress=rows, steps=False)
        return Scanner(self._ruleset, entry.name, self._numbers, entry.speaker, prefilter, outputs)


def _header_of(entry: "FileEntry") -> bytes:
    """Return the beginning of a followed file; empty if it is not open."""
    return b"" if entry.follower is None else entry.follower.at(0, HEADER_BYTES)
