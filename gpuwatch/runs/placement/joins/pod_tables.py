"""Reads the nodes of pods from `kubectl get pods -o wide`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuwatch.runs.model.clues import Clue
from gpuwatch.runs.placement.rank_line_patterns import POD

MAX_ROWS = 4_096


def nodes_of_pods(file: str, lines: Sequence[bytes]) -> Iterator[Clue]:
    """Yield the node of each pod that a table lists, as a clue with the pod as address."""
    columns: tuple[int, int] | None = None
    for raw in lines[:MAX_ROWS]:
        if b"NAME" in raw and b"NODE" in raw and b"STATUS" in raw:
            heading = raw.decode("utf-8", "replace")
            columns = heading.index("NAME"), heading.index("NODE")
        elif columns is not None:
            text = raw[:600].decode("utf-8", "replace")
            name, node = (_cell(text, column) for column in columns)
            if not name:
                columns = None
            elif node and node[0] != "<":
                yield Clue(file, "launcher's mapping", node, address=POD + name)


def _cell(text: str, column: int) -> str:
    """Return the word at a column of a table whose columns are aligned."""
    if column and text[column - 1 : column].strip():
        return ""
    return next(iter(text[column:].split(None, 1)), "")
