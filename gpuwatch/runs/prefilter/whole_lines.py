"""Recognises shapes that contain the message of a line unchanged, so that patterns can be tried on them.

Other lines are taken apart or joined before they are searched: kernel lines, lines with mpirun's tags or the
prefixes of two ranks, and JSON records whose message is made of several fields.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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
_SPACES = rb"\s*"
SIGNS = (
    rb"kernel",
    rb"\]<std",
    rb"(?:^|\n)<>",
    rb"rank[^\"a-z\n].*rank[^\"a-z\n]",
    _KERNEL_TIME.pattern,
    _COLUMNS.pattern,
    _DEFAULTS.pattern,
    _OUTCOME.pattern,
    _EXCEPTION.pattern.replace(_SPACES, rb"[^\S\n]*"),
)
"""Expressions of which each refused shape of ordinary length in ASCII matches one, whatever its case.

Each is searched in many lines together, of which a match may begin with the end of the line before.
"""


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


def refused_by_bytes(shapes: Sequence[bytes], text: bytes) -> set[bytes]:
    """Return the shapes that are too long to be tried, or have other digits; `text`: all shapes as lines."""
    refused: set[bytes] = set()
    if max(map(len, shapes), default=0) > MAX_TRIED:
        refused.update(shape for shape in shapes if len(shape) > MAX_TRIED)
    if not text.isascii() and OTHER_DIGIT_OR_SPACE.search(text) is not None:
        refused.update(filter(has_other_digits, shapes))
    return refused
