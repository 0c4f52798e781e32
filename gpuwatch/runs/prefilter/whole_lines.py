"""Recognises shapes that contain the message of a line unchanged, so that patterns can be tried on them.

Other lines are taken apart or joined before they are searched: kernel lines, lines with mpirun's tags or the
prefixes of two ranks, and JSON records whose message is made of several fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuwatch.agent.logs.lines.json_lines import EXCEPTION, OUTCOMES
from gpuwatch.rules.compiling.shape_patterns import OTHER_DIGIT_OR_SPACE, has_other_digits

MAX_TRIED = 2_000
"""Longest shape in bytes that is tried: of a longer line only a part around a phrase is searched."""
_KERNEL_TIME = re.compile(rb"\[(?: *\.\]|[a-z]{3} [a-z]{3} )")
_COLUMNS = re.compile(rb",,,[-c+]")
"""Matches the columns of a kernel record (`/dev/kmsg`)."""
_RANKS = re.compile(rb"rank[^\"a-z].*rank[^\"a-z]")
_DEFAULTS = re.compile(rb"default.*(?:rank|default)")
_OUTCOME = re.compile(f'"(?:{"|".join(OUTCOMES)}|involvedObject|regarding)"'.lower().encode())
"""Matches fields whose values are appended to a record's message, and those of a Kubernetes event."""
_EXCEPTION = re.compile(
    f'"{EXCEPTION.pattern.removeprefix("(?i)").removesuffix("$")}"'.lower().encode() + rb"\s*:\s*\{"
)
"""Matches an exception in parts, which are joined (see `json_lines.texts_of`)."""
_SIGNS = (
    (b"kernel", re.compile(rb"kernel")),
    (b"]<std", re.compile(rb"\]<std")),
    (b"<>", re.compile(rb"(?m)^<>")),
    (b"rank", re.compile(rb"rank[^\"a-z\n].*rank[^\"a-z\n]")),
    (b"[", _KERNEL_TIME),
    (b",,,", _COLUMNS),
    (b"default", _DEFAULTS),
    (b'"', _OUTCOME),
    (b'"', _EXCEPTION),
)
"""Texts and patterns of which each refused shape of ordinary length in ASCII has one, in lower case."""


def is_tried(shape: bytes, lowered: bytes) -> bool:
    """Return True if patterns can be tried on a shape; `lowered`: the shape in lower case."""
    if len(shape) > MAX_TRIED or b"kernel" in lowered or b"]<std" in lowered or shape[:2] == b"<>":
        return False
    if b"rank" in lowered and _RANKS.search(lowered):
        return False
    if b"[" in shape and _KERNEL_TIME.search(lowered):
        return False
    if b",,," in shape and _COLUMNS.search(lowered):
        return False
    if b"default" in lowered and _DEFAULTS.search(lowered):
        return False
    if b"{" in shape and b'"' in shape and _OUTCOME.search(lowered):
        return False
    return (shape.count(b"{") < 2 or not _EXCEPTION.search(lowered)) and not has_other_digits(shape)


def untried(shapes: Sequence[bytes]) -> set[bytes]:
    """Return the shapes on which no pattern can be tried, as `is_tried` does for each, in a few searches."""
    refused: set[bytes] = set()
    if any(map(MAX_TRIED.__lt__, map(len, shapes))):
        refused.update(shape for shape in shapes if len(shape) > MAX_TRIED)
        shapes = list(set(shapes) - refused)
    text = b"\n".join(shapes)
    lowered = text.lower()
    searches = [(lowered, pattern) for sign, pattern in _SIGNS if sign in lowered]
    if not text.isascii():
        searches.append((text, OTHER_DIGIT_OR_SPACE))
    for searched, pattern in searches:
        for begin, end in _lines_with(pattern, searched):
            shape = text[begin:end]
            if not is_tried(shape, lowered[begin:end]):
                refused.add(shape)
    return refused


def _lines_with(pattern: re.Pattern[bytes], text: bytes) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each line in which a match of the pattern begins."""
    found = pattern.search(text)
    while found is not None:
        begin = text.rfind(b"\n", 0, found.start()) + 1
        end = text.find(b"\n", found.start())
        if end < 0:
            end = len(text)
        yield begin, end
        found = pattern.search(text, end)
