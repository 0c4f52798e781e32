"""What the name of a log file states about its node and rank, as whole scans report it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.runs.placement.owners import hosts_in, without_weak
from tests.runs.ended_logs import report, steps


@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        ("dcgmi_diag_r3.txt", []),
        ("dcgmi-diag.r1.log", []),
        ("r3.log", ["r3"]),
        ("nvidia-smi-q.dgx-09.txt", ["dgx-09"]),
        ("gn-61.dcgmi.txt", ["gn-61"]),
        ("nvidia-smi-q-i7.txt", []),
        ("nvidia-smi-i2.log", []),
        ("nvidia-smi-q-n7.txt", ["n7"]),
        ("ps-gx14.txt", ["gx14"]),
        ("free_gx14.log", ["gx14"]),
        ("dmesg-sft-node7.txt", ["sft-node7"]),
        ("sft-7.log", []),
        ("gpu01.cluster.local.log", ["gpu01.cluster.local"]),
    ],
)
def test_options_of_tools_are_no_hosts(name: str, hosts: list[str]) -> None:
    assert hosts_in(name) == hosts


def test_the_letter_of_a_rank_is_no_part_of_a_host(tmp_path: Path) -> None:
    for rank in range(8):
        (tmp_path / f"n{rank // 4}-r{rank}.log").write_text(steps(40, 5000).replace("INFO", f"[r{rank}]"))
    places = report(tmp_path).scan.places.ranks
    assert [(place.rank, place.node) for place in places] == [(rank, f"n{rank // 4}") for rank in range(8)]


def test_files_called_after_ranks_are_of_no_nodes(tmp_path: Path) -> None:
    for rank in range(4):
        (tmp_path / f"r{rank}.txt").write_text(steps(40, 5000))
    places = report(tmp_path).scan.places.ranks
    assert [(place.rank, place.node) for place in places] == [(rank, "") for rank in range(4)]


def test_a_file_called_after_the_only_rank_in_its_tags_is_of_no_node(tmp_path: Path) -> None:
    for rank in (3, 5, 6, 9):  # too few of them to be the ranks of a whole job
        line = f"2031-01-01 10:00:40 [rank{rank}] OSError: [Errno 28] No space left on device\n"
        (tmp_path / f"r{rank:02}.out").write_text(f"starts on its device\n{line}")
    found = report(tmp_path).incidents[0]
    assert (found.rank, found.node) == (3, None)


def test_ranks_state_their_hosts(tmp_path: Path) -> None:
    for rank in range(4):
        head = f"[rank{rank}] hostname=sx{rank // 2} device=cuda:{rank % 2}\n"
        (tmp_path / f"rank-{rank:02}.txt").write_text(head + steps(40, 5000))
    places = report(tmp_path).scan.places.ranks
    assert [place.node for place in places] == ["sx0", "sx0", "sx1", "sx1"]


@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        ("vision-a31.nvidia-smi-q.txt", ["vision-a31"]),
        ("smi-q-gpu-007.txt", ["gpu-007"]),
        ("resnet9_main.lm-b12.amy.log.FATAL.20260412-081500.5512", ["lm-b12"]),
        ("llm-worker-5_prod_train-loop.log", []),
        ("nightly-build-12.txt", []),
        ("ci-run-881.log", []),
    ],
)
def test_programs_pods_and_builds_are_no_hosts(name: str, hosts: list[str]) -> None:
    assert hosts_in(name)[:1] == hosts


def test_a_letter_and_a_number_that_several_folders_have_is_no_host() -> None:
    files = [f"{folder}/p{n}.log" for folder in ("first", "second") for n in range(3)]
    assert not any(without_weak({file: (file[-6:-4],) for file in files}).values())
    alone = {f"logs/n{n}.log": (f"n{n}",) for n in range(3)}
    assert without_weak(alone) == alone
