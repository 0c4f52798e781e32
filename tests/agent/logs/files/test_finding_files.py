"""Which files a glob finds, and whose words they hold."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.agent.logs.discovery.globs import Glob, with_hosts
from gpuwatch.agent.logs.files.entry import FileEntry
from gpuwatch.agent.logs.files.mounts import network_mounts
from gpuwatch.agent.logs.ipc.messages import of_processes
from gpuwatch.agent.ranks.path_ranks import ranks_of_path


def files(pattern: str) -> list[tuple[str, int | None]]:
    return sorted(found for found in Glob(pattern, "glob").walk(lambda _: None) if found is not None)


def made(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x\n")


def test_captures_name_the_rank_and_take_only_numbers_and_dates(tmp_path: Path) -> None:
    made(
        tmp_path,
        "2024-05-01/rank_3.log",
        "20240502_1030/rank_11.log",
        "new/rank_4.log",
        "2024-05-01/rank_x.log",
    )
    assert files(f"{tmp_path}/{{date}}/rank_{{rank}}.log") == [
        (f"{tmp_path}/2024-05-01/rank_3.log", 3),
        (f"{tmp_path}/20240502_1030/rank_11.log", 11),
    ]


def test_a_rank_may_stand_in_a_folder(tmp_path: Path) -> None:
    made(tmp_path, "r0/out.txt", "r12/out.txt")
    found = files(f"{tmp_path}/r{{rank}}/*.txt")
    assert found == [(f"{tmp_path}/r0/out.txt", 0), (f"{tmp_path}/r12/out.txt", 12)]


def test_shell_wildcards(tmp_path: Path) -> None:
    made(tmp_path, "a1.log", "a2.log", "b1.log", "c.log.gz", ".hidden.log", "deep/er/still/d.log")
    assert [Path(path).name for path, _ in files(f"{tmp_path}/[!b]?.log")] == ["a1.log", "a2.log"]
    assert [Path(path).name for path, _ in files(f"{tmp_path}/**/d.log")] == ["d.log"]
    assert [Path(path).name for path, _ in files(f"{tmp_path}/*")] == ["a1.log", "a2.log", "b1.log"]
    assert files(f"{tmp_path}/a1.log") == [(f"{tmp_path}/a1.log", None)]
    assert files(f"{tmp_path}/nothing/*/x") == []


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    made(tmp_path, "x/a.log")
    (tmp_path / "x/again").symlink_to(tmp_path / "x", target_is_directory=True)
    assert [Path(path).name for path, _ in files(f"{tmp_path}/**/a.log")] == ["a.log"]


def test_the_host_is_each_of_the_names_of_the_node() -> None:
    assert with_hosts(["/l/{host}.log", "/m/*"], ["gpu-1", "n1"]) == ["/l/gpu-1.log", "/l/n1.log", "/m/*"]


@pytest.mark.parametrize(
    ("path", "rank", "local"),
    [
        ("/logs/rank_3.log", 3, None),
        ("/logs/rank_0/stderr.txt", 0, None),
        ("/run/logs-rank12.txt", 12, None),
        ("/d/20240501120000_rank3.log", 3, None),
        ("/nemo/nemo_log_globalrank-9_localrank-1.txt", 9, 1),
        ("/out/rank.7/stdout", 7, None),
        ("/out/rank007.log.1", 7, None),
        ("/j/slurm-81234.5.out", 5, None),
        ("/j/slurm-81234_5.out", None, None),  # a task of an array
        ("/j/slurm-81234.out", None, None),
        ("/t/none_abc123/attempt_0/3/stdout.log", None, 3),
        ("/t/task11.err", 11, None),
        ("/t/subtask4.log", None, None),
        ("/t/local_rank_2.log", None, 2),
        ("/t/localrank2.log", None, 2),
        ("/home/frank2/train.log", None, None),
        ("/t/ranking5.log", None, None),
        ("/t/node_rank_1.log", None, None),
        ("/rank_1/run/rank_3.log", 3, None),
    ],
)
def test_the_rank_in_a_path(path: str, rank: int | None, local: int | None) -> None:
    assert ranks_of_path(path) == (rank, local)


def test_local_ranks_become_global_by_the_ranks_of_the_node() -> None:
    rows: list[dict[str, Any]] = [
        {"pid": 1, "rank": 8, "local_rank": 0, "logs": ["/a"], "job": "7", "name": "python"},
        {"pid": 2, "rank": 9, "local_rank": 1},
    ]
    reported = of_processes(rows, {5: {"paths": ["/b"]}})
    assert reported["local_ranks"] == {0: 8, 1: 9}
    assert reported["launchers"] == [{"pid": 5, "paths": ["/b"]}]
    assert reported["writers"] == [{"pid": 1, "rank": 8, "local_rank": 0, "job": "7", "paths": ["/a"]}]
    assert reported["jobs"] == ["7"]


def test_local_ranks_become_global_by_torchruns_arithmetic() -> None:
    rows = [{"pid": 1, "variables": {"GROUP_RANK": "2", "LOCAL_WORLD_SIZE": "4"}}]
    assert of_processes(rows, {})["local_ranks"] == {0: 8, 1: 9, 2: 10, 3: 11}


def test_two_jobs_on_a_node_leave_local_ranks_open() -> None:
    rows = [{"pid": 1, "rank": 8, "local_rank": 0}, {"pid": 2, "rank": 0, "local_rank": 0}]
    assert of_processes(rows, {})["local_ranks"] == {}


def test_shared_file_systems_are_known_by_their_source() -> None:
    table = (
        "36 25 0:32 / /scratch rw,relatime shared:1 - lustre 10.0.0.1@tcp:/fs rw\n"
        "37 25 0:33 /x /home rw - nfs4 nas:/home rw,vers=4.2\n"
        "38 25 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "39 25 0:40 / /run/lxc rw - fuse.lxcfs lxcfs rw\n"
        "40 25 0:41 / /beegfs rw - fuse.juicefs JuiceFS:x rw\n"
        "broken line\n"
    )
    assert network_mounts(table) == {
        os.makedev(0, 32): ("lustre", "10.0.0.1@tcp:/fs"),
        os.makedev(0, 33): ("nfs", "nas:/home"),
        os.makedev(0, 41): ("fuse.juicefs", "JuiceFS:x"),
    }


def test_a_file_that_slurm_names_is_of_its_job_until_a_rank_writes_it() -> None:
    entry = FileEntry("/home/me/slurm-4711.out", "slurm")
    entry.found_job = "4711"
    entry.written_by([], [30], {})
    assert (entry.speaker(), entry.pids) == ({"job": "4711"}, [30])
    entry.written_by([{"pid": 50, "rank": 3, "job": "4712"}], [30], {})
    assert (entry.speaker(), entry.pids) == ({"job": "4712", "rank": 3, "rank_from": "process"}, [50])


def test_the_log_of_an_ended_job_takes_no_rank_from_the_ranks_that_run_now() -> None:
    """They may be of another job, which numbers this node's ranks otherwise."""
    ranks = {}
    for source in ("found", "process"):
        entry = FileEntry("/tmp/torchelastic_ab12cd34/none_ef56gh78/attempt_0/0/stderr.log", source)
        entry.written_by([], [], {0: 2, 1: 3})
        ranks[source] = entry.speaker().get("rank"), entry.speaker()["local_rank"]
    assert ranks == {"found": (None, 0), "process": (2, 0)}


@pytest.mark.parametrize("group", ["\u00b2", "9" * 5000, "999999", "-1", ""])
@pytest.mark.parametrize("size", ["\u00b2", "1000000000", "4"])
def test_no_number_of_a_process_ends_the_agent_or_makes_an_impossible_rank(group: str, size: str) -> None:
    rows: list[dict[str, Any]] = [{"pid": 1, "variables": {"GROUP_RANK": group, "LOCAL_WORLD_SIZE": size}}]
    assert of_processes(rows, {})["local_ranks"] == {}
