"""Ranks state the same as the cause only if they ended in the same way, and not because they lost a peer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.placement.culprits import first_incident

LOST = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer\n"
HEAD = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\nFailures:\n"


def entry(rank: int, code: int, second: int) -> str:
    """An entry of the table that torchrun prints on each node, of a job with two ranks on each of three."""
    return (
        f"[{rank}]:\n  time      : 2026-11-23_00:50:{second:02}\n  host      : n{rank // 2}\n"
        f"  rank      : {rank} (local_rank: {rank % 2})\n  exitcode  : {code} (pid: {70 + rank})\n"
        "  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org/docs/stable\n"
    )


@pytest.mark.parametrize(
    ("codes", "lost", "same"),
    [
        ({2: 17, 0: 1, 1: 1, 4: 1}, "", 0),
        ({2: 1, 0: 1, 1: 1, 4: 1}, LOST, 0),
        ({2: 17, 3: 1}, LOST, 0),
        ({2: 17, 0: 17, 1: 17}, LOST, 2),
        ({2: -9, 0: -9, 1: -9}, LOST, 2),
        ({2: 1, 0: 1, 1: 1}, "", 2),
    ],
)
def test_only_the_same_end_is_counted(tmp_path: Path, codes: dict[int, int], lost: str, same: int) -> None:
    first, *others = codes
    text = (
        HEAD + entry(first, codes[first], 3) + lost + "".join(entry(rank, codes[rank], 5) for rank in others)
    )
    incident = first_incident(tmp_path, {"d3.log": text})
    assert incident.rank == first
    assert ("same" in incident.headline) == (same > 0)
    assert f"{same} more ranks" in incident.headline or not same
    assert "ranks there" not in incident.headline or same
