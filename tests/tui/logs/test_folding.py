"""Rows that stand for several lines hide no error of another rank."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpuwatch import wire
from gpuwatch.tui.logs.data.buffer import Buffer
from gpuwatch.tui.logs.data.folding import Fold, Folder
from gpuwatch.tui.logs.data.merge import Merge
from gpuwatch.tui.logs.data.rows import RowModel
from gpuwatch.tui.logs.data.sources import LogSource
from tests.tui.logs.log_nodes import FakeFile, LogSession, clock

PATH = "/logs/launch.log"


def followed(session: LogSession, *sources: LogSource) -> list[Buffer]:
    buffers = [Buffer(source, session) for source in sources]
    for buffer in buffers:
        buffer.follow()
    session.poll()
    for buffer in buffers:
        buffer.pull()
    return buffers


def merged_rows(lines: Mapping[int, list[str]]) -> list[Fold]:
    """The rows in the merged view of some ranks' lines."""
    session = LogSession({"gpu-001": [FakeFile(f"/logs/{rank}", [rank]) for rank in lines]})
    for rank, own in lines.items():
        session.write("gpu-001", f"/logs/{rank}", "\n".join(own))
    merge = Merge(followed(session, *(LogSource("gpu-001", f"/logs/{rank}", rank) for rank in lines)))
    merge.sync()
    sheet = RowModel()
    sheet.across = True
    sheet.sync(merge)
    return sheet.rows


def merged_counts(of_rank_9: str, of_rank_3: str) -> list[int]:
    """How many lines each row folds, of two ranks that log a line each at one time."""
    lines = {9: [f"{clock(1)} {of_rank_9}"], 3: [f"{clock(1)} {of_rank_3}"]}
    return [row.count for row in merged_rows(lines)]


def test_a_fold_of_several_ranks_hides_no_other_error() -> None:
    errors = (
        "ERROR NVRM: Xid (PCI:0000:3b:00): 13, pid 9",
        "ERROR NVRM: Xid (PCI:0000:3c:00): 79, pid 3",
    )
    assert merged_counts(*errors) == [1, 1]


def test_a_traceback_takes_in_no_line_of_another_rank() -> None:
    session = LogSession({"gpu-001": [FakeFile(PATH, [])]})
    lines = [
        "[rank9]: Traceback (most recent call last):",
        '[rank9]:   File "a.py", line 1, in f',
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory",
        "[rank9]: ValueError: x",
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "ValueError: y",
    ]
    session.write("gpu-001", PATH, "\n".join(lines))
    [buffer] = followed(session, LogSource("gpu-001", PATH))
    sheet = RowModel()
    sheet.sync(buffer)
    assert [(buffer.line(row.key).text, row.count) for row in sheet.rows] == [
        (lines[3], 3),
        (lines[2], 1),
        (lines[6], 3),
    ]


def test_ordinary_lines_without_a_time_are_not_folded_over_ranks() -> None:
    rows = merged_rows({rank: ["step 75/1000 loss 4.9250"] for rank in range(2)})
    assert [row.ranks for row in rows] == [{0}, {1}]


@pytest.mark.parametrize("said", ["step {}/1000 | loss {}", "iter: {} loss {}", "| {}/9 [{}it/s]", "[{}] {}"])
def test_a_rank_that_logs_the_next_step_is_missing_in_no_row(said: str) -> None:
    def line(rank: int, step: int) -> str:
        return f"{clock(int(0.53 * step + 0.09 * rank))} {said.format(step, f'{3 - 0.01 * step + rank:.4f}')}"

    rows = merged_rows({rank: [line(rank, step) for step in range(1, 40 - (rank == 2))] for rank in range(4)})
    assert not any(row.lacks(rank) for row in rows[:-4] for rank in range(4))
    assert rows[-1].lacks(2), "it has not logged the last step"
    if "[{}] {}" not in said:
        assert [row.ranks for row in rows] == [{0, 1, 2, 3}] * 38 + [{0, 1, 3}]


@pytest.mark.parametrize("other", ["  [rank3]: {}", "[1,3]<stderr>:{}", "3: {}", "(rank 3) {}"])
def test_a_traceback_takes_in_no_line_in_front_of_which_another_rank_stands(other: str) -> None:
    error = other.format("torch.OutOfMemoryError: CUDA out of memory")
    lines = ["[rank9]: Traceback (most recent call last):", '[rank9]:   File "a.py", line 1, in f', error]
    session = LogSession({"gpu-001": [FakeFile(PATH, [])]})
    session.write("gpu-001", PATH, "\n".join([*lines, "[rank9]: ValueError: x"]))
    [buffer] = followed(session, LogSource("gpu-001", PATH))
    sheet = RowModel()
    sheet.sync(buffer)
    assert (error, 1) in [(buffer.line(row.key).text, row.count) for row in sheet.rows]


def test_faults_of_two_gpus_are_two_rows() -> None:
    faults = "GPU 3 has 1 uncorrectable errors", "GPU 5 has 9 uncorrectable errors"
    assert merged_counts(*faults) == [1, 1]


@pytest.mark.parametrize(
    ("ats", "rules", "rows"),
    [
        ((0.0, 0.8, 1.6, 2.4), "----", 1),  # each follows another
        ((0.0, 3.0, 6.0, 9.0), "x--x", 1),  # a rule was found before some of the lines were sent
        ((0.0, 3.0, 6.0, 9.0), "----", 4),
    ],
)
def test_one_message_of_many_ranks_is_one_row_however_its_lines_arrive(
    ats: tuple[float, ...], rules: str, rows: int
) -> None:
    folded: list[Fold] = []
    folder = Folder(folded, across=True)
    for rank, (at, rule) in enumerate(zip(ats, rules, strict=True)):
        said = wire.LogLine(0, 9, f"  what():  Rank {rank} ended", rule=rule.strip("-") or None)
        folder.add(2 * rank, said, rank, at)
        folder.add(2 * rank + 1, wire.LogLine(9, 18, f"other {'words' * rank}"), rank, at)
    said_by = [row.ranks for row in folded if row.first % 2 == 0]
    assert (len(said_by), set().union(*said_by)) == (rows, {0, 1, 2, 3})
