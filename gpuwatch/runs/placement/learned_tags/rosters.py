"""Reads lists of a job's hosts by the numbers of its processes: `2 gpu-r07 up`. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

MIN_ROWS = 3
_HOST = r"(?P<host>(?=[\w.-]{0,80}\d)[A-Za-z][\w.-]{1,80}\w)"
_ROWS = (
    re.compile(
        r"\W{0,2}(?P<n>\d{1,5})(?: ?[:=|)>\]-]{1,2})? {1,8}(?:(?:on|at|is|host|node|up)[ :=]{1,2})?"
        + _HOST
        + r"(?P<rest>[\s,;:|].{0,60})?$"
    ),
    re.compile(
        r"\W{0,2}(?:host |node )?" + _HOST + r" ?(?:=|->|=>|:|#|is|gets|as)? ?#?(?P<n>\d{1,5})(?P<rest>)$"
    ),
)
"""A number with a host, and the reverse."""
_DIGITS = re.compile(r"\d+")


def roster(files: Mapping[str, Sequence[bytes]]) -> dict[int, str]:
    """Return number -> host, if lines of one form list hosts by the numbers from 0 on, once each; else {}.

    Each host has as many numbers as the others, one after the other. Two different lists cancel each other.
    """
    lists = [rows for lines in files.values() for rows in _in_file(lines)]
    return lists[0] if lists and all(each == lists[0] for each in lists) else {}


def _in_file(lines: Sequence[bytes]) -> list[dict[int, str]]:
    forms: dict[tuple[int, str], list[tuple[int, str]]] = defaultdict(list)
    for line in lines:
        if len(line) > 160:
            continue
        text = line.decode("utf-8", "replace").strip()
        for kind, row in enumerate(_ROWS):
            found = row.match(text)
            if found is not None:
                forms[kind, _DIGITS.sub("0", found["rest"] or "")].append((int(found["n"]), found["host"]))
                break
    return [dict(rows) for rows in forms.values() if _is_whole(rows)]


def _is_whole(rows: Sequence[tuple[int, str]]) -> bool:
    numbers = [number for number, _ in rows]
    if len(rows) < MIN_ROWS or sorted(numbers) != list(range(len(rows))):
        return False
    hosts = [host for _, host in sorted(rows)]
    each = len(rows) // len(set(hosts))
    return len(set(hosts)) > 1 and all(
        len(set(hosts[at : at + each])) == 1 for at in range(0, len(hosts), each)
    )
