"""A real DDP training of two gloo ranks with all of the library on: what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.telemetry.session.folder import SessionFolder
from tests.end_to_end.cluster import ROOT
from tests.parts import SEEN_BY_EVERY_AGENT, need_torch

pytestmark = SEEN_BY_EVERY_AGENT
JOB = Path(__file__).with_name("two_ranks_job.py")
RANKS = (0, 1)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the job, once it has ended."""
    need_torch()
    folder = tmp_path_factory.mktemp("job")
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    env = {
        **os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
        "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LOCAL_WORLD_SIZE": "2",
    }  # fmt: skip
    argv = [sys.executable, str(JOB), str(folder)]
    jobs = [
        subprocess.Popen(
            argv, env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )
        for rank in RANKS
    ]  # fmt: skip
    try:
        said = [job.communicate(timeout=100)[0] for job in jobs]
    finally:
        for job in jobs:
            job.kill()
    assert [job.returncode for job in jobs] == [0, 0], "\n".join(said)
    yield folder


def result(folder: Path, rank: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"result_{rank}.json").read_text())
    return found


def session(folder: Path) -> SessionFolder:
    (path,) = (folder / "logs").glob("training_*")
    return SessionFolder.existing(path)


def test_both_ranks_write_one_session(left: Path) -> None:
    folder = session(left)
    assert {result(left, rank)["session"] for rank in RANKS} == {folder.id}
    summary = json.loads(folder.summary_json.read_text())
    assert (summary["status"], summary["mode"], summary["backend"]) == ("completed", "multi", "gloo")
    assert (summary["world_size"], summary["node_count"], summary["steps"]) == (2, 1, 20)
    assert [(each["rank"], each["steps"]) for each in summary["ranks"]] == [(0, 20), (1, 20)]
    assert summary["parts"] == ["rank_0001.json"]
    assert summary["samples_per_s"] == pytest.approx(16 * summary["steps_per_s"])
    assert summary["model"]["parameters"] == 32 * 16 + 16 + 16 * 4 + 4
    assert summary["final_loss"] is not None


def test_the_logs_show_a_run_of_several_ranks(left: Path) -> None:
    """Document 002, lines 26 to 53 and 63 to 83: the signs of a training on several GPUs."""
    folder = session(left)
    main, multi = folder.main_log.read_text(), folder.multigpu_log.read_text()
    assert "Mode: MULTI-GPU" in main
    assert "Accelerator processes: 2" in main
    assert "Step   10/20 (50.0%) | Loss: " in main
    assert "backend: gloo" in multi
    step = "| Multi-GPU Step 20 | Processes: 2 | Local rank: 0 | Process index: 0"
    assert step in multi
    assert "| Communication | gradient_sync | Rank 0 | Count: 5 | Size: " in multi
    assert "| Communication | all_reduce | Rank 0 | Count: 5 | Size: 0.020000MB | Duration: " in multi
    assert re.findall(r"size: (\d+)", folder.performance_log.read_text()) == ["16", "16"]


def test_the_communication_of_a_rank_is_measured(left: Path) -> None:
    """Document 003, line 317: `get_stats().to_dict()`."""
    stats = result(left, 1)["communication"]
    gradients = stats["operations"]["gradient_sync"]
    assert (gradients["count"], gradients["bytes_total"]) == (20, 20 * 596 * 4)
    assert gradients["time_total_s"] > 0
    assert gradients["bandwidth_avg_bps"] == pytest.approx(
        gradients["bytes_total"] / gradients["time_total_s"]
    )
    assert stats["operations"]["all_reduce"]["bytes_total"] == 20 * 4000
    summary = json.loads(session(left).summary_json.read_text())
    shares = summary["communication"]
    sync = next(each for each in shares if each["operation"] == "gradient_sync")
    assert (sync["count"], sync["ranks"]) == (40, [0, 1])
    assert 0 < sync["share_of_step_time"] < 1
    start = next(each for each in shares if each["operation"] == "training_start")
    assert (start["count"], start["ranks"]) == (1, [0])
    assert summary["profile"]["step"] == 10
    assert summary["profile"]["communication_ms"] > 0


def test_ranks_are_compared(left: Path) -> None:
    """Document 000, lines 36 and 53."""
    for rank in RANKS:
        found = result(left, rank)
        assert found["layers"] == ["0.weight", "0.bias", "2.weight", "2.bias"]
        assert (found["grads_differ"], found["params_differ"]) == (0, [])
        assert found["changed"] == [["2.bias", [1]]]
        assert found["overlaps"] == {"10": [0, 1]}
    assert result(left, 0)["norm"] == result(left, 1)["norm"]
    summary = json.loads(session(left).summary_json.read_text())
    classes = {each["class"] for each in summary["warnings"]}
    assert {"ranks.params_differ", "data.overlap"} <= classes


def test_the_files_of_all_ranks(left: Path) -> None:
    """Document 001, lines 308 to 323."""
    everything = json.loads((left / "out" / "telemetry_callback_all_ranks.json").read_text())
    assert list(everything) == ["rank0000", "rank0001"]
    assert {each["timers"]["steps"]["count"] for each in everything.values()} == {20}
    names = {f"telemetry_callback_{name}.json" for name in ("rank0000", "rank0001", "metrics_rank0000")}
    assert names < {path.name for path in (left / "out").iterdir()}


def test_one_trace_holds_the_sections_of_all_ranks(left: Path) -> None:
    """Document 004, lines 612 to 625.

    Document 004, line 578.
    """
    events = json.loads((left / "traces.json").read_text())
    assert len(events) == 2 * 2 * 20
    assert {(each["name"], each["cat"], each["pid"]) for each in events} == {
        (name, f"rank_{rank}", rank) for name in ("forward_pass", "backward_pass") for rank in RANKS
    }
    assert {(each["ph"], each["tid"]) for each in events} == {("X", 0)}
    first, last = events[0]["ts"], events[-1]["ts"] + events[-1]["dur"]
    assert 0 < (last - first) / 1e6 < 100
    assert first / 1e6 > 1.7e9, "unix time in microseconds"


def test_each_rank_leaves_a_profile(left: Path) -> None:
    """Document 004, lines 78 to 97, document 001, lines 124 to 135."""
    for rank in RANKS:
        (trace,) = (left / "profiler" / f"rank_{rank}").glob("*.pt.trace.json")
        assert json.loads(trace.read_text())["traceEvents"]
    assert "aten::" in result(left, 0)["table"]


def test_each_rank_has_its_log(left: Path) -> None:
    for rank in RANKS:
        text = (left / "rank_logs" / f"rank_{rank}.log").read_text()
        assert f" - Rank {rank} - rank_{rank} - INFO - Step   20/20" in text
        assert f"Rank {rank}: Starting all_reduce" in text
        assert f"Rank {rank}: all_reduce complete" in text
        assert "Profiler | step 10 | computation: " in text
    assert "Cross-Rank Statistics:" in (left / "rank_logs" / "rank_0.log").read_text()
