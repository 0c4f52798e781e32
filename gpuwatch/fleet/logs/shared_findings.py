"""A line in a shared file is one finding, whichever nodes read the file one after another."""

from __future__ import annotations

from typing import TypeAlias

from gpuwatch.fleet.logs.twins import TWIN
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import Finding

FindingKey: TypeAlias = tuple[str, float, int]
"""Node, which life of its agent, the finding's id."""
MAX_FINDINGS = 20_000


class SharedFindings:
    """Knows by which key a finding of a shared file was reported first."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str, str, str, int, str], FindingKey] = {}
        self._local: dict[tuple[str, str, str, str, int, str], FindingKey] = {}
        """By path instead of identity: the file may turn out to be one that another node sees too."""

    def first(self, key: FindingKey, node: Node, finding: Finding) -> FindingKey:
        """The key of the same finding as another node has reported it; else `key`, which is remembered.

        One of another severity or role is another one: no node can play down what others find.
        """
        identity = next((one.identity for one in node.logs if one.path == finding.file), None)
        text = finding.lines[finding.key] if finding.key < len(finding.lines) else ""
        what = finding.rule, finding.severity, finding.role, finding.offset, text
        if identity is None:
            self._local.setdefault((finding.file, *what), key)
            return key
        before = self._local.get((finding.file, *what), key) if identity.startswith(TWIN) else key
        known = self._first.setdefault((identity, *what), before)
        for kept in (self._first, self._local):
            if len(kept) > MAX_FINDINGS:
                del kept[next(iter(kept))]
        return known if known[0] != key[0] else key
