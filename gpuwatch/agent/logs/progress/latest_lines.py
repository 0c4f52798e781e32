"""Stores the newest lines that may report progress as bytes, so that a flood costs one parse per tick."""

import re
from collections import OrderedDict

from .history_lines import NAN, WRITER
from .request_counts import CountedLines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .dialect import CompiledDialect
    from .history_lines import Past

MAX_CHUNK_LINES = 64
"""Lines taken from one stretch of a file; the last one of each shape."""
MANY_WRITERS = 1024
"""Number of last lines, in a file of many ranks, among which writers are distinguished."""
FLOOD_BYTES, FLOOD_WRITERS = 128 * 1024, 16
"""Limits of bytes and writers per stretch while a file receives a flood of lines."""
MAX_WAITING_LINES = 256
"""Lines that wait to be parsed."""

_MAY_DIFFER = re.compile(rb"^\s*(?:\[[A-Za-z ]{0,12}\]|: |\[,\]<)|[Rr](?:ank|ANK)\"?[ :=]{0,3}(?![A-Za-z])")


class Newest(object):
    """Stores the newest line of each shape and writer in one file, until `drain`."""

    def __init__(self) -> None:
        self._found: list[tuple[int, bytes, bytes, list[CompiledDialect], bool]] = []
        self._odd: set[tuple[bytes, bytes]] = set()
        """Shapes with a NaN, and the writers that reported one."""
        self._waiting: OrderedDict[Any, tuple[int, float, bool, bytes, bytes, list[CompiledDialect]]] = (
            OrderedDict()
        )
        self.counted = CountedLines()
        self.past: Past | None = None
        """Receives all lines of a backlog while set."""

    def take(
        self,
        lines: "list[bytes]",
        shapes: "list[bytes]",
        paced: "dict[bytes, list[CompiledDialect]]",
        size: int,
    ) -> None:
        """Store the last line of each shape in `paced` for each writer, and its first line with a NaN.

        `shapes` are those of all `lines`, `size` their bytes.
        """
        if self.past is not None:
            self.past.take(lines, shapes, paced)
        last = dict(zip(shapes, range(len(shapes))))  # noqa: B905 - strict needs Python 3.10
        wanted = {index for shape, index in last.items() if shape in paced}
        if self.past is None:
            self.counted.take(lines, shapes, paced)
        for index in list(wanted):
            if _MAY_DIFFER.search(shapes[index]):
                most = MANY_WRITERS if size < FLOOD_BYTES else FLOOD_WRITERS
                wanted.update(_others(lines, shapes, index, most))
        turns = self._turns(lines, shapes, paced, last)
        wanted.update(turns)
        before, at = 0, 0
        for index in sorted(wanted)[-MAX_WAITING_LINES if len(wanted) > len(last) else -MAX_CHUNK_LINES :]:
            at += sum(map(len, lines[before:index])) + index - before
            before = index
            shape = shapes[index]
            self._found.append((at, lines[index], shape, paced[shape], index in turns))

    def _turns(
        self,
        lines: "list[bytes]",
        shapes: "list[bytes]",
        paced: "dict[bytes, list[CompiledDialect]]",
        last: "dict[bytes, int]",
    ) -> "set[int]":
        """Return the index of each writer's first line with a NaN, and of the writer's line before it."""
        odd = {shape for shape in last if shape in paced and NAN.search(shape)}
        found: set[int] = set()
        before: dict[bytes, int] = {}
        for index, shape in enumerate(shapes) if odd else ():
            if shape not in paced:
                continue
            writer = _writer(lines[index])
            if shape not in odd:
                before[writer] = index
            elif (shape, writer) not in self._odd and len(self._odd) < MANY_WRITERS:
                self._odd.add((shape, writer))
                found.update(at for at in (before.get(writer), index) if at is not None)
        return found

    def place(self, offset_of: "Any", arrived: float, backlog: bool) -> None:
        """Set file offset and arrival of the lines that were added last, which `drain` then returns."""
        if self.past is not None:
            self.past.place(offset_of)
        for at, line, shape, dialects, turn in self._found:
            key = (shape, _writer(line), offset_of(at) if turn else None)
            self._waiting.pop(key, None)
            self._waiting[key] = (offset_of(at), arrived, backlog, line, shape, dialects)
        del self._found[:]
        while len(self._waiting) > MAX_WAITING_LINES:
            self._waiting.popitem(last=False)

    def drain(self) -> "list[tuple[int, float, bool, bytes, bytes, list[CompiledDialect]]]":
        """Remove the waiting lines and return them in arrival order.

        Each is (offset, arrival, backlog, line, shape, dialects).
        """
        waiting = list(self._waiting.values())
        self._waiting.clear()
        return waiting

    def __bool__(self) -> bool:
        return bool(self._waiting)


def _writer(line: bytes) -> bytes:
    found = WRITER.search(line, 0, 200)
    return found.group() if found else b""


def _others(lines: "list[bytes]", shapes: "list[bytes]", index: int, most: int) -> "list[int]":
    """Return the index of each writer's last line with the shape of the line at `index`; empty: no writer.

    At most `most` lines are read, upwards from `index`.
    """
    shape = shapes[index]
    seen: dict[bytes, int] = {}
    for at in range(index, max(-1, index - most), -1):
        if shapes[at] == shape:
            writer = WRITER.search(lines[at], 0, 200)
            if writer is None:
                break
            if seen.setdefault(writer.group(), at) != at and len(seen) == 1 and index - at > 8:
                break  # one writer alone
    return list(seen.values())
