"""The demo's log files: lines are generated on request, nothing is stored.

A file has the writer's start-up lines, then a line of fixed length per training step, then the final lines.
The offset of every line thus follows from its number, and hours of log cost nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from msgspec import Struct

from gpuwatch.link.demo import scenario


class ScenarioLine(Struct, frozen=True):
    """A log line, and the second of the scenario in which it was written."""

    second: float
    text: str


class DemoLine(Struct, frozen=True):
    """A log line with its position: its offset in bytes, or in a kernel log in records."""

    offset: int
    end: int
    second: float
    text: str


class _Written:
    """The head or tail of a file: lines in order of time, and the number of bytes before each."""

    def __init__(self, stated: Sequence[ScenarioLine]) -> None:
        self.stated = stated
        self.seconds = [each.second for each in stated]
        self.ends = [0, *accumulate(len(each.text) + 1 for each in stated)]

    def count(self, second: float) -> int:
        return bisect_right(self.seconds, second)


class LogText:
    """A generated text file. `head` and `tail` are called at first use."""

    def __init__(
        self,
        path: str,
        head: Callable[[], Sequence[ScenarioLine]],
        tail: Callable[[], Sequence[ScenarioLine]],
        step: Callable[[int], ScenarioLine] | None = None,
        lag_s: float = 0.0,
    ) -> None:
        """Create a generated file.

        Args:
            path: As the agent names it.
            head: The first lines; all of them are older than second 0 and than every step.
            tail: The last lines; all of them are younger than the last step and than the fall of the GPU.
            step: The line of a training step, by its number from 1; every one is equally long.
            lag_s: How long after the end of a step its line is written.
        """
        self.path = path
        self._make_head, self._make_tail, self._step, self._lag_s = head, tail, step, lag_s
        self._steps_in_all = scenario.LAST_STEP if step is not None else 0

    @cached_property
    def _head(self) -> _Written:
        return _Written(self._make_head())

    @cached_property
    def _tail(self) -> _Written:
        return _Written(self._make_tail())

    @cached_property
    def _width(self) -> int:
        return 0 if self._step is None else len(self._step(1).text) + 1

    def count(self, second: float) -> int:
        """Return the number of lines written up to a second of the scenario."""
        stated = self._head.count(second)
        if stated < len(self._head.stated):
            return stated
        steps = max(0, scenario.step_at(second - self._lag_s))
        stated += min(self._steps_in_all, steps)
        return stated if second < scenario.FALL_AT else stated + self._tail.count(second)

    def offset(self, number: int) -> int:
        """Return the byte offset of line `number` (from 0); for the number of lines, the size."""
        head, steps = len(self._head.stated), self._steps_in_all
        if number <= head:
            return self._head.ends[number]
        begins = self._head.ends[head] + min(number - head, steps) * self._width
        return begins + self._tail.ends[max(0, number - head - steps)]

    def number(self, offset: int) -> int:
        """Return the number (from 0) of the line that contains a byte offset."""
        head, steps = self._head, self._steps_in_all
        if offset < head.ends[-1]:
            return bisect_right(head.ends, offset) - 1
        past = offset - head.ends[-1]
        if past < steps * self._width:
            return len(head.stated) + past // self._width
        return len(head.stated) + steps + bisect_right(self._tail.ends, past - steps * self._width) - 1

    def line(self, number: int) -> DemoLine:
        """Return the line with a number (from 0), whether it is already written or not."""
        head, steps = len(self._head.stated), self._steps_in_all
        if number < head:
            stated = self._head.stated[number]
        elif self._step is not None and number < head + steps:
            stated = self._step(number - head + 1)
        else:
            stated = self._tail.stated[number - head - steps]
        begins = self.offset(number)
        return DemoLine(begins, begins + len(stated.text) + 1, stated.second, stated.text)

    def lines(self, first: int, stop: int) -> Iterator[DemoLine]:
        """Yield the lines `first` to `stop` - 1."""
        return map(self.line, range(max(0, first), stop))

    def size(self, second: float) -> int:
        """Return the number of bytes written up to a second of the scenario."""
        return self.offset(self.count(second))


class Records(LogText):
    """A kernel log: every line is a record, and its offset is its number."""

    def __init__(self, path: str, records: Callable[[], Sequence[ScenarioLine]]) -> None:
        super().__init__(path, records, tuple)

    def offset(self, number: int) -> int:
        return number

    def number(self, offset: int) -> int:
        return offset

    def line(self, number: int) -> DemoLine:
        """Return one record."""
        stated = self._head.stated[number]
        return DemoLine(number, number + 1, stated.second, stated.text)
