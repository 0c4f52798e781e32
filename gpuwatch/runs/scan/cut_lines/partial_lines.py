"""Joins the pieces into which a container runtime cuts a long line (CRI: `P` for a part, `F` for the last).

Example: `... stderr P CUDA out of` and `... stderr F  memory` become one line in place of the first. The
second line becomes blank, so that the data keeps its size.
"""

from __future__ import annotations

import re

_PART = re.compile(rb"(?m)^\d{4}-\d\d-\d\dT\S{1,40} std(?:err|out) P ")
_LINE = re.compile(
    rb"(?P<head>\d{4}-\d\d-\d\dT\S{1,40} (?P<stream>std(?:err|out)) (?P<tag>[PF]) )(?P<text>[^\r\n]*)"
)
PARTIAL_MARKS = (b"stdout P ", b"stderr P ")
"""Texts of which data with pieces of a cut line contains at least one."""
MAX_JOINED = 1 << 16
"""Longest line in bytes that is joined; further pieces stay lines of their own."""


def joined_partials(data: bytes) -> bytes:
    """Return complete lines in which the pieces of a cut line are joined; the size is unchanged."""
    if b" P " not in data or _PART.search(data) is None:
        return data
    lines: list[bytes] = []
    open_at: dict[bytes, int] = {}
    for raw in data.splitlines(keepends=True):
        found = _LINE.match(raw)
        if found is None:
            lines.append(raw)
            continue
        stream, at = found["stream"], open_at.get(found["stream"])
        if at is None or len(lines[at]) + len(found["text"]) > MAX_JOINED:
            lines.append(raw)
            at = len(lines) - 1
        else:
            body = lines[at].rstrip(b"\r\n")
            lines[at] = body + found["text"] + lines[at][len(body) :]
            lines.append(b" " * len(found["head"]) + raw[found.end() :])
        if found["tag"] == b"P":
            open_at[stream] = at
        else:
            open_at.pop(stream, None)
    return b"".join(lines)
