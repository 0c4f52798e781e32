"""The end of a run on several nodes, of which one ends last: what it states is counted, and counted once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from gpuwatch.cli.run.monitoring.other_nodes import final_parts
from gpuwatch.runs.sessions.find import find_sessions
from gpuwatch.telemetry.session.folder import SessionFolder, create_session_folder
from gpuwatch.telemetry.session.summary import merge_parts, write_part, write_summary


def part_of_node(count: int, *, final: bool) -> dict[str, Any]:
    warning = {"class": "oom.cuda", "severity": "critical", "count": count}
    ranks = [{"rank": 1, "node": "node-1", "exit_code": 0}]
    return {"node_rank": 1, "final": final, "ranks": ranks if final else [], "warnings": [warning]}


def write_end(folder: SessionFolder, parts: dict[str, dict[str, Any]]) -> None:
    """The summary of node rank 0."""
    own = {"id": folder.id, "status": "completed", "ranks": [{"rank": 0, "node": "node-0"}]}
    write_summary(folder, {**merge_parts(own, list(parts.values())), "parts": sorted(parts)})


def shown(folder: SessionFolder) -> tuple[list[int | None], list[int | None]]:
    """The ranks of the session, and the counts of its warnings."""
    (session,) = find_sessions((), folder.path.parent).sessions
    summary = session.summary
    return [rank.rank for rank in summary.ranks or ()], [each.count for each in summary.warnings or ()]


def test_a_node_that_ends_after_the_summary_is_in_the_session_once(tmp_path: Path) -> None:
    folder = create_session_folder(tmp_path, 1.0)
    write_part(folder.node_part(1), part_of_node(2, final=False))
    write_end(folder, final_parts(folder.path, "node-0", wait_s=0.0))
    assert shown(folder) == ([0], [2]), "as far as it is known"
    write_part(folder.node_part(1), part_of_node(3, final=True))
    assert shown(folder) == ([0, 1], [3])


def test_a_node_that_ends_a_little_later_is_in_the_summary(tmp_path: Path) -> None:
    folder = create_session_folder(tmp_path, 1.0)
    write_part(folder.node_part(1), part_of_node(2, final=False))
    found: list[dict[str, dict[str, Any]]] = []
    waiting = threading.Thread(target=lambda: found.append(final_parts(folder.path, "node-0", wait_s=60.0)))
    waiting.start()
    write_part(folder.node_part(1), part_of_node(3, final=True))
    waiting.join(60.0)
    write_end(folder, found[0])
    assert shown(folder) == ([0, 1], [3])
    assert sorted(found[0]) == ["node_001.json"]


def test_a_killed_rank_of_this_node_holds_nothing_up_and_one_of_another_node_stays_open(
    tmp_path: Path,
) -> None:
    folder = create_session_folder(tmp_path, 1.0)
    for rank, node in enumerate(("node-0", "node-1")):
        write_part(
            folder.rank_part(rank), {"rank": rank, "final": False, "ranks": [{"rank": rank, "node": node}]}
        )
    assert list(final_parts(folder.path, "node-0", wait_s=0.0)) == ["rank_0000.json"]
    write_part(folder.rank_part(1), {"rank": 1, "final": True, "ranks": [{"rank": 1, "node": "node-1"}]})
    assert len(final_parts(folder.path, "node-0", wait_s=60.0)) == 2
