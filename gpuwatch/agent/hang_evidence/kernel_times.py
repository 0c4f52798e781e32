"""Sums the times of GPU kernels, copies and operators in a Chrome trace that Kineto wrote.

The trace is untrusted: its events are decoded one at a time, and what is kept of them is bounded.
"""

import codecs
import json
import re
import time
from array import array

from ..base.procfs import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

PIECE = 1 << 16
MAX_HEAD, MAX_EVENT = 4 << 20, 1 << 18
"""Characters before the first event, and of one event."""
MAX_EVENTS = 500000
"""GPU events, and operators of a trace without GPU events."""
MAX_NAMES, MAX_NAME = 10000, 300
MAX_ROWS = 30
MAX_TIME_US, MAX_DURATION_US = 1e18, 1e9
READING_S = 20.0
"""Seconds to decode a trace; one of 196 MB (440,000 events) takes 1.8 s of CPU."""
OTHERS = "(others)"
GPU_CATEGORIES = {
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "memcpy": "copy",
    "gpu_memset": "memset",
    "memset": "memset",
}
"""Kineto's categories in lower case; torch before 1.11 wrote `Kernel`, `Memcpy`, `Operator`."""
OPERATOR, OPERATORS, SPAN = "cpu_op", ("cpu_op", "operator"), "trace"
FIRST_EVENT = re.compile(r'"traceEvents"\s*:\s*\[')
SEPARATORS = re.compile(r"[\s,]*")


class TraceError(Exception):
    """Raised if a trace cannot be summed; the text is the reason."""


def kernel_times(read: "Callable[[int], bytes]") -> "dict[str, Any]":
    """Return the sums of a trace: the fields of `wire.ProcessKernels` without the pid.

    `read`: returns the next bytes of the trace, at most so many; b"" at its end.

    Raises:
        TraceError: It is not a whole trace, or is larger than the bounds.
    """
    sums, deadline = _Sums(), time.monotonic() + READING_S
    for event in _events(read):
        if isinstance(event, dict):
            sums.add(event)
        if time.monotonic() > deadline:
            raise TraceError("its trace takes longer than {:.0f} s to read".format(READING_S))
    return sums.facts()


def _events(read: "Callable[[int], bytes]") -> "Iterator[object]":
    decoder = json.JSONDecoder(strict=False, parse_int=float)
    decoded = codecs.getincrementaldecoder("utf-8")("replace")
    text, found = "", None
    while found is None:
        piece = read(PIECE)
        text += decoded.decode(piece)
        found = FIRST_EVENT.search(text)
        if found is None and (not piece or len(text) > MAX_HEAD):
            raise TraceError("its trace has no events")
    position = found.end()
    while True:
        position = _after_separators(text, position)
        if text[position : position + 1] == "]":
            return
        try:
            event, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            text, position = text[position:], 0
            piece = read(PIECE)
            if len(text) > MAX_EVENT:
                raise TraceError("its trace has an event that is no JSON, or a very long one") from None
            if not piece:
                raise TraceError("its trace ends before its last event") from None
            text += decoded.decode(piece)
            continue
        yield event


def _after_separators(text: str, position: int) -> int:
    found = SEPARATORS.match(text, position)
    return position if found is None else found.end()


