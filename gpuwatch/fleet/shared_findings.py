"""A line in a shared file is one finding, whichever nodes read the file one after another."""

from __future__ import annotations

from typing import TypeAlias

from gpuwatch.fleet.node import Node
from gpuwatch.wire import Finding

FindingKey: TypeAlias = tuple[str, float, int]
"""Node, which life of its agent, the finding's id."""
KEPT = 20_000


class SharedFindings:
    """Knows by which key a finding of a shared file was told first."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str, int, str], FindingKey] = {}

    def first(self, key: FindingKey, node: Node, finding: Finding) -> FindingKey:
        """The key of the same finding as another node has told it; else `key`, which is remembered."""
        identity = next((one.identity for one in node.logs if one.path == finding.file), None)
        if identity is None:
            return key
        text = finding.lines[finding.key] if finding.key < len(finding.lines) else ""
        known = self._first.setdefault((identity, finding.rule, finding.offset, text), key)
        if len(self._first) > KEPT:
            del self._first[next(iter(self._first))]
        return known if known[0] != key[0] else key
