from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.fleet.jobs.places import Places, RankPlace
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.placement.owners import path_places
from gpuwatch.runs.scan.scan import scan
from tests.runs import jobs


@pytest.mark.parametrize(
    ("path", "host"),
    [
        ("dmesg-gpu-002.log", "gpu-002"),
        ("gpu-003.log", "gpu-003"),
        ("gpu-003-kern.log.1", "gpu-003"),
        ("kern.log.node7.gz", "node7"),
        ("node7/rank_12.log", "node7"),
        ("rank-3-node-02.log", "node-02"),
        ("journal-ip-10-0-1-23.log", "ip-10-0-1-23"),
        ("x/ip-10-0-1-23.ec2.internal.log", "ip-10-0-1-23.ec2.internal"),
        ("nccl.h100-072.12345.log", "h100-072"),
        ("10.0.0.5/dmesg.log", "10.0.0.5"),
        ("messages-dgx01", "dgx01"),
        ("gpu-b03.log", "gpu-b03"),
        ("gpu-b03/rank_5.log", "gpu-b03"),
        ("dmesg-gpu-b03.txt", "gpu-b03"),
        ("train-gpu-b03.out", "gpu-b03"),
        ("gpu-rack2-n7.log", "gpu-rack2-n7"),
        ("nv-a4-console.log", "nv-a4"),
        ("node-b03.log", "node-b03"),
        ("node-cn12.log", "cn12"),
        ("worker-gpu-003.log", "gpu-003"),
        ("sys-c1-kern.log", "sys-c1"),
        ("dmesg-node-a.log", "node-a"),
    ],
)
def test_the_host_in_a_path(path: str, host: str) -> None:
    assert path_places(path).hosts[:1] == (host,)


NODE_NAMES = ("cn22", "gpu-002", "node7", "dgx-a100-3", "n1-c2", "h100-072", "ip-10-0-3-7")
TOOLS = (
    "dcgmi", "nvidia-smi", "nvsmi", "smi", "ibstat", "sacct", "dmesg", "journal", "syslog", "kern",
    "rocm-smi", "bugreport", "nvidia-bug-report", "topo", "lspci", "py-spy",
)  # fmt: skip


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("node", NODE_NAMES)
def test_the_name_of_a_tool_is_no_part_of_a_host(node: str, tool: str) -> None:
    for name in (f"{node}-{tool}", f"{tool}-{node}", f"{node}_{tool}", f"{tool}_{node}", f"{node}.{tool}"):
        assert path_places(f"{name}.txt").hosts[:1] == (node,), name
        assert path_places(f"{name}.log.gz").hosts[:1] == (node,), name
    assert path_places(f"{tool}.txt").hosts == ()
    assert path_places(f"{tool}-3.txt").hosts == ()


@pytest.mark.parametrize(
    ("names", "nodes"),
    [
        (["e6.log"], [None]),
        (["a100.log"], [None]),
        (["e6.log", "launcher.out"], [None, None]),
        (["n1.log", "n2.log"], ["n1", "n2"]),
        (["n1.log", "dmesg-n2.log"], [None, "n2"]),
        (["cn6.log"], ["cn6"]),
    ],
)
def test_a_letter_and_a_digit_name_a_node_only_among_their_like(
    tmp_path: Path, names: list[str], nodes: list[str | None]
) -> None:
    for name in names:
        (tmp_path / name).write_text("a line\n")
    found = {file.path.name: file.node for file in scan(gather([tmp_path]), [], "agent").files}
    assert [found[name] for name in names] == nodes


@pytest.mark.parametrize(
    "path",
    ["run-7/rank_0.log", "slurm-123456_3.out", "logs/attempt_1/3/stdout.log", "kern.log.1", "gpu3.log",
     "train_2024-11-02_rank3.log", "epoch_12.log", "exp-4/step_1000.txt", "logs/rank_0/stdout"],
)  # fmt: skip
def test_paths_that_name_no_host(path: str) -> None:
    assert path_places(path).hosts == ()


def test_attempts_and_kernel_logs_by_their_names() -> None:
    assert path_places("none_x/attempt_2/0/stderr.log").attempt == 2
    assert path_places("dmesg-gpu-002.log").kernel
    assert not path_places("gpu-002/rank_0.log").kernel


def place_of(rank: int, known: Places) -> RankPlace:
    (place,) = (each for each in known.ranks if each.rank == rank)
    return place


def places(folder: Path) -> Places:
    return scan(gather([folder]), [], "agent").places


def test_nccl_lines_join_rank_node_gpu_bus_and_process(tmp_path: Path) -> None:
    """Document 004, line 139."""
    text = "".join(jobs.nccl_lines(rank) for rank in range(jobs.RANKS))
    (tmp_path / "job.out").write_text(text)
    known = places(tmp_path)
    assert [place.rank for place in known.ranks] == list(range(jobs.RANKS))
    place = place_of(jobs.VICTIM, known)
    assert (place.node, place.gpu, place.bus_id, place.pid, place.world_size, place.how) == (
        "gpu-002",
        3,
        "0000:13:00.0",
        4011,
        16,
        "NCCL INFO line",
    )
    assert known.addresses["10.7.0.2"] == "gpu-002"


