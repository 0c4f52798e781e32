"""A task that waits in the kernel for a file server that is gone belongs to the incident of that server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.ended_logs import report

SERVER = "Mar 04 10:00:0{} n7 kernel: nfs: server filer3 not responding, still trying\n"
TASK = "Mar 04 10:{} n7 kernel: INFO: task trainer:4410 blocked for more than 245 seconds.\n"


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        (SERVER.format(0) + SERVER.format(1) + TASK.format("16:30"), ["storage.nfs"]),
        (SERVER.format(0) + TASK.format("59:30"), ["storage.nfs", "kernel.hung_task"]),
    ],
)
def test_one_fault_of_a_server_is_one_incident(tmp_path: Path, lines: str, codes: list[str]) -> None:
    (tmp_path / "train.log").write_text("2026-03-04 09:59:00 INFO step 10/400 loss 1.2\n")
    (tmp_path / "messages").write_text(lines)
    found = report(tmp_path).incidents
    assert [each.code for each in found] == codes
    assert {each.node for each in found} == {"n7"}
