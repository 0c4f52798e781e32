"""A line that names another rank than the log's own, against that rank's own log; ranks that stop alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.cli.analysis.scan import scan
from tests.sentences import Sentences

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


def stamp(second: int) -> str:
    return f"2026-11-22 20:{second // 60:02}:{second % 60:02} "


def steps(first: int, last: int, *, dated: bool = True) -> str:
    return "".join(
        f"{stamp(number) if dated else ''}step {number}/600 loss 2.5\n" for number in range(first, last)
    )


def scanned(
    folder: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str]
) -> tuple[int, dict[str, Any]]:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    status = scan.main(["--json", str(folder)], standalone_mode=False)
    return status, json.loads(capsys.readouterr().out)


def blamed(report: dict[str, Any]) -> list[tuple[str, int | None, str]]:
    return [(each["class"], each["rank"], each["confidence"]) for each in report["incidents"]]


@pytest.mark.parametrize(
    ("dated", "later"),
    [(True, "2026-11-22 20:05:30 step 301/600 loss 2\n"), (False, steps(300, 320, dated=False))],
)
def test_a_rank_is_not_named_against_its_own_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dated: bool, later: str
) -> None:
    line = f"{stamp(300) if dated else ''}[rank3]: {OOM}\n"
    files = {"rank0.log": steps(0, 300, dated=dated) + line, "rank3.log": steps(0, 300, dated=dated) + later}
    status, report = scanned(tmp_path, capsys, files)
    assert (status, blamed(report)) == (1, [("oom.cuda", 0, "low")])
    assert "names rank 3" in report["incidents"][0]["confidence_reason"]


OWN_LOGS = {
    "it ends": steps(0, 300),
    "it ends a moment later": steps(0, 302),
    "it has the line": f"{steps(0, 300)}{stamp(300)}{OOM}\n{steps(320, 321)}",
    "it begins anew": steps(0, 300) + f"{stamp(400)}step 200/600 loss 2\n",
    "": "",
}


@pytest.mark.parametrize("own", OWN_LOGS.values(), ids=OWN_LOGS)
def test_a_rank_whose_own_log_does_not_contradict_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], own: str
) -> None:
    files = {"rank0.log": f"{steps(0, 300)}{stamp(300)}[rank3]: {OOM}\n", "rank3.log": own}
    _, report = scanned(tmp_path, capsys, {name: text for name, text in files.items() if text})
    assert [(each[0], each[1]) for each in blamed(report) if each[0] == "oom.cuda"] == [("oom.cuda", 3)]
    assert all(each["confidence"] != "low" for each in report["incidents"])


def test_a_log_that_several_ranks_write_is_believed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = "".join(
        f"{stamp(number)}[rank{rank}]: step {number}/600 loss 2.5\n"
        for number in range(300)
        for rank in range(4)
    )
    files = {"job.log": f"{shared}{stamp(300)}[rank3]: {OOM}\n", "rank3.log": steps(0, 300)}
    _, report = scanned(tmp_path, capsys, files)
    assert blamed(report) == [("oom.cuda", 3, "high")]


def test_a_rank_that_stops_while_another_finishes_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sentences: Sentences
) -> None:
    done = f"{stamp(600)}Training finished\n"
    status, report = scanned(
        tmp_path, capsys, {"rank0.log": steps(0, 300), "rank3.log": steps(0, 600) + done}
    )
    outcome = report["outcome"]
    assert (status, outcome["state"], outcome["behind"]) == (1, "stopped", [0])
    sentences(outcome["text"])
    assert [each["rank"] for each in report["incidents"]] == [0]


@pytest.mark.parametrize("dated", [True, False])
def test_several_ranks_that_stop_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dated: bool
) -> None:
    ends = {0: 300, 1: 302, 2: 600, 3: 600}
    files = {f"rank{rank}.log": steps(0, end, dated=dated) for rank, end in ends.items()}
    status, report = scanned(tmp_path, capsys, files)
    assert (status, report["outcome"]["behind"]) == (1, [0, 1])


SPARSE = "".join(f"{stamp(number)}step {number}/600 loss 2.5\n" for number in range(0, 300, 50))
RESUMED = steps(0, 300) + "".join(f"{stamp(n + 90)}step {n}/600 loss 2.5\n" for n in range(300, 600))
HARMLESS = {
    "only rank 0 logs steps": (steps(0, 600), f"{stamp(1)}ready\n", f"{stamp(1)}ready\n"),
    "the others log only the beginning": (steps(0, 600), steps(0, 30), steps(0, 30)),
    "one logs now and then": (steps(0, 600), steps(0, 600), SPARSE),
    "one ends a few steps before": (steps(0, 600), steps(0, 600), steps(0, 590)),
    "one leaves": (steps(0, 600), steps(0, 600), f"{steps(0, 300)}{stamp(300)}leaving the job\n"),
    "one lives on": (steps(0, 600), steps(0, 600), f"{steps(0, 300)}{stamp(610)}synchronized\n"),
    "the job is made smaller": (RESUMED, RESUMED, steps(0, 300)),
}


@pytest.mark.parametrize("texts", HARMLESS.values(), ids=HARMLESS)
def test_ranks_that_log_less_are_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], texts: tuple[str, ...]
) -> None:
    files = {f"rank{rank}.log": text for rank, text in enumerate(texts)}
    status, report = scanned(tmp_path, capsys, files)
    assert (status, report["outcome"]["state"]) == (0, "finished")


def test_another_job_s_rank_of_the_same_number_clears_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "a/rank3.log": f"{steps(0, 300)}{stamp(300)}{OOM}\n",
        "b/rank3.log": f"{steps(0, 600)}{stamp(600)}Training finished\n",
    }
    status, report = scanned(tmp_path, capsys, files)
    assert (status, [each[:2] for each in blamed(report)]) == (1, [("oom.cuda", 3)])


def test_a_rank_that_was_started_anew_in_another_folder_went_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"a/rank3.log": f"{steps(0, 300)}{stamp(300)}{OOM}\n", "b/rank3.log": steps(301, 600)}
    status, report = scanned(tmp_path, capsys, files)
    assert (status, report["incidents"]) == (0, [])


OTHERS = {
    "slurmstepd-gpu-002: error: *** STEP 1.0 ON gpu-002 CANCELLED AT 2026-11-22T20 DUE TO NODE FAILURE ***",
    "slurmstepd: error: *** STEP 1.0 ON gpu-002 CANCELLED AT 2026-11-22T20:05:00 DUE TO NODE FAILURE ***",
    "srun: error: Node failure on gpu-002",
    "srun: error: gpu-002: task 3: Out Of Memory",
    'gpu-002:1234:1234 [3] NCCL WARN Cuda failure 2 "out of memory"',
}


@pytest.mark.parametrize("line", sorted(OTHERS))
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_line_about_another_node_is_not_of_the_rank_whose_log_holds_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, goes_on: bool
) -> None:
    files = {
        "gpu-001/rank0.log": f"{steps(0, 300)}{stamp(300)}{line}\n",
        "gpu-002/rank3.log": steps(0, 330 if goes_on else 300),
    }
    _, report = scanned(tmp_path, capsys, files)
    assert {(each["rank"], each["node"]) for each in report["ranks"]} == {(0, "gpu-001"), (3, "gpu-002")}
    alerts = [*report["incidents"], *report["alerts"]]
    about = [each for each in alerts if each["class"].startswith(("slurm.", "oom."))]
    for each in about:
        assert each["rank"] != 0
        assert each["node"] != "gpu-001"
    if goes_on:
        assert "high" not in {each["confidence"] for each in report["incidents"]}


@pytest.mark.parametrize(
    "names", [("node-a/log.txt", "node-b/log.txt"), ("slurm-1_node-a_0.out", "slurm-1_node-b_1.out")]
)
def test_a_node_whose_log_names_no_rank_and_stops_while_another_finishes_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: tuple[str, str]
) -> None:
    status, report = scanned(tmp_path, capsys, {names[0]: steps(0, 600), names[1]: steps(0, 300)})
    assert (status, report["outcome"]["state"]) == (1, "stopped")
    assert [each["class"] for each in report["incidents"]] == ["unknown"]
    assert report["incidents"][0]["node"] in (None, "node-b")
    status, report = scanned(tmp_path, capsys, {names[1]: steps(0, 600)})
    assert (status, report["outcome"]["state"]) == (0, "finished")


ROWS = """\
✖▌#13   8m ago  rank 2 (vm): CUDA out of memory 12:58:45
 ✖ rank 2 (vm): CUDA out of memory 12:58:45; 3 ranks then timed out in ALLREDUCE seq 2381
 2 Fragmented, set                           ✖ 12:58:45   +0.0s  CUDA out of memory  rank 2 on vm
   ✖ #5  33s ago  rank 2 (vm GPU 2): CUDA out of memory 12:58:12; 3 ranks~
 ✖ firing      8m   8m        vm                     rank.killed            a rank was killed (SIGKILL)
 X resolved    8m  rank 2  CUDA out of memory. Tried to allocate 2.00 GiB
 ▲ acknowledged 12:59   8m   8m  x2  vm              job.memory_limit       memory limit was hit, OOM-killed
