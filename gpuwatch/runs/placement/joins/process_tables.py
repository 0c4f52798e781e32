"""Reads process trees and the ranks of processes: `ps`, `pstree -p`, /proc/PID/status, `lsof`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuwatch.agent.ranks.path_ranks import ranks_of_path

MAX_ROWS = 4_096
MAX_DEPTH = 24
"""Generations between a process and its rank."""
_HEADING = re.compile(r"(?=.{0,200}\bPID\b)(?=.{0,200}\b(?:PPID|CMD|COMMAND|ARGS)\b)[A-Z%+_\s]{6,200}$")
_FILES = re.compile(
    r"COMMAND +PID +(?:TID +(?:TASKCMD +)?)?USER +FD +TYPE +DEVICE +SIZE/OFF +(?:NLINK +)?NODE +NAME *$"
)
"""The heading of `lsof`."""
_WRITTEN = re.compile(r"\d{1,6}[wu]\w?$")
_STATED = re.compile(r"\s(?:--rank[= ]|RANK=)(\d{1,6})(?=\s|$)")
"""The global rank in a command or, as of `ps e`, in the environment behind it."""
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


def ranks_in(lines: Sequence[str]) -> dict[int, int]:
    """Return pid -> rank as tables show it, by the command of a process or the log that it writes."""
    found: dict[int, set[int]] = {}
    for pid, rank in (*_by_command(lines), *_by_log(lines)):
        if len(found) < MAX_ROWS:
            found.setdefault(pid, set()).add(rank)
    return {pid: next(iter(ranks)) for pid, ranks in found.items() if len(ranks) == 1}


def _by_command(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield (pid, rank) of the rows of `ps` whose command states a rank."""
    pid_at: int | None = None
    for line in lines[:MAX_ROWS]:
        text = line[:1000].rstrip()
        if "PID" in text and _HEADING.match(text.strip()):
            pid_at = text.split().index("PID")
            continue
        cells = [] if pid_at is None else text.split(None, pid_at + 1)
        if pid_at is None or len(cells) <= pid_at or not cells[pid_at].isdecimal():
            pid_at = None
            continue
        stated = {int(number) for number in _STATED.findall(text)}
        if len(stated) == 1:
            yield int(cells[pid_at]), stated.pop()


def _by_log(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield (pid, rank) of the rows of `lsof` for files that are written and are a rank's by their path."""
    columns: list[str] = []
    for line in lines[:MAX_ROWS]:
        text = line[:1000].rstrip().removesuffix(" (deleted)")
        if _FILES.match(text):
            columns = text.split()
            continue
        cells = text.split() if columns else []
        if len(cells) < 8 or not cells[1].isdecimal():
            continue
        rank = ranks_of_path(cells[-1])[0] if cells[-1].startswith("/") else None
        if rank is not None and any(_WRITTEN.match(cell) for cell in cells[3:6]):
            yield int(cells[1]), rank


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
