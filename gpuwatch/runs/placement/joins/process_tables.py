"""Reads which process started which: `ps` with PPIDs or a forest, `pstree -p`, /proc/PID/status. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

MAX_ROWS = 4_096
MAX_DEPTH = 24
"""Generations between a process and its rank."""
_HEADING = re.compile(r"(?=.{0,200}\bPID\b)(?=.{0,200}\b(?:PPID|CMD|COMMAND|ARGS)\b)[A-Z%+_\s]{6,200}$")
_NODE = re.compile(r"[\w.:{}/+-]{1,80}\((\d{2,10})\)")
_STATUS = re.compile(r"^(?P<key>Pid|PPid):\s{1,8}(?P<pid>\d{1,10})\s*$")
_BRANCHES = "|`\u251c\u2514+\u252c"
_LIMB = re.compile(r"\\_ |[|`\u251c\u2514][-\u2500_]{1,3} ?")
"""The drawing before a command in the forest of `ps f` or `ps axjf`."""


def parents_in(lines: Sequence[str]) -> dict[int, int]:
    """Return child -> parent for the processes that tables in these lines list."""
    found: dict[int, int] = {}
    for child, parent in (*_of_tables(lines), *_of_trees(lines), *_of_status(lines)):
        if child != parent and len(found) < MAX_ROWS:
            found[child] = parent
    return found


def ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """Yield parent, grandparent and so on, at most `MAX_DEPTH`; process 1 is left out."""
    for _ in range(MAX_DEPTH):
        above = parents.get(pid)
        if above is None or above < 2:
            return
        yield above
        pid = above


def _of_tables(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield (child, parent) of the rows of `ps`."""
    pid_at = parent_at = None
    above: list[tuple[int, int]] = []
    for line in lines[:MAX_ROWS]:
        text = line[:400].rstrip()
        if "PID" in text and _HEADING.match(text.strip()):
            heading, above = text.split(), []
            pid_at = heading.index("PID")
            parent_at = heading.index("PPID") if "PPID" in heading else None
            continue
        if pid_at is None:
            continue
        cells = text.split(None, max(pid_at, parent_at or 0) + 1)
        if len(cells) <= max(pid_at, parent_at or 0) or not cells[pid_at].isdecimal():
            pid_at = None
            continue
        pid = int(cells[pid_at])
        if parent_at is not None:
            if cells[parent_at].isdecimal():
                yield pid, int(cells[parent_at])
            continue
        limb = _LIMB.search(text)
        depth = 0 if limb is None else limb.start()
        while above and above[-1][0] >= depth:
            above.pop()
        if limb is not None and above:
            yield pid, above[-1][1]
        above.append((depth, pid))


def _of_trees(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield (child, parent) of `pstree -p`."""
    columns: dict[int, int] = {}
    for line in lines[:MAX_ROWS]:
        text = line[:1000]
        previous: int | None = None
        nodes = list(_NODE.finditer(text)) if "(" in text and _is_tree(text) else []
        for node in nodes:
            pid = int(node[1])
            before = text[: node.start()].rstrip("-\u2500")
            parent = previous
            if before[-1:] and before[-1] in _BRANCHES and not text[node.end() :].startswith(" "):
                parent = columns.get(len(before) - 1, previous) if previous is None else previous
            if parent is not None:
                yield pid, parent
            after = text[node.end() : node.end() + 2]
            if after in ("-+", "\u2500\u252c"):
                columns[node.end() + 1] = pid
            previous = pid
        if not nodes:
            columns.clear()


def _is_tree(text: str) -> bool:
    return any(
        mark in text
        for mark in (
            ")-+-",
            ")---",
            "|-",
            "`-",
            "\u2500\u252c\u2500",
            "\u251c\u2500",
            "\u2514\u2500",
            ")\u2500",
        )
    )


def _of_status(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield (child, parent) of copies of /proc/PID/status."""
    pid: int | None = None
    for line in lines[:MAX_ROWS]:
        found = _STATUS.match(line[:60])
        if found is not None and found["key"] == "Pid":
            pid = int(found["pid"])
        elif found is not None and pid is not None:
            yield pid, int(found["pid"])
            pid = None
