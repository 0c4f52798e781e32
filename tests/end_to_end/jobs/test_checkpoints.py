"""The last checkpoint of a job: a real process writes its log and its files, a real agent reads both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuwatch.agent.logs.checkpoints.checkpoint_files import facts
from gpuwatch.agent.logs.checkpoints.checkpoint_lines import checkpoint_of
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.session import Session
from tests.cli.running import alone, gpuwatch
from tests.end_to_end.cluster import watch

JOB = """
import os, sys, time
from datetime import datetime, timedelta
from pathlib import Path
log, ckpt, torn = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "torn"
at = datetime.now() - timedelta(seconds=400)
with log.open("w") as file:
    for step in range(1, 261):
        at += timedelta(seconds=1)
        print(f"{at:%Y-%m-%d %H:%M:%S} step {step}/1000 loss {3 - step / 1000:.4f}", file=file)
        if step % 100 == 0:
            folder = ckpt / f"step_{step}"
            folder.mkdir(parents=True)
            for shard in range(1, 3):
                size = 4096 if step == 100 or shard == 1 or not torn else 100
                (folder / f"model-{shard}.pt").write_bytes(bytes(size))
            for name in [folder, *folder.iterdir()]:
                os.utime(name, (at.timestamp(), at.timestamp()))
            print(f"{at:%Y-%m-%d %H:%M:%S} Saved checkpoint at step {step} to {folder}", file=file)
    print("Traceback (most recent call last):\\n  File \\"train.py\\", line 3, in step", file=file)
    print("RuntimeError: CUDA error: an illegal memory access was encountered", file=file)
