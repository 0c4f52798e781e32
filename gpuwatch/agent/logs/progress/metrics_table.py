"""Reads training metrics in a table (CSV, TSV): the header names the columns, each row is a step."""

import csv
import re

from .dialect import BATCHES, ProgressReading
from .key_values import canonical
from .quantities import NOTHING, QUANTITIES, put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .quantities import Fields

ENDINGS = (".csv", ".tsv")
COMMON = "progress.common"
"""The dialect with words shared by all others unless overridden; they also name columns."""
HEADER_BYTES = 16 * 1024
"""Bytes at the start of a file in which the header must end."""
MAX_COLUMNS = 2000
TIME_COLUMNS = frozenset(("time", "timestamp", "datetime", "date", "wall_time", "walltime", "created_at"))
"""Columns that may contain a row's time; an elapsed time there is not a step's."""
METRICS = frozenset(
    ("loss", "lr", "grad_norm", "loss_scale", "samples_per_s", "tokens_per_s", "step_time_s", "tflops", "mfu")
)
"""Names of columns; a metrics table has at least one of them."""
_NUMBER = re.compile(r"[-+]?[\d.]{1,40}(?:[eE][-+]?\d{1,4})?$")
_NOT_OF_TRAINING = re.compile(r"(?:^|[_/. ])(?:val|valid|validation|eval|evaluation|test|dev)(?:$|[_/. ])")
_LOSS = re.compile(r"(?:^|[_/. ])loss(?:$|[_/. ])")


class MetricsTable(object):
    """The columns of a metrics table, with which its rows are read as progress lines."""

    id = "progress.table"
    counts = False
    steady = False
    fallback = False

    def __init__(self, delimiter: str, quantities: "dict[int, str]", time_column: "int | None") -> None:
        self._delimiter = delimiter
        self._quantities = quantities
        """Column index -> quantity."""
        self._time_column = time_column
        self.per_epoch = False
        """True: steps start again with every epoch."""

    def read(self, text: str) -> "ProgressReading | None":
        """Return the progress values of a row; None if it has no step or no other value."""
        cells = self._cells(text)
        fields: Fields = {}
        for index, quantity in self._quantities.items():
            if index < len(cells) and cells[index]:
                put(fields, quantity, cells[index])
        if "step" not in fields or METRICS.isdisjoint(fields):
            return None
        return ProgressReading(self, fields, {})  # type: ignore[arg-type]  # of a dialect it uses the id and title alone

    def time_cell(self, text: str) -> str:
        """Return a row's cell in the time column; empty if there is none."""
        cells = self._cells(text)
        index = self._time_column
        return cells[index] if index is not None and index < len(cells) else ""

    def _cells(self, text: str) -> "list[str]":
        return _cells(text, self._delimiter)


def table_of(begin: bytes, words: "dict[str, str]") -> "MetricsTable | None":
    """Return the metrics table that begins with these bytes; None: no table, or other data.

    Its header names a step (or an epoch) and a metric. `words`: those of the dialect `COMMON`, each with its
    quantity.
    """
    header = _header(begin)
    if header is None:
        return None
    delimiter = max("\t;,", key=header.count)
    names = [canonical(cell) for cell in _cells(header, delimiter)[:MAX_COLUMNS]]
    if len(names) < 2 or any(_NUMBER.match(name) for name in names):
        return None
    quantities = _quantities(names, words)
    if "step" not in quantities.values() or METRICS.isdisjoint(_fields(quantities)):
        return None
    table = MetricsTable(
        delimiter, quantities, next((index for index, name in enumerate(names) if name in TIME_COLUMNS), None)
    )
    steps = [index for index, quantity in quantities.items() if quantity == "step"]
    table.per_epoch = names[steps[0]] in BATCHES and "epoch" in quantities.values()
    return table


def _header(begin: bytes) -> "str | None":
    for line in begin.replace(b"\r", b"\n").split(b"\n")[:-1]:
        text = line.decode("utf-8", "replace").lstrip("\ufeff# ").rstrip()
        if text:
            return text
    return None


def _cells(text: str, delimiter: str) -> "list[str]":
    try:
        return [cell.strip() for cell in next(csv.reader([text], delimiter=str(delimiter)), [])]
    except csv.Error:
        return []


def _quantities(names: "list[str]", words: "dict[str, str]") -> "dict[int, str]":
    """Return column index -> quantity, each quantity once; batches or epochs count as steps if needed."""
    found: dict[int, str] = {}
    for index, name in enumerate(names):
        quantity = words.get(name)
        known = quantity is not None and quantity != NOTHING and name not in TIME_COLUMNS
        if known and name not in BATCHES and QUANTITIES[quantity][0] not in _fields(found):  # type: ignore[index]  # `known` excludes None
            found[index] = quantity  # type: ignore[assignment]  # `known` excludes None
    if "loss" not in found.values():
        losses = (i for i, name in enumerate(names) if _LOSS.search(name))
        trained = [index for index in losses if not _NOT_OF_TRAINING.search(names[index])]
        found.update((index, "loss") for index in trained[:1] if index not in found)
    if "step" not in found.values():
        steps = [i for i, name in enumerate(names) if name in BATCHES and words.get(name) == "step"]
        steps += [index for index, quantity in found.items() if quantity == "epoch"]
        found.update((index, "step") for index in steps[:1])
    return found


def _fields(quantities: "dict[int, str]") -> "set[str]":
    return {QUANTITIES[quantity][0] for quantity in quantities.values()}