class _Sums(object):
    """The counts and microseconds of a trace by category and name, and the GPU's busy intervals."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], list[float]] = {}
        self._starts, self._ends = array("d"), array("d")
        self._operators = _Operators()
        self._span_us: float | None = None
        self._left_out = 0

    def add(self, event: "dict[str, Any]") -> None:
        if event.get("ph") != "X":
            return
        category, name = event.get("cat"), event.get("name")
        if not isinstance(category, str) or not isinstance(name, str):
            return
        category = category[:20].lower()
        known = GPU_CATEGORIES.get(category)
        if known is None and category not in OPERATORS and category != SPAN:
            return
        start, took = event.get("ts"), event.get("dur")
        if not (
            isinstance(start, float)
            and isinstance(took, float)
            and -MAX_TIME_US < start < MAX_TIME_US
            and 0 <= took <= MAX_DURATION_US
        ):
            self._left_out += 1
        elif known is not None:
            self._count(known, name[:MAX_NAME], took)
            self._starts.append(start)
            self._ends.append(start + took)
            if len(self._starts) > MAX_EVENTS:
                raise TraceError("its trace has more than {} GPU events".format(MAX_EVENTS))
        elif category in OPERATORS:
            if not self._starts:
                place = str(event.get("pid"))[:60], str(event.get("tid"))[:60]
                self._operators.add(place, name[:MAX_NAME], start, took)
        elif took > 0:
            self._span_us = took

    def facts(self) -> "dict[str, Any]":
        if not self._starts:
            for name, own_us in self._operators.own_times():
                self._count(OPERATOR, name, own_us)
        totals: dict[str, list[float]] = {}
        for (category, _), (count, took) in self._sums.items():
            total = totals.setdefault(category, [0, 0.0])
            total[0] += count
            total[1] += took
        longest = sorted(self._sums.items(), key=lambda each: -each[1][1])[:MAX_ROWS]
        found: dict[str, Any] = {
            "work": [_row(category, name, sums) for (category, name), sums in longest],
            "totals": [_row(category, "", sums) for category, sums in sorted(totals.items())],
            "left_out": self._left_out,
        }
        if self._span_us is not None:
            found["span_s"] = round(self._span_us / 1e6, 9)
        if self._starts:
            found["busy_s"] = round(_union(self._starts, self._ends) / 1e6, 9)
        return found

    def _count(self, category: str, name: str, took: float) -> None:
        sums = self._sums.get((category, name))
        if sums is None:
            if len(self._sums) >= MAX_NAMES:
                name = OTHERS
            sums = self._sums.setdefault((category, name), [0, 0.0])
        sums[0] += 1
        sums[1] += took


class _Operators(object):
    """The operators of a trace by thread, for their times without the operators that they call."""

    def __init__(self) -> None:
        self._starts, self._took = array("d"), array("d")
        self._threads, self._names = array("L"), array("L")
        self._thread_numbers: dict[tuple[str, str], int] = {}
        self._name_numbers: dict[str, int] = {}

    def add(self, thread: "tuple[str, str]", name: str, start: float, took: float) -> None:
        if len(self._starts) > MAX_EVENTS:
            return
        if name not in self._name_numbers and len(self._name_numbers) >= MAX_NAMES:
            name = OTHERS
        self._starts.append(start)
        self._took.append(took)
        self._threads.append(self._thread_numbers.setdefault(thread, len(self._thread_numbers)))
        self._names.append(self._name_numbers.setdefault(name, len(self._name_numbers)))

    def own_times(self) -> "Iterator[tuple[str, float]]":
        """Yield (name, microseconds without the operators that it calls) of each operator.

        Raises:
            TraceError: There are more than `MAX_EVENTS`.
        """
        starts, took, threads = self._starts, self._took, self._threads
        if len(starts) > MAX_EVENTS:
            raise TraceError("its trace has more than {} operators".format(MAX_EVENTS))
        own, names = array("d", took), {number: name for name, number in self._name_numbers.items()}
        calling: list[int] = []
        for each in sorted(range(len(starts)), key=lambda at: (threads[at], starts[at], -took[at])):
            while calling and (
                threads[calling[-1]] != threads[each]
                or starts[calling[-1]] + took[calling[-1]] <= starts[each]
            ):
                calling.pop()
            if calling:
                own[calling[-1]] -= took[each]
            calling.append(each)
        for number, name in enumerate(self._names):
            yield names[name], max(0.0, own[number])


def _union(starts: "array[float]", ends: "array[float]") -> float:
    """Return the length of the union of intervals."""
    whole, reached = 0.0, float("-inf")
    for each in sorted(range(len(starts)), key=starts.__getitem__):
        if ends[each] > reached:
            whole += ends[each] - max(starts[each], reached)
            reached = ends[each]
    return whole


def _row(category: str, name: str, sums: "list[float]") -> "dict[str, Any]":
    return {
        "category": category,
        "name": clean(name, MAX_NAME),
        "count": int(sums[0]),
        "seconds": round(sums[1] / 1e6, 9),
    }
