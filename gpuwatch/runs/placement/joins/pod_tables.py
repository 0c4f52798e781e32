"""Reads the nodes of pods from `kubectl get pods -o wide`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuwatch.runs.model.clues import Clue
from gpuwatch.runs.placement.rank_line_patterns import POD

MAX_ROWS = 4_096
_ROW = re.compile(
    rb"\s{0,4}(?:[a-z0-9-]{1,63}\s{1,40})?(?P<pod>[a-z0-9][a-z0-9.-]{0,252})\s{1,60}\d{1,3}/\d{1,3}\s.{1,120}?\s"
    rb"(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9a-f:]{3,39}:[0-9a-f]{0,4})\s{1,40}(?P<node>[A-Za-z0-9][\w.-]{0,252})(?:\s|$)"
)
"""A row: perhaps a namespace, the pod, how many containers are ready, and a node behind an address."""


def nodes_of_pods(file: str, lines: Sequence[bytes]) -> Iterator[Clue]:
    """Yield the node of each pod that a table lists, as a clue with the pod as address."""
    in_table = False
    for raw in lines[:MAX_ROWS]:
        if b"NAME" in raw and b"NODE" in raw and b"STATUS" in raw:
            in_table = True
        elif in_table:
            row = _ROW.match(raw[:600])
            in_table = row is not None or b"<none>" in raw
            if row is not None:
                yield Clue(
                    file, "launcher's mapping", row["node"].decode(), address=POD + row["pod"].decode()
                )
