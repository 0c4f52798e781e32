"""Severity follows consequence: faults that passed, ends on purpose, lines that say how it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuwatch.report.scan.report import judged, scan_facts
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan

PACKS = load_packs()
STEP = "2026-03-11 09:{:02d}:00 INFO step {} loss 2.0"
CANCELLED = "slurmstepd: error: *** STEP 7.0 ON cn1 CANCELLED AT 2026-03-11T09:20:00{} ***"


def severities(folder: Path, *lines: str) -> dict[str, str]:
    """The severity of each class that a scan of one log tells."""
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    done = scan(gather([folder]), PACKS.all, "agent", cores=1)
    facts: dict[str, Any] = scan_facts(judged(done, PACKS, 1_800_000_000.0, 0.0))
    return {each["class"]: each["severity"] for each in facts["alerts"] + facts["incidents"]}


@pytest.mark.parametrize(
    ("grave", "mild"),
    [
        (
            "RuntimeError: NCCL error: unhandled system error",
            "NCCL error: unhandled system error, falling back to gloo",
        ),
        (
            "graph capture failed: CUDA out of memory",
            "graph capture failed: CUDA out of memory; continuing in eager mode",
        ),
        (
            "OSError: [Errno 98] Address already in use",
            "[Errno 98] Address already in use, trying the next port",
        ),
        (
            "PermissionError: [Errno 13] Permission denied: '/a'",
            "[Errno 13] Permission denied: '/a', using /tmp instead",
        ),
    ],
)
def test_a_line_that_says_how_it_goes_on_is_a_warning_at_most(tmp_path: Path, grave: str, mild: str) -> None:
    more = ["ready", "serving", "idle"]
    assert {"error", "critical"} & set(severities(tmp_path, grave, *more).values())
    assert {"error", "critical"} & set(severities(tmp_path, mild).values())  # it did not go on
    assert not {"error", "critical"} & set(severities(tmp_path, mild, *more).values())


def test_the_last_retry_is_no_retry(tmp_path: Path) -> None:
    line = "OSError: [Errno 98] Address already in use, retrying: all 5 attempts exhausted"
    assert {"error", "critical"} & set(severities(tmp_path, line, "a", "b", "c").values())


def test_a_link_that_came_back_is_a_note_where_nothing_failed(tmp_path: Path) -> None:
    down = "[Wed Mar 11 09:13:33 2026] mlx5_core 0000:18:00.0 ens1: Link down"
    up = "[Wed Mar 11 09:13:35 2026] mlx5_core 0000:18:00.0 ens1: Link up"
    assert severities(tmp_path, down)["net.nic.link"] == "error"
    assert severities(tmp_path, down, up)["net.nic.link"] == "info"
    xid = "[Wed Mar 11 09:15:00 2026] NVRM: Xid (PCI:0000:5d:00): 79, GPU has fallen off the bus."
    assert (
        "error" in severities(tmp_path, down, up, xid).values()
        or "critical" in severities(tmp_path, down, up, xid).values()
    )


def test_a_cancelled_job_is_a_warning(tmp_path: Path) -> None:
    lines = [STEP.format(minute, minute) for minute in range(10, 20)]
    found = severities(tmp_path, *lines, CANCELLED.format(""), "srun: error: cn1: task 0: Terminated")
    assert found["slurm.cancelled"] == "warning"
    assert not {"error", "critical"} & set(found.values())


def test_a_time_limit_costs_nothing_right_after_a_checkpoint(tmp_path: Path) -> None:
    limit = CANCELLED.format(" DUE TO TIME LIMIT")
    steps = [STEP.format(minute, minute) for minute in range(10, 20)]
    saved = "2026-03-11 09:19:30 INFO checkpoint written: step 19"
    early = "2026-03-11 09:01:30 INFO checkpoint written: step 1"
    assert severities(tmp_path, *steps, limit)["slurm.time_limit"] == "error"
    assert severities(tmp_path, *steps, saved, limit)["slurm.time_limit"] == "warning"
    assert severities(tmp_path, early, *steps, limit)["slurm.time_limit"] == "error"


def test_the_crash_of_a_program_of_the_desktop_is_none_of_the_job(tmp_path: Path) -> None:
    line = "[Wed Mar 11 09:13:33 2026] {}[4410]: segfault at 0 ip 00007f1 sp 00007ff error 4 in libc.so.6"
    assert "proc.segfault" in severities(tmp_path, line.format("python3"))
    assert severities(tmp_path, line.format("firefox")) == {}


def test_a_peer_that_left_where_nothing_failed_is_a_warning(tmp_path: Path) -> None:
    lost = "2026-03-11 09:20:00 ERROR RuntimeError: Connection closed by peer [10.8.1.2]:33333"
    assert severities(tmp_path, lost, "a", "b", "c")["peer.connection_lost"] == "warning"
