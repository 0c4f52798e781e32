"""Which ranks the words `failed` and `slowest` mean now."""

from __future__ import annotations

from gpuwatch.tui.scene import Scene


def failed_ranks(scene: Scene) -> list[int]:
    """Ranks with errors in their logs, the first one first; echoes of another's failure come last."""
    found: dict[int, tuple[bool, float]] = {}
    for told in scene.fleet.findings.values():
        finding = told.finding
        if finding.rank is None or finding.closed or finding.severity not in ("error", "critical"):
            continue
        node = scene.fleet.nodes.get(told.node)
        at = finding.at - (node.clock.offset_s if node and node.clock else 0.0)
        key = (finding.role in ("echo", "hint"), at)
        found[finding.rank] = min(found.get(finding.rank, key), key)
    return sorted(found, key=lambda rank: found[rank])


def silent_ranks(scene: Scene) -> list[int]:
    """Ranks by how long their own logs have not grown, the longest first."""
    grown: dict[int, float] = {}
    for node in scene.fleet.nodes.values():
        offset = node.clock.offset_s if node.clock else 0.0
        for file in node.logs:
            if len(file.ranks) == 1 and file.grown_at is not None:
                rank, at = file.ranks[0], file.grown_at - offset
                grown[rank] = max(grown.get(rank, at), at)
    return sorted(grown, key=lambda rank: grown[rank])
