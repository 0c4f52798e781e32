"""Lines that state again where a rank runs cost no search, and another rank's line is not taken for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.agent.logs.matching.candidate import CandidateLine
from gpuwatch.agent.logs.scanning import line_findings
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Where the lines stand that are searched by rules."""
    begins: list[int] = []

    class Counted(CandidateLine):
        def __init__(self, *args: object) -> None:
            begins.append(args[1])  # type: ignore[arg-type]
            super().__init__(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(line_findings, "CandidateLine", Counted)
    yield begins


def lines_of(rank: int, count: int) -> str:
    return "".join(
        f"2025-06-01 12:00:{at % 60:02} rank {rank} host=gpu-00{rank} step {at + 1000} loss 2.{at % 10}\n"
        for at in range(count)
    )


def test_a_line_that_states_the_same_place_is_searched_once(tmp_path: Path, searched: list[int]) -> None:
    (tmp_path / "train.log").write_text(lines_of(3, 2_000))
    found = scan(gather([tmp_path]), load_packs().all, engine="agent", cores=1)
    assert [(place.rank, place.node) for place in found.places.ranks] == [(3, "gpu-003")]
    assert len(searched) < 20


def test_another_rank_in_a_line_of_the_same_shape_is_found(tmp_path: Path, searched: list[int]) -> None:
    (tmp_path / "train.log").write_text("".join(lines_of(rank, 300) for rank in (3, 4, 3, 5)))
    found = scan(gather([tmp_path]), load_packs().all, engine="agent", cores=1)
    places = {place.rank: place.node for place in found.places.ranks}
    assert places == {3: "gpu-003", 4: "gpu-004", 5: "gpu-005"}
    assert len(searched) < 60