"""
SCREEN = f"""\
 gpuwatch   DEMO  simulated, nothing here is real                        13:09:39 UTC
 GPUs ● 127 of 128  ✖ 1 lost  alerts ✖ 4 ◆ 2 ▲ 1         rank 85 (gpu-011 GPU 5): fell off the bus
─ Evidence ──────────────────────── enter opens the line ─
   NVRM: Xid (PCI:0000:c3:00): 79, pid=52005, name=python3, GPU has fallen off the bus.
   [rank3]: {OOM}
enter Open a Ack r Next rank m All ranks ! Firing D Hang / Find p Freeze ? Help : Go to q Back
"""


ONCE = f"""\
vm  2026-11-28 13:21:08 UTC  --local  gpuwatch 0.2.0

critical  incident: rank 2 (vm): CUDA out of memory 12:58:45
error     vm: {OOM}
"""


@pytest.mark.parametrize("copy", [ROWS, SCREEN, ONCE, "report"])
def test_gpuwatch_s_own_output_in_a_log_is_no_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], copy: str
) -> None:
    if copy == "report":
        (tmp_path / "job").mkdir()
        (tmp_path / "job" / "rank3.log").write_text(f"{steps(0, 300)}{stamp(300)}[rank3]: {OOM}\n")
        for options in ([], ["-v"]):
            scan.main([*options, str(tmp_path / "job")], standalone_mode=False)
        copy = capsys.readouterr().out
        assert OOM in copy
    (tmp_path / "console").mkdir()
    _, report = scanned(tmp_path / "console", capsys, {"rank0.log": copy})
    assert (report["incidents"], report["alerts"]) == ([], [])
    for real in (f"[rank2]: {OOM}", f"✖ Training failed: {OOM}"):
        _, report = scanned(tmp_path / "console", capsys, {"rank0.log": f"{copy}{stamp(310)}{real}\n"})
        assert [each[0] for each in blamed(report)] == ["oom.cuda"]
