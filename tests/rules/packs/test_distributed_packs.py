"""What the packs for distributed failures take out of lines: who failed, and numbers to compare."""

from __future__ import annotations

import itertools
from typing import Any

from gpuwatch.agent.logs.scanning.scanner import Scanner
from tests.packs import built_in_rules

LAUNCHER = """\
E1121 03:15:15.511000 900 elastic/multiprocessing/api.py:1002] failed (exitcode: -9) local_rank: 2 (pid: 954)
Root Cause (first observed failure):
[1]:
  time      : 2031-11-21_03:15:15
  host      : gpu-07
  rank      : 10 (local_rank: 2)
  exitcode  : -9 (pid: 954)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 954
[2]:
  host      : gpu-07
  rank      : 15 (local_rank: 7)
  exitcode  : 1 (pid: 959)
"""


def found(text: str) -> list[dict[str, Any]]:
    numbers = itertools.count()
    scanner = Scanner(built_in_rules(), "launcher.log", lambda: next(numbers))
    return [*scanner.feed(text.encode(), 0, 1.0), *scanner.end()]


def of(rule: str, text: str) -> list[dict[str, Any]]:
    return [each for each in found(text) if each["rule"] == rule]


def test_a_row_of_torchruns_table_names_its_rank() -> None:
    killed = of("rank.killed", LAUNCHER)
    assert [each.get("rank") for each in killed] == [None, 10, 10]
    assert killed[0]["local_rank"] == 2
    (failed,) = of("rank.exit_error", LAUNCHER)
    assert (failed["rank"], failed["fields"]["exitcode"], failed["pid"]) == (15, 1, 959)


def test_a_time_out_tells_its_group_and_counters() -> None:
    line = (
        "[rank9]:[E1121 ProcessGroupNCCL.cpp:616] [PG ID 3 PG GUID 12(tp) Rank 1] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) "
        "ran for 600061 milliseconds before timing out.\n"
    )
    (finding,) = of("nccl.watchdog_timeout", line)
    fields = finding["fields"]
    assert finding["rank"] == 9
    assert (fields["pg_id"], fields["pg_guid"], fields["group_rank"]) == (3, "12(tp)", 1)
    assert (fields["seq"], fields["op"], fields["timeout_ms"], fields["ran_ms"]) == (
        77,
        "ALLREDUCE",
        600000,
        600061,
    )


def test_a_cuda_error_that_the_watchdog_tells_is_this_ranks_own() -> None:
    line = (
        "[rank3]:[E] [PG ID 0 PG GUID 0(default_pg) Rank 3] Process group watchdog thread terminated with "
        "exception: CUDA error: an illegal memory access was encountered\n"
    )
    rules = {each["rule"] for each in found(line)}
    assert "nccl.watchdog_cuda_fault" in rules
    assert "nccl.watchdog_teardown" not in rules


def test_completions_of_a_card_are_distinguished_by_their_status() -> None:
    line = (
        "n1:9:9 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion from peer 10.0.0.9<51> "
        "with error {}, opcode 0, len 0, vendor err 129\n"
    )
    expected = {
        12: "rdma.transport_retry",
        13: "rdma.transport_retry",
        5: "rdma.flushed",
        4: "rdma.access_error",
        10: "rdma.access_error",
    }
    for status, rule in expected.items():
        reported = [each for each in found(line.format(status)) if each["rule"].startswith("rdma.")]
        assert [(each["rule"], each["fields"]["status"]) for each in reported] == [(rule, status)]
        assert reported[0]["fields"]["peer"] == "10.0.0.9<51>"


def test_a_port_that_comes_back_closes_its_event_only() -> None:
    text = (
        "n1:9:9 [0] NCCL WARN NET/IB : mlx5_2:1 Got async error event: port error\n"
        "n1:9:9 [0] NCCL WARN NET/IB : mlx5_3:1 Got async error event: port error\n"
        "n1:9:9 [0] NCCL INFO NET/IB : mlx5_3:1 Got async error event: port active\n"
    )
    closed = [each["fields"]["hca"] for each in of("rdma.port_event", text) if each.get("closed")]
    assert closed == ["mlx5_3"]
