"""A search over many files: no file's matches take the place of all others', and none is cut without need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuwatch.agent.logs.queries.search import SearchPlan, search


def hits(files: dict[str, int], folder: Path, limit: int, pattern: str = "boom") -> dict[str, list[int]]:
    """Search files with so many matching lines each; the numbers of the lines that were found."""
    for name, count in files.items():
        text = "".join(f"step {number}\nboom {number}\n" for number in range(count))
        (folder / name).write_text(text)
    frames: list[dict[str, Any]] = []
    plan = SearchPlan({"id": 1, "pattern": pattern, "limit": limit})
    search(plan, [str(folder / name) for name in files], frames.append)
    assert frames[-1]["done"]
    found: dict[str, list[int]] = {name: [] for name in files}
    for frame in frames:
        found.setdefault(Path(frame["file"]).name, []).extend(
            int(row[2].split()[1]) for row in frame.get("lines") or []
        )
    found["error"] = [1] if frames[-1].get("error") else []
    return found


@pytest.mark.parametrize("pattern", ["boom", "bo+m|bang"])
def test_a_chatty_file_leaves_the_others_their_matches(tmp_path: Path, pattern: str) -> None:
    found = hits({"a": 3000, "b": 3, "c": 40}, tmp_path, 100, pattern)
    assert [len(found[name]) for name in "abc"] == [57, 3, 40]
    assert found["a"] == list(range(57))
    assert found["error"]  # it says that there are more


def test_a_single_chatty_file_gets_all_that_the_others_leave(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(20)]
    for chatty in ("f0", "f19"):
        found = hits(dict.fromkeys(names, 0) | {chatty: 500}, tmp_path, 100)
        assert found[chatty] == list(range(100))


def test_all_matches_come_once_where_there_is_room(tmp_path: Path) -> None:
    found = hits({"a": 50, "b": 1, "c": 30}, tmp_path, 200)
    assert [found[name] for name in "abc"] == [list(range(50)), [0], list(range(30))]
    assert not found["error"]


def test_more_files_than_matches_are_reported(tmp_path: Path) -> None:
    found = hits({f"f{number}": 2 for number in range(10)}, tmp_path, 4)
    assert sum(len(found[f"f{number}"]) for number in range(10)) == 4
    assert found["error"]
