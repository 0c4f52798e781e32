"""How many findings are kept: the oldest of the node that has most of them go first."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwatch.fleet.logs.shared_findings import FindingKey
from gpuwatch.wire import Finding

MAX_FINDINGS = 20_000
"""Of the whole fleet."""
MAX_CHARACTERS = 8_000_000
"""Of the lines, fields and names of one node's findings."""


class FindingRoom:
    """Knows how much text each node's findings hold, in the order in which they came."""

    def __init__(self) -> None:
        self._characters: dict[str, dict[FindingKey, int]] = {}
        self._totals: dict[str, int] = {}
        self._count = 0

    def surplus(self, key: FindingKey, finding: Finding) -> Iterator[FindingKey]:
        """Count a finding that is kept under `key`; the findings to drop for it."""
        node = key[0]
        mine = self._characters.setdefault(node, {})
        self._count += key not in mine
        size = _characters(finding)
        self._totals[node] = self._totals.get(node, 0) + size - mine.get(key, 0)
        mine[key] = size
        while self._count > MAX_FINDINGS:
            yield self._pop_oldest(max(self._characters, key=lambda name: len(self._characters[name])))
        while self._totals[node] > MAX_CHARACTERS and len(mine) > 1:
            yield self._pop_oldest(node)

    def forget(self, node: str) -> None:
        """Count nothing of a node any longer."""
        self._count -= len(self._characters.pop(node, {}))
        self._totals.pop(node, None)

    def _pop_oldest(self, node: str) -> FindingKey:
        oldest = next(iter(self._characters[node]))
        self._totals[node] -= self._characters[node].pop(oldest)
        self._count -= 1
        return oldest


def _characters(finding: Finding) -> int:
    texts = [*finding.lines, finding.file, finding.rule, *finding.fields]
    texts += [value for value in finding.fields.values() if isinstance(value, str)]
    return sum(map(len, texts))
