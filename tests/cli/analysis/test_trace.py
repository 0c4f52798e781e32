"""`gpuwatch trace` as it is typed."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import COMMAND, environment, gpuwatch
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


OPERATOR = (
    '{{"ph":"X","cat":"cpu_op","name":"aten::op_{kind}","pid":9,"tid":9,"ts":{at},"dur":40,"args":'
    '{{"External id":{id},"Input Dims":[[4,2048,4096]],"Input type":["c10::BFloat16"]}}}},'
    '{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":{at},"dur":3,"args":'
    '{{"External id":{id},"cbid":211,"correlation":{id}}}}},'
    '{{"ph":"X","cat":"kernel","name":"void at::native::vectorized_elementwise<4, Functor{kind}>(int)",'
    '"pid":0,"tid":7,"ts":{at},"dur":30,"args":{{"External id":{id},"device":0,"stream":7,"correlation":{id},'
    '"registers per thread":32,"grid":[100,1,1],"block":[128,1,1],"est. achieved occupancy %":6}}}},\n'
)
MOST_BYTES_A_BYTE = 2.0
"""Of memory for a byte of a trace, beside what a small one takes: 500 MB fit into 1 GB."""


def test_a_large_trace_needs_no_more_than_twice_its_size(tmp_path: Path) -> None:
    sizes, used = [], []
    for count in (5_000, 50_000):
        path = tmp_path / f"rank0-{count}.json"
        with path.open("w") as file:
            file.write('{"distributedInfo": {"rank": 0}, "traceEvents": [\n')
            file.writelines(OPERATOR.format(kind=i % 300, at=31 * i, id=i + 1) for i in range(count))
            file.write('{"ph":"M","name":"process_name","pid":0,"tid":0,"ts":0,"args":{"name":"python"}}]}')
        argv = [*COMMAND, "trace", "--json", str(path)]
        with subprocess.Popen(argv, env=environment(), stdout=subprocess.DEVNULL) as process:
            _, status, spent = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        sizes.append(path.stat().st_size)
        used.append(spent.ru_maxrss * 1024)
    assert used[1] - used[0] < MOST_BYTES_A_BYTE * (sizes[1] - sizes[0])