def test_smaller_process_groups_do_not_move_ranks(tmp_path: Path) -> None:
    tail = "NCCL INFO comm 0x1 rank {} nranks {} cudaDev 0 nvmlDev 0 busId 1b000 commId 0x2 - Init COMPLETE\n"
    sub = "gpu-009:77:78 [0] " + tail.format(0, 2)
    (tmp_path / "job.out").write_text("gpu-001:77:78 [0] " + tail.format(0, 4) + sub)
    known = place_of(0, places(tmp_path))
    assert known.node == "gpu-001"


def test_torchruns_table_of_failures(tmp_path: Path) -> None:
    (tmp_path / "launcher.out").write_text(
        "Root Cause (first observed failure):\n"
        "[0]:\n"
        "  time      : 2025-03-02_11:31:04\n"
        "  host      : gpu-002.cluster\n"
        "  rank      : 9 (local_rank: 1)\n"
        "  exitcode  : -9 (pid: 5120)\n"
    )
    place = place_of(9, places(tmp_path))
    assert (place.node, place.local_rank, place.pid) == ("gpu-002.cluster", 1, 5120)


def test_a_launchers_mapping_names_all_ranks(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(
        "[INFO] [launch.py:163:main] global_rank_mapping=defaultdict(<class 'list'>, "
        "{'gpu-001': [0, 1], 'gpu-002': [2, 3]})\n"
    )
    assert [(p.rank, p.node, p.local_rank) for p in places(tmp_path).ranks] == [
        (0, "gpu-001", 0),
        (1, "gpu-001", 1),
        (2, "gpu-002", 0),
        (3, "gpu-002", 1),
    ]


def test_a_line_of_the_job_itself(tmp_path: Path) -> None:
    (tmp_path / "out.log").write_text("rank=6 local_rank=2 hostname=gpu-004 device=cuda:2\n")
    place = place_of(6, places(tmp_path))
    assert place.node == "gpu-004"


def test_torchruns_folders_are_global_ranks_on_a_single_node_only(tmp_path: Path) -> None:
    for local in range(2):
        folder = tmp_path / "none_a" / "attempt_0" / str(local)
        folder.mkdir(parents=True)
        (folder / "stdout.log").write_text("step 1\n")
    assert [place.rank for place in places(tmp_path).ranks] == [0, 1]
    (tmp_path / "none_b" / "attempt_0" / "0").mkdir(parents=True)
    (tmp_path / "none_b" / "attempt_0" / "0" / "stdout.log").write_text("step 1\n")
    assert places(tmp_path).ranks == ()


@pytest.mark.parametrize(
    "line",
    [
        "rank 5 of 8 on gpu-b03",
        "[INFO] global rank: 5, local rank: 1, node: gpu-b03",
        "rank=5 world=8 host=gpu-b03 gpu=1",
        "Rank 5 started on node gpu-b03",
        '{"rank": 5, "world_size": 8, "hostname": "gpu-b03"}',
    ],
)
def test_the_host_that_a_rank_names_wins_over_the_words_of_its_path(tmp_path: Path, line: str) -> None:
    (tmp_path / "run-a2" / "cn07").mkdir(parents=True)
    (tmp_path / "run-a2" / "cn07" / "rank_5.log").write_text(f"{line}\nstep 1 loss 2.0\n")
    (tmp_path / "rank_0.log").write_text("rank 0 of 8 on cn07\n")
    known = places(tmp_path)
    assert (place_of(5, known).node, place_of(0, known).node) == ("gpu-b03", "cn07")


@pytest.mark.parametrize("line", ["rank 5 on cuda:0", "rank 5: training on GPU", "rank 5 runs on step 12"])
def test_other_things_that_a_rank_is_on_are_no_hosts(tmp_path: Path, line: str) -> None:
    (tmp_path / "rank_5.log").write_text(f"{line}\n")
    assert [place.node for place in places(tmp_path).ranks] == [""]


def test_a_node_keeps_its_name_and_is_counted_once(tmp_path: Path) -> None:
    """`gpu-b03` of the path and of the lines is one node, and its rank stands in the sentence."""
    (tmp_path / "dmesg-gpu-b03.log").write_text(jobs.xid())
    (tmp_path / "gpu-b03").mkdir()
    (tmp_path / "gpu-b03" / "rank_5.log").write_text("rank 5 of 8 on gpu-b03\n")
    known = scan(gather([tmp_path]), [], "agent")
    assert {file.node for file in known.files} == {"gpu-b03"}