"""


def run_job(folder: Path, how: str = "whole") -> Path:
    log = folder / "train.log"
    subprocess.run([sys.executable, "-c", JOB, str(log), str(folder / "ckpt"), how], check=True)
    return log


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("how", "good", "torn"), [("whole", 200, None), ("torn", 100, 200)])
def test_an_incident_tells_what_a_restart_costs(
    tmp_path: Path, how: str, good: int, torn: int | None
) -> None:
    log, lost = run_job(tmp_path, how), 260 - good
    plan = Plan((NodeSpec("a", link="local"),), interval_s=0.5, source="test", log_options=(str(log),))
    with Session(plan) as session:

        def newest() -> Checkpoint | None:
            found = [each.checkpoint for each in session.book.incidents if each.checkpoint is not None]
            return next((each for each in found if str(tmp_path) in (each.path or "")), None)

        watch(session, lambda _fleet, _now: (last := newest()) is not None and last.steps_lost == lost)
        last = newest()
    assert last is not None
    assert (last.step, last.last_step) == (good, 260)
    assert last.seconds_lost == pytest.approx(lost, abs=1.0)  # lines carry whole seconds, files do not
    assert (last.path, last.unfinished_step) == (str(tmp_path / "ckpt" / f"step_{good}"), torn)
    assert last.complete is (True if torn is None else None)


def test_once_and_scan_say_the_same(tmp_path: Path) -> None:
    log = run_job(tmp_path)
    once = json.loads(alone("once", "--local", "--log", str(log), "--json", "--wait", "20").stdout)
    scan = json.loads(gpuwatch("scan", str(log), "--json").stdout)
    (incident,) = [each for each in once["incidents"] if each["class"] == "cuda.illegal_access"]
    keys = ("step", "last_step", "steps_lost", "seconds_lost", "path")
    wanted = (200, 260, 60, 60, str(tmp_path / "ckpt" / "step_200"))
    assert tuple(incident["checkpoint"][key] for key in keys) == wanted
    assert tuple(scan["checkpoint"][key] for key in keys) == wanted
    assert incident["checkpoint"]["complete"] is True
    assert scan["incidents"][0]["checkpoint"]["step"] == 200


@pytest.mark.parametrize(
    ("line", "step", "path"),
    [
        (
            "successfully saved checkpoint from iteration   41000 to /ckpt/run7 [ t 1/1, p 1/1 ]",
            41000,
            "/ckpt/run7",
        ),
        ("Model weights saved in out/checkpoint-500/model.safetensors", 500, "out/checkpoint-500"),
        (
            "[Torch] Saved /ckpt/global_step1000/zero_pp_rank_0_mp_rank_00_optim_states.pt.",
            1000,
            "/ckpt/global_step1000",
        ),
        ("[Rank 0] [Torch] Checkpoint global_step1000 is ready now!", 1000, None),
        ("Finished saving checkpoint (finalized tmp dir) to `/path/1000`.", 1000, "/path/1000"),
        (
            "'val_loss' reached 0.1, saving model to '/x/epoch=3-step=1000.ckpt' as top 3",
            1000,
            "/x/epoch=3-step=1000.ckpt",
        ),
        (
            "saved checkpoint at step 41,000 to /scratch/step_41000.pt (12.3 s)",
            41000,
            "/scratch/step_41000.pt",
        ),
        ("Checkpoint 41000 written to s3://b/run/41000", 41000, "s3://b/run/41000"),
        ("Finished saving the checkpoint in 5.60 seconds.", None, None),
    ],
)
def test_a_line_names_step_and_place(line: str, step: int | None, path: str | None) -> None:
    assert checkpoint_of(line) == (step, path)


def files(folder: Path, *names: str, size: int = 10) -> str:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(bytes(size))
        os.utime(folder / name, (1000.0, 1000.0))
    return str(folder)


@pytest.mark.parametrize(
    ("names", "complete"),
    [
        (("__0_0.distcp", "__1_0.distcp", ".metadata"), 1),
        (("__0_0.distcp", "__1_0.distcp"), 0),
        (("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"), 1),
        (("model-00001-of-00002.safetensors",), 0),
        (("weights.bin.tmp",), 0),
        (("weights.bin",), None),
    ],
)
def test_the_marks_of_a_format_tell_whether_it_is_whole(
    tmp_path: Path, names: tuple[str, ...], complete: int | None
) -> None:
    assert facts(files(tmp_path / "step_5", *names)).get("complete") == complete


@pytest.mark.parametrize(
    ("gone", "first", "step", "complete"),
    [
        (None, 1, 4, 1),
        (1, 3, 4, 0),  # the one before lacks it, too
        (3, 3, 4, 0),  # no gap in the numbers shows it
        (0, 4, 4, 0),
    ],
)
def test_a_rank_s_shard_is_missed_in_all_that_follow_its_end(
    tmp_path: Path, gone: int | None, first: int, step: int, complete: int
) -> None:
    for number in range(1, step + 1):
        ranks = [rank for rank in range(4) if rank != gone or number < first]
        folder = Path(files(tmp_path / f"step_{number}", *(f"shard-rank{rank}.pt" for rank in ranks)))
        for path in (*folder.iterdir(), folder):
            os.utime(path, (1000.0 + number, 1000.0 + number))
    reported = facts(str(tmp_path / f"step_{step}"))
    assert reported["complete"] == complete
    assert reported.get("good") == (None if complete else str(tmp_path / f"step_{first - 1}"))


def test_a_job_that_goes_on_with_fewer_ranks_keeps_the_bytes(tmp_path: Path) -> None:
    for number, (ranks, size) in enumerate([(4, 10), (2, 20), (2, 20)], 1):
        folder = Path(
            files(tmp_path / f"step_{number}", *(f"rank{each}.pt" for each in range(ranks)), size=size)
        )
        for path in (*folder.iterdir(), folder):
            os.utime(path, (1000.0 + number, 1000.0 + number))
    assert facts(str(tmp_path / "step_3"))["complete"] == 1


def test_what_was_written_just_now_may_still_grow(tmp_path: Path) -> None:
    folder = files(tmp_path / "step_5", "__0_0.distcp", ".metadata")
    assert "complete" not in facts(folder, now=1003.0)
    assert facts(folder, now=1006.0)["complete"] == 1


def test_a_device_a_pipe_and_a_link_out_are_no_checkpoint(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "step_1.pt")
    (tmp_path / "step_2").symlink_to("/dev")
    assert [facts(str(tmp_path / name)) for name in ("step_1.pt", "step_2", "step_3")] == [{}, {}, {}]
