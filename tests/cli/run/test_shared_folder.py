"""One session folder for all nodes of a run, in a folder of logs that other users write as well."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from gpuwatch.cli.run.place import RunPlace, identify_run, one_gpu
from gpuwatch.cli.run.shared_folder import SILENT_S, open_folder
from gpuwatch.runs.sessions.find import find_sessions
from gpuwatch.telemetry.session.folder import SessionFolder
from gpuwatch.telemetry.session.summary import write_part, write_summary

STRANGER = 65534
SLURM = {"SLURM_JOB_ID": "41", "SLURM_STEP_ID": "0"}


def node(part: int) -> RunPlace:
    """A node of torchrun's static rendezvous."""
    argv = ("torchrun", "--nnodes", "2", "--node-rank", str(part), "--master-addr", "gpu-001", "train.py")
    return identify_run(argv, {})


def opened(place: RunPlace, logs: Path, after_s: float = 0.0) -> tuple[SessionFolder, int]:
    """The folder and the index of a node that starts some seconds after now."""
    folder, found = open_folder(place, logs, time.time() + after_s)
    return folder, found.part


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (2, 1, 0)])
def test_a_late_node_writes_the_session_of_the_first(tmp_path: Path, order: tuple[int, ...]) -> None:
    """Each node starts 30 s after the one before it, by an injected clock; none waits."""
    found = [opened(node(part), tmp_path / "logs", 30.0 * late) for late, part in enumerate(order)]
    assert {folder.path for folder, _ in found} == {found[0][0].path}
    assert [part for _, part in found] == list(order)
    assert len(list((tmp_path / "logs").glob("training_*"))) == 1


def test_nodes_that_start_at_once_write_one_session(tmp_path: Path) -> None:
    """Without a number, as in torchrun's rendezvous c10d, each takes one of its own."""
    argv = ("torchrun", "--nnodes=1:8", "--rdzv-id", "7", "--rdzv-endpoint", "gpu-001:29400", "train.py")
    found: list[tuple[SessionFolder, int]] = []
    ready = threading.Barrier(8)

    def start() -> None:
        ready.wait()
        found.append(opened(identify_run(argv, {}), tmp_path))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {folder.path for folder, _ in found} == {found[0][0].path}
    assert sorted(part for _, part in found) == list(range(8))
    assert len(list(tmp_path.glob("training_*"))) == 1


@pytest.mark.parametrize("first", [0, 1])
def test_the_next_run_with_the_same_rendezvous_has_a_folder_of_its_own(tmp_path: Path, first: int) -> None:
    """Whichever node of it starts first, and while the earlier run still ends on the other node."""
    seen = []
    for _ in range(4):
        folders = {opened(node(part), tmp_path)[0] for part in (first, 1 - first)}
        seen += [each.path for each in folders]
    assert len(seen) == len(set(seen)) == 4
    assert len(list(tmp_path.glob(".run_*"))) <= 2


@pytest.mark.parametrize("status", ["completed", "failed", "interrupted"])
@pytest.mark.parametrize("part", [0, 1])
def test_no_node_joins_a_run_that_has_ended(tmp_path: Path, status: str, part: int) -> None:
    folder, _ = opened(node(part), tmp_path)
    if part:
        write_part(folder.node_part(part), {"status": status})
    else:
        write_summary(folder, {"status": status})
    assert opened(node(1 - part), tmp_path)[0].path != folder.path


def test_no_node_joins_a_run_that_has_fallen_silent(tmp_path: Path) -> None:
    folder, _ = opened(node(0), tmp_path)
    write_summary(folder, {"status": "running"})
    assert opened(node(1), tmp_path, SILENT_S + 60)[0].path != folder.path
    assert opened(node(2), tmp_path, SILENT_S / 2)[0].path != folder.path, "the newest run counts"


def test_a_session_without_node_0_is_shown(tmp_path: Path) -> None:
    folder, _ = opened(node(1), tmp_path)
    steps = {"rank": 1, "steps": 40}
    write_part(
        folder.node_part(1), {"run_id": "a" * 32, "node_rank": 1, "status": "failed", "ranks": [steps]}
    )
    (session,) = find_sessions((), tmp_path).sessions
    assert (session.summary.id, session.summary.run_id) == (folder.id, "a" * 32)
    assert [each.rank for each in session.summary.ranks or ()] == [1]


