"""`gpuwatch trace` as it is typed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.running import gpuwatch
from tests.runs.traces.gpu_traces import training
from tests.runs.traces.nccl_dumps import topology


def test_json_has_the_documented_keys(tmp_path: Path) -> None:
    """Document 004, line 255."""
    for rank in range(2):
        packed = gzip.compress(training(rank, slow=1.0 + rank).text().encode())
        (tmp_path / f"worker{rank}.pt.trace.json.gz").write_bytes(packed)
    done = gpuwatch("trace", str(tmp_path), "--json")
    assert done.returncode == 1
    facts = json.loads(done.stdout)
    first = facts["ranks"][0]
    parts = [first[f"{name}_pct"] for name in ("compute", "communication", "memory_copy", "other", "idle")]
    assert sum(parts) == pytest.approx(100, abs=0.01)
    assert (first["rank"], first["exposed_communication_pct"], first["communication_to_compute"]) == (
        0,
        70.0,
        0.4,
    )
    assert facts["comparison"]["straggler"] == 1
    assert {flag["code"] for flag in facts["flags"]} == {"trace.communication_high", "trace.imbalance"}


def test_a_healthy_trace_is_good_news_and_lists_its_operators(tmp_path: Path) -> None:
    path = training(0, slow=1.6).write(tmp_path / "trace.json")
    done = gpuwatch("trace", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "aten::addmm" in done.stdout


@pytest.mark.parametrize("name", ["report.nsys-rep", "kernel.ncu-rep", "rank0.json", "absent.json"])
def test_what_is_no_trace_is_named_with_the_way_on(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if "absent" not in name:
        path.write_bytes(b"\x1b[31m not json \x00")
    done = gpuwatch("trace", str(path))
    assert done.returncode == 2
    assert name in done.stderr
    assert "\x1b" not in done.stderr


def test_a_cut_archive_gives_what_it_holds_and_says_so(tmp_path: Path) -> None:
    packed = gzip.compress(training(0, steps=400).text().encode())
    path = tmp_path / "rank0.json.gz"
    path.write_bytes(packed[: len(packed) // 2])
    done = gpuwatch("trace", str(path), "--json")
    facts = json.loads(done.stdout)
    assert facts["ranks"][0]["cut_off"]
    assert facts["ranks"][0]["notes"]
    assert "trace.incomplete" in {flag["code"] for flag in facts["flags"]}
    assert done.returncode == 1


def test_dumps_of_nccl_name_the_gpu_that_differs(tmp_path: Path) -> None:
    path = tmp_path / "nccl_topo.xml"
    path.write_text(topology(nvlinks={3: 12}))
    facts = json.loads(gpuwatch("trace", str(path), "--json").stdout)
    (dump,) = facts["nccl"]
    assert [(flag["code"], flag["rank"]) for flag in dump["flags"]] == [("topology.nvlinks", 3)]
    assert dump["devices"][0]["nics"] == ["mlx5_0"]
    shown = gpuwatch("trace", str(path))
    assert shown.returncode == 1
    assert "GPU 3" in shown.stdout


def test_a_step_is_set_beside_that_at_another_scale(tmp_path: Path) -> None:
    """Document 004, line 801: profile at different scales."""
    alone, two = tmp_path / "alone", tmp_path / "two"
    for folder in (alone, two):
        folder.mkdir()
    single = training(0, hidden=200.0)
    single.world_size = 1
    single.write(alone / "rank0.json")
    for rank in range(2):
        training(rank).write(two / f"rank{rank}.json")
    facts = json.loads(gpuwatch("trace", str(two), "--baseline", str(alone), "--json").stdout)
    scales = facts["scales"]
    assert [(each["name"], each["ranks"], each["traced_ranks"], each["steps"]) for each in scales] == [
        (str(alone), 1, 1, 3),
        (str(two), 2, 2, 3),
    ]
    assert [each["communication_ms"] for each in scales] == pytest.approx([0.0, 0.14])
    assert [each["communication_busy_ms"] for each in scales] == pytest.approx([0.2, 0.2])
    parts = ("compute", "communication", "memory_copy", "other", "idle")
    assert all(sum(each[f"{name}_ms"] for name in parts) == pytest.approx(each["step_ms"]) for each in scales)
    shown = gpuwatch("trace", str(two), "--baseline", str(alone)).stdout
    assert all(text in shown for text in ("smallest", str(alone), "0.14"))
    without = gpuwatch("trace", str(two), "--baseline", str(tmp_path / "none"))
    assert (without.returncode, without.stdout) == (2, "")
