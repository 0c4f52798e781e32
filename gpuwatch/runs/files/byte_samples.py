"""Classifies the beginning and the end of a file: text or binary, compression, timestamps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from gpuwatch.agent.logs.lines.splitter import line_text
from gpuwatch.agent.logs.lines.timestamps import time_of
from gpuwatch.runs.files.opening import open_file
from gpuwatch.runs.files.packing import Contents, packing_of

SAMPLE_BYTES = 32_768
MAX_CONTROL_SHARE = 0.05
"""Share of control characters above which data is not text: random bytes have 10 %, logs under 2 %."""
YEAR = re.compile(
    rb"20\d\d[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d[^\s\]]{0,16}"
    rb"|(?:\[|^)[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8}(?: [A-Z]{3,4})? 20\d\d\b",
    re.MULTILINE,
)
MAX_TIMES_TRIED = 20
LAST_BYTES = 4096
"""Number of bytes in which the last timestamps are searched first; then in four times as many, and so on."""
DAY_S = 86_400.0
PICKLE = re.compile(rb"\x80[\x02-\x05]")
DUMP_WORDS = (b"pg_config", b"comm_lib_version", b"nccl_version", b"profiling_name")
"""Keys at the beginning of a pickled dump of torch's flight recorder."""
MIN_LINES_SHARE = 0.5
"""Share of the bytes that are whole lines of text, from which on a file is a log whatever else is in it."""
LINES_OF_LOG, WORDS_OF_LINE = 3, 3
"""Least lines, and words in each, that make a binary file one that may be a log."""
MAX_PIECES_TRIED = 16
"""Pieces of packed binary data, of 1 MiB each, that are searched for lines."""
WORD = re.compile(rb"[A-Za-z]{3}")
CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b\x07") | {127})


def last_year_time(sample: bytes, mtime: float) -> float | None:
    """Return the last timestamp with a year in the sample (unix seconds); None if there is none.

    Timestamps more than a day after the file's modification time are ignored.
    """
    for line in reversed(_last_stamps(sample)):
        at = time_of(line_text(line), mtime)
        if at is not None and at <= mtime + DAY_S:
            return at
    return None


def _last_stamps(sample: bytes) -> list[bytes]:
    """Return the last `MAX_TIMES_TRIED` timestamps with a year; no match extends over a line."""
    size = LAST_BYTES
    while True:
        begin = sample.rfind(b"\n", 0, len(sample) - size) + 1 if size < len(sample) else 0
        found = YEAR.findall(sample, begin) if sample.find(b"20", begin) >= 0 else []
        if not begin or len(found) >= MAX_TIMES_TRIED:
            return found[-MAX_TIMES_TRIED:]
        size *= 4


def looked_into(path: Path, size: int) -> tuple[str | None, bytes]:
    """Return the packing of a file (None: plain), and a sample of its text.

    Of a plain file: its beginning and end. Of a packed one: its beginning or, if that is no text, the first
    piece with lines.

    Raises:
        OSError: the file cannot be read.
    """
    with open_file(path) as file:
        head = file.read(SAMPLE_BYTES)
        packing = packing_of(head)
        if packing is None:
            if size > SAMPLE_BYTES:
                file.seek(max(SAMPLE_BYTES, size - SAMPLE_BYTES))
                head += file.read(SAMPLE_BYTES)
            return None, head
    pieces = islice(Contents(path, packing).pieces(), MAX_PIECES_TRIED)
    first = next(pieces, b"")
    if is_text(first[:SAMPLE_BYTES]):
        return packing, first[:SAMPLE_BYTES]
    return packing, next((piece for piece in chain([first], pieces) if has_lines(piece)), first)


def is_flight_dump(sample: bytes) -> bool:
    """Return True if a file begins like a pickled dump of torch's flight recorder, and is no log."""
    is_begun = PICKLE.match(sample) is not None and any(word in sample for word in DUMP_WORDS)
    return is_begun and not _is_lines(sample)


def is_text(sample: bytes) -> bool:
    """Return True if the bytes look like a log.

    NUL bytes are ignored, since a log truncated in place contains them. A stretch of binary data, as a
    crashed program prints it, makes no binary file of a log.
    """
    sample = sample.replace(b"\0", b"")
    if not sample:
        return True
    control = len(sample) - len(sample.translate(None, CONTROL))
    return control <= MAX_CONTROL_SHARE * len(sample) or _is_lines(sample)


def _is_lines(sample: bytes) -> bool:
    """Return True if most of the bytes are lines of text."""
    sample = sample.replace(b"\0", b"")
    return sum(len(line) + 1 for line in _text_lines(sample)) >= MIN_LINES_SHARE * len(sample)


def has_lines(sample: bytes) -> bool:
    """Return True if there are lines of words in binary data: it may be a log all the same."""
    lines = (line for line in _text_lines(sample) if WORD.search(line))
    return sum(len(line.split()) >= WORDS_OF_LINE for line in lines) >= LINES_OF_LOG


def _text_lines(sample: bytes) -> Iterator[bytes]:
    """Yield the lines that are valid UTF-8 and have no control character."""
    for line in sample.splitlines():
        if len(line.translate(None, CONTROL)) == len(line) and is_utf8(line):
            yield line


def is_utf8(data: bytes) -> bool:
    """Return True if the bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
