"""Numbers of files, pods and tags that no word calls ranks, and those that only look like ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuwatch.agent.logs.lines.normalise import messages
from tests.runs.placement.culprits import OOM, first_incident

RANKS, CULPRIT = 8, 6
LOST = "RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.7]:4211"
"""What every other process of the job raises once."""


def lines_of(rank: int, processes: int = 1) -> list[str]:
    """Return the output of a file's processes: regular lines, then an exception."""
    last = OOM if rank == CULPRIT else LOST
    return [f"step {step}/900 loss 2.{step}" for step in range(30, 36)] + [last] * processes


def culprit_of(folder: Path, name_of: Callable[[int], str], processes: int = 1) -> int | None:
    job = {
        name_of(rank): "".join(
            f"2031-01-01 10:00:{20 if rank == CULPRIT else 40} {line}\n" for line in lines_of(rank, processes)
        )
        for rank in range(RANKS)
    }
    return first_incident(folder, job).rank


@pytest.mark.parametrize(
    "name_of",
    [
        lambda rank: f"stdout.{rank:03}",
        lambda rank: f"log_{rank}_of_8.txt",
        lambda rank: f"out.cn{rank // 4}.{rank}",
        lambda rank: f"cn{rank // 4}/{rank}/train.err",
        lambda rank: f"run.771.{rank}.err",
    ],
)
def test_numbered_logs_of_one_process_each_are_of_ranks(
    tmp_path: Path, name_of: Callable[[int], str]
) -> None:
    assert culprit_of(tmp_path, name_of) == CULPRIT


@pytest.mark.parametrize(
    "name_of",
    [
        lambda rank: f"out.{rank + 1}",
        lambda rank: f"cn{rank // 4}/{rank % 4}.err",
        lambda rank: f"cn{rank // 4}-gpu{rank % 4}.log",
        lambda rank: f"attempt_0/{rank // 4}x/{rank % 4}/stderr.log",
    ],
)
def test_numbers_that_start_at_one_or_again_are_no_ranks(
    tmp_path: Path, name_of: Callable[[int], str]
) -> None:
    assert culprit_of(tmp_path, name_of) is None


def test_numbered_logs_of_several_processes_are_of_nodes(tmp_path: Path) -> None:
    assert culprit_of(tmp_path, lambda rank: f"stdout.{rank}", processes=4) is None


def test_tasks_of_a_slurm_array_are_no_ranks(tmp_path: Path) -> None:
    job = {f"slurm-5150_{task}.out": "step 3/900 loss 2.1\n" * 5 for task in (7, 8, 9)}
    job["slurm-5150_8.out"] += OOM + "\n"
    assert first_incident(tmp_path, job).rank is None


@pytest.mark.parametrize(("processes", "rank"), [(1, CULPRIT), (4, None)])
def test_ordinals_of_pods_are_ranks_if_each_runs_one_process(
    tmp_path: Path, processes: int, rank: int | None
) -> None:
    order = sorted(range(RANKS), key=lambda pod: pod != CULPRIT)
    work = [f"[pod/gpt-{pod}/train] step {step}/900 loss 2.1\n" for step in range(9) for pod in order]
    ends = [f"[pod/gpt-{pod}/train] {line}\n" for pod in order for line in lines_of(pod, processes)[6:]]
    rows = work + ends
    assert first_incident(tmp_path, {"all.log": "".join(rows)}).rank == rank


def test_a_tpu_core_fails_and_its_host_relays_it(tmp_path: Path) -> None:
    rows = [
        "Exception in device=TPU:5: Attempted to allocate 96.00M. There are 12.10M free.",
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in <module>',
        "    loss = step(batch)",
        "RuntimeError: Resource exhausted: From /job:tpu_worker/replica:0/task:0: no memory",
    ]
    assert first_incident(tmp_path, {"notebook.txt": "\n".join(rows) + "\n"}).rank != 0


@pytest.mark.parametrize(
    ("line", "rank", "task", "host"),
    [
        ("10:00:01 rank11@cn1 OSError: lost", 11, None, "cn1"),
        ("10:00:01 rank3.1   | OSError: lost", 3, None, None),
        ("--rank 3\tOSError: lost", 3, None, None),
        ("--global-rank=12\tOSError: lost", 12, None, None),
        ("Jan  2 10:00:01 cn1 rank2[771]: OSError: lost", 2, None, "cn1"),
        ("Jan  2 10:00:01 cn1 train@4[771]: OSError: lost", None, 4, "cn1"),
        ("Jan  2 10:00:01 cn1 user@1000.service[771]: OSError: lost", None, None, "cn1"),
        ("10:00:01 rank3.2   | OSError: lost", None, None, None),
        ("--tp-rank 3\tOSError: lost", None, None, None),
    ],
)
def test_tags_of_process_managers(line: str, rank: int | None, task: int | None, host: str | None) -> None:
    _, by = messages(line.encode())[0][-1]
    assert (by.rank, by.task) == (rank, task)
    assert by.host == host


@pytest.mark.parametrize("tag", ["[dp 1 pp 0 tp {0} | global {1}]", "(Worker_TP{1}_EP{0} pid=31{1})"])
def test_a_tag_of_several_counts_names_the_rank_of_the_job(tmp_path: Path, tag: str) -> None:
    work = [f"{tag.format(rank % 2, rank)} step {step} loss 2.1" for step in range(9) for rank in range(4)]
    rows = [*work, f"{tag.format(1, 3)} {OOM}"]
    assert first_incident(tmp_path, {"all.log": "\n".join(rows) + "\n"}).rank == 3
