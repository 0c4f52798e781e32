"""A join names the rank, and where two answers are possible it names none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.runs.placement.joins.process_tables import parents_in
from tests.corpus.score import scanned

STEPS = [f"step {i}/9000 loss {4 / i:.4f}" for i in range(1, 30)]
TRACE = ["Traceback (most recent call last):", '  File "/opt/app/loop.py", line 88, in fit']
KEY_ERROR = [*TRACE, "KeyError: 'input_ids'"]
LOST = ["RuntimeError: Connection closed by peer [10.0.0.7]:40123"]
CHILD = [*TRACE, "RuntimeError: DataLoader worker (pid 2212) is killed by signal: Bus error."]
KILLED = "Nov  3 10:40:11 {} kernel: Out of memory: Killed process 4411 (python) total-vm:9kB, anon-rss:7kB"


def rank_named(folder: Path, files: dict[str, list[str]]) -> int | None:
    """Return the rank of the first incident."""
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    incidents = scanned(folder)["incidents"]
    assert incidents
    rank: int | None = incidents[0]["rank"]
    return rank


@pytest.mark.parametrize(
    ("lines", "child", "parent"),
    [
        (["  PID  PPID COMMAND", " 2212  1804 python", " 1804     1 python"], 2212, 1804),
        (["a(10)-+-b(11)-+-c(12)", "      |       `-c(13)", "      `-b(14)---c(15)"], 13, 11),
        (["a(10)-+-b(11)-+-c(12)", "      |       `-c(13)", "      `-b(14)---c(15)"], 15, 14),
        (["a(10)─┬─b(11)───c(12)", "      └─b(14)───c(15)"], 14, 10),
        (
            [
                "  PID TTY   TIME COMMAND",
                "   10 ?  0:00 a",
                "   11 ?  0:00  \\_ b",
                "   12 ?  0:00      \\_ c",
            ],
            12,
            11,
        ),
        (
            ["  PID TTY   TIME COMMAND", "   10 ?  0:00 a", "   11 ?  0:00  \\_ b", "   12 ?  0:00  \\_ c"],
            12,
            10,
        ),
        (["Name:\tpython", "Pid:\t12", "PPid:\t11"], 12, 11),
    ],
)
def test_parents_are_read_from_any_table(lines: list[str], child: int, parent: int) -> None:
    assert parents_in(lines)[child] == parent


@pytest.mark.parametrize(
    "table",
    [
        [
            "USER  PID %CPU %MEM   VSZ   RSS TTY STAT START  TIME COMMAND",
            "u    4411  0.0  1.2 90000 50000 ?   D    22:10 10:05 python train.py --rank=3 --world-size 4",
        ],
        ["  PID TTY  STAT TIME COMMAND", " 4411 ?    Dl   10:05 python train.py LOCAL_RANK=0 RANK=3 A=b"],
        [
            "COMMAND  PID USER FD TYPE DEVICE SIZE/OFF NODE NAME",
            "python  4411    u 1w   REG  259,2    81920 1234 /home/u/run7/rank3.log (deleted)",
        ],
    ],
    ids=["ps", "ps e", "lsof"],
)
def test_a_process_table_shows_the_rank_of_a_pid(tmp_path: Path, table: list[str]) -> None:
    """The kernel names the pid alone."""
    files = {f"rank{number}.log": STEPS for number in range(4)}
    assert rank_named(tmp_path, {**files, "table.txt": table, "dmesg.txt": [KILLED.format("n1")]}) == 3


def test_a_child_of_two_ranks_with_one_pid_has_none(tmp_path: Path) -> None:
    banners = [f"rank {n} host gpu-{n} pid 1804" for n in range(2)]
    files = {"train.log": [*banners, *STEPS, *CHILD], "ps.txt": ["  PID  PPID COMMAND", " 2212  1804 python"]}
    assert rank_named(tmp_path, files) is None


@pytest.mark.parametrize(("host", "rank"), [("cn0", 0), ("cn1", 8)])
def test_a_pid_means_the_rank_of_its_node(tmp_path: Path, host: str, rank: int) -> None:
    banners = [f"rank {n} on cn{n // 8}: pid {4411 + n % 8}" for n in range(16)]
    assert rank_named(tmp_path, {"train.log": [*banners, *STEPS], "kern.log": [KILLED.format(host)]}) == rank


@pytest.mark.parametrize(
    "heads",
    [
        ["lora rank: {n}"] * 4,
        ["NODE_RANK={n}", "[default3]: ready"],
        ["MACHINE_RANK={n} WORLD_SIZE=32"],
        ["data shard {n} of 4"],
        ["using seed {n}"],
        ["fold {n} begins"],
        ["loading checkpoint part {n} of 4"],
        ["step {n} of 4 done"],
        ["retry {n} of 4"],
        ["device 0: GPU {n} of 4, tp rank {n}"],
    ],
)
def test_numbers_that_count_something_else_are_no_ranks(tmp_path: Path, heads: list[str]) -> None:
    lost = dict.fromkeys(range(4), LOST) | {2: KEY_ERROR}
    names = ["b41a.log", "0e9c.log", "77d2.log", "c3f8.log"]
    files = {
        name: [*(head.format(n=n) for head in heads), *(f"[local_rank 1] {step}" for step in STEPS), *lost[n]]
        for n, name in enumerate(names)
    }
    assert rank_named(tmp_path, files) is None


def test_a_rank_of_all_files_that_is_the_same_is_none(tmp_path: Path) -> None:
    files = {name: ["process_index: 2", *STEPS, *KEY_ERROR] for name in ("b41a.log", "0e9c.log")}
    assert rank_named(tmp_path, files) is None


def test_a_peer_above_an_exception_is_not_its_rank(tmp_path: Path) -> None:
    above = "ERROR: connection reset by peer, remote rank 3 failed"
    assert rank_named(tmp_path, {"train.log": [*STEPS, above, *KEY_ERROR]}) != 3


def test_the_name_of_a_lost_peer_is_not_the_reporter(tmp_path: Path) -> None:
    banners = [f"rank {n}: pod llm-{chr(97 + n)}7" for n in range(3)]
    line = "RuntimeError: [gloo] Connection closed by peer llm-b7:40123"
    assert rank_named(tmp_path, {"train.log": [*banners, *STEPS, "[ERROR] " + KEY_ERROR[-1], line]}) != 1
