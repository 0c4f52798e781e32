"""Reads the results of evaluations that a training printed: dicts of HF Trainer, and blocks of lines."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuwatch.runs.files.opening import open_buffered
from gpuwatch.runs.scan.result import LogScan
from gpuwatch.runs.sessions.folders.main_log import ITEM, NUMBER
from gpuwatch.runs.sessions.model.summary import EvaluationResults

MAX_LOGS, MAX_BYTES = 16, 32 << 20
"""Logs, and bytes at the end of each, that are searched."""
MAX_LINE = 8_192
MAX_EVALUATIONS, MAX_RESULTS = 1_000, 100
MAX_FUTILE = 2_000
"""Lines that look like an evaluation but have no result, after which the log is not searched further."""
BLOCK = b"EVALUATION RESULTS"
SIGN = re.compile(rb"['\"]eval_|" + BLOCK)
RESULT = re.compile(
    rb"['\"](eval_[\w./@-]{1,80})['\"]:\s{0,4}['\"]?([-+]?\d[\d.eE+-]{0,30})['\"]?\s{0,4}[,}]"
)
VALUE = re.compile(NUMBER, re.IGNORECASE)
ENDS = (b"\n", b"\r")


def evaluations_of(files: Sequence[LogScan]) -> list[EvaluationResults]:
    """Return the newest `MAX_EVALUATIONS` evaluations of the log that has most, in order.

    All ranks print the same ones; only the first `MAX_LOGS` logs are read.
    """
    found = [list(evaluations_in(log)) for log in files[:MAX_LOGS]]
    return max(found, key=len, default=[])[-MAX_EVALUATIONS:]


def evaluations_in(log: LogScan) -> Iterator[EvaluationResults]:
    """Yield the evaluations at the end of one log; none if it cannot be read.

    The step is that of the last training step before, if known.
    """
    points = max((one.points for one in log.series), key=len, default=[])
    offsets = [point.offset for point in points]
    try:
        begin, data = end_of(log.path)
    except OSError:
        return
    at = futile = 0
    while futile < MAX_FUTILE and (sign := SIGN.search(data, at)):
        first, last = line_around(data, sign.start())
        line, at = data[first:last], max(last, sign.end())
        results = block_results(data, at) if sign[0] == BLOCK else dict_results(line)
        futile += not results
        if results:
            before = bisect_right(offsets, begin + first)
            yield EvaluationResults(step=points[before - 1].step if before else None, results=results)


def end_of(path: Path) -> tuple[int, bytes]:
    """Return the last bytes of a file, and their offset.

    Raises:
        OSError: It cannot be read.
    """
    with open_buffered(path) as file:
        begin = max(0, file.seek(0, 2) - MAX_BYTES)
        file.seek(begin)
        return begin, file.read(MAX_BYTES)


def line_around(data: bytes, at: int) -> tuple[int, int]:
    """Return begin and end of the line at an offset, at most `MAX_LINE` bytes away."""
    first = max(data.rfind(end, max(0, at - MAX_LINE), at) for end in ENDS) + 1
    ends = [place for end in ENDS if (place := data.find(end, at, at + MAX_LINE)) >= 0]
    return max(first, at - MAX_LINE), min(ends, default=min(len(data), at + MAX_LINE))


def dict_results(line: bytes) -> dict[str, float | None]:
    """Return name -> value from a line `{'eval_loss': 1.8765, ...}`; numbers may be quoted."""
    return dict(result for name, text in RESULT.findall(line)[:MAX_RESULTS] for result in named(name, text))


def block_results(data: bytes, at: int) -> dict[str, float | None]:
    """Return name -> value of the lines `  * eval_loss: 1.8765` directly below the line at an offset."""
    found: dict[str, float | None] = {}
    for line in data[at : at + MAX_LINE].split(b"\n")[1 : MAX_RESULTS + 1]:
        item = ITEM.match(line.decode(errors="replace"))
        value = VALUE.match(item["value"]) if item else None
        if item is None or value is None:
            break
        found.update(named(item["name"].encode(), value[0].encode()))
    return found


def named(name: bytes, text: bytes) -> Iterator[tuple[str, float]]:
    """Yield the name and the number; nothing if it is not a finite number."""
    try:
        value = float(text)
    except ValueError:
        return
    if math.isfinite(value):
        yield name.decode(errors="replace"), value