@pytest.mark.timeout(60)
def test_nothing_planted_holds_a_run_up(tmp_path: Path) -> None:
    """A pipe, a link, an endless file, damaged JSON in the place of the summary; a pointer to elsewhere."""
    elsewhere = tmp_path / "elsewhere" / "training_20241206_143022"
    elsewhere.mkdir(parents=True)
    logs = tmp_path / "logs"
    seen = set()
    for number in range(4):
        folder, _ = opened(node(0), logs)
        seen.add(folder.path)
        folder.summary_json.unlink()
        if number == 0:
            os.mkfifo(folder.summary_json)
        elif number == 1:
            folder.summary_json.symlink_to("/dev/zero")
        elif number == 2:
            with folder.summary_json.open("wb") as file:
                file.truncate(5 << 30)
        else:
            folder.summary_json.write_text("[" * 100_000)
        assert opened(node(1), logs)[0].path == folder.path
    pointer = max(logs.glob(".run_*"))
    for target in (elsewhere, "..", "../elsewhere/training_20241206_143022", "training_20010101_000000"):
        pointer.unlink()
        pointer.symlink_to(target)
        seen.add(opened(node(0), logs)[0].path)
        pointer = max(logs.glob(".run_*"))
    assert len(seen) == 8
    assert all(path.parent == logs for path in seen)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make files of another user")
def test_no_folder_of_another_user_is_taken(tmp_path: Path) -> None:
    planted, _ = opened(node(0), tmp_path)
    (pointer,) = tmp_path.glob(".run_*")
    os.chown(pointer, STRANGER, STRANGER, follow_symlinks=False)
    own, _ = opened(node(1), tmp_path)
    assert own.path != planted.path
    os.chown(own.path, STRANGER, STRANGER)
    folder, _ = opened(node(0), tmp_path)
    assert folder.path not in {planted.path, own.path}
    assert opened(node(1), tmp_path)[0].path == folder.path


@pytest.mark.parametrize(
    ("words", "env", "shared", "part"),
    [
        ("python train.py", {}, False, 0),
        ("torchrun --standalone --nproc-per-node 2 train.py", {}, False, 0),
        ("torchrun --nnodes 1 --node-rank 0 --master-addr a train.py", {}, False, 0),
        ("torchrun --nnodes 2 --node-rank 1 train.py", {}, True, 1),
        ("torchrun --nnodes 2 --rdzv-endpoint a:1 train.py", {}, True, 0),
        ("accelerate launch --num_machines 2 --machine_rank 1 --main_process_ip a train.py", {}, True, 1),
        ("deepspeed --node_rank 1 train.py", {"MASTER_ADDR": "a"}, True, 1),
        ("python train.py", {**SLURM, "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4"}, True, 3),
        ("torchrun train.py", {**SLURM, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, False, 0),
        ("python train.py", {"NODE_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, True, 1),
    ],
)  # fmt: skip
def test_the_launcher_states_whether_there_are_other_nodes(
    words: str, env: dict[str, str], shared: bool, part: int
) -> None:
    place = identify_run(words.split(), env)
    assert (place.is_shared, place.part) == (shared, part)
    assert identify_run(words.split(), {**env, "GPUWATCH_RUN_ID": "a" * 32}).run_id == "a" * 32
    is_same = identify_run(words.split(), env).run_id == place.run_id
    assert is_same == (shared or "SLURM_PROCID" in env)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, {"CUDA_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"}),
        ({"CUDA_VISIBLE_DEVICES": "3,5"}, {"CUDA_VISIBLE_DEVICES": "3"}),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1a , MIG-2b"}, {"CUDA_VISIBLE_DEVICES": "MIG-1a"}),
        ({"ROCR_VISIBLE_DEVICES": "1,2", "CUDA_VISIBLE_DEVICES": ""}, {"ROCR_VISIBLE_DEVICES": "1"}),
    ],
)
def test_a_forced_single_gpu_is_the_first_that_the_command_would_see(
    env: dict[str, str], expected: dict[str, str]
) -> None:
    """Document 002, line 161."""
    assert one_gpu(env) == expected
