"""`gpuwatch run` with its monitor: the session folder, whatever the end of the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import COMMAND, environment, gpuwatch, on_a_terminal
from tests.packages import path_of

ENDINGS = {"main.log", "multigpu.log", "performance.log", "summary.json", "summary.txt"}
STEPS = 'for i in 1 2 3 4 5; do echo "step $i/5 loss: $((10 - i)).5 lr: 0.01"; sleep 0.05; done'
WATCHED = 'until ls "$GPUWATCH_RUN_DIR" | grep -q _summary.json; do sleep 0.2; done'
"""Until the monitor has read the machine once."""
RANKS = """\
import os, subprocess, sys, time
if "RANK" not in os.environ:
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"},
        )
        for rank in range(2)
    ]
    sys.exit(max(rank.wait() for rank in ranks))
for step in range(1, 41):
    if os.environ["RANK"] == "0":
        print(f"step {step}/40 loss: {4 / step:.4f}", flush=True)
    time.sleep(0.05)
folder = os.environ["GPUWATCH_RUN_DIR"]
while not any(name.endswith("_summary.json") for name in os.listdir(folder)):  # the monitor has looked at us
    time.sleep(0.1)
"""


TRACE = """\
Traceback (most recent call last):
  File "t.py", line 1, in <module>
RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB
"""


def run_in(
    folder: Path, *command: str, options: tuple[str, ...] = (), **changes: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "run", *options, "--", *command],
        cwd=folder,
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def only_session(folder: Path) -> tuple[Path, dict[str, Any]]:
    (session,) = (folder / "logs").glob("training_*")
    return session, json.loads((session / f"{session.name}_summary.json").read_text())


def test_a_run_leaves_the_five_files_and_nothing_on_its_pipes(tmp_path: Path) -> None:
    """Document 002, lines 9 to 16 (files), 117 (--output) and 120 (--monitor-training)."""
    (tmp_path / "ranks.py").write_text(RANKS)
    done = run_in(tmp_path, sys.executable, "ranks.py", options=("--output", "o.jsonl"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"step {step}/40 loss: {4 / step:.4f}" for step in range(1, 41)]
    session, summary = only_session(tmp_path)
    files = {path.name.removeprefix(f"{session.name}_") for path in session.iterdir() if path.is_file()}
    assert files == ENDINGS
    assert (summary["status"], summary["exit_code"], summary["mode"], summary["world_size"]) == (
        "completed",
        0,
        "multi",
        2,
    )
    assert (summary["steps"], summary["final_loss"], summary["gpu_count"]) == (40, 0.1, 0)
    assert [each["rank"] for each in summary["ranks"]] == [0, 1]
    assert summary["command"] == [sys.executable, "ranks.py"]
    assert summary["packages"]["python"]
    assert 2 < summary["duration_s"] < 90
    assert (session / "ranks").stat().st_mode & 0o777 == 0o700
    console = next((session / "ranks").glob("console_*.log"))
    assert console.read_text() == done.stdout
    assert console.stat().st_mode & 0o777 == 0o600
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert {row["kind"] for row in rows} <= {"gpu", "step", "alert"}
    assert "step" in {row["kind"] for row in rows}
    compared = json.loads(gpuwatch("runs", "compare", "--json", cwd=tmp_path).stdout)
    assert compared["sessions"][0]["steps"] == 40


@pytest.mark.long
def test_after_sigterm_the_summary_is_there(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [*COMMAND, "run", "--", "sh", "-c", "echo step 1/9 loss: 3.5; sleep 100"],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline()
    child.send_signal(signal.SIGTERM)
    child.stdout.close()
    assert child.wait(timeout=90) == -signal.SIGTERM
    _, summary = only_session(tmp_path)
    assert (summary["status"], summary["exit_signal"], summary["final_loss"]) == (
        "interrupted",
        "SIGTERM",
        3.5,
    )


def test_the_monitor_interrupts_no_rank_when_it_wakes(tmp_path: Path) -> None:
    children = "$(cat /proc/$PPID/task/$PPID/children)"
    script = f"{WATCHED}; for each in {children}; do cut -d ' ' -f 41 /proc/$each/stat; done"
    done = run_in(tmp_path, "sh", "-c", script)
    assert done.stdout.split() == [str(os.SCHED_OTHER), str(os.SCHED_BATCH)], "the command, the monitor"


def test_a_hang_up_that_nohup_ignores_interrupts_nothing(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [*COMMAND, "run", "--", "sh", "-c", "echo ready; read go; exit 3"],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),  # noqa: PLW1509 - no threads
    )
    assert child.stdout is not None
    assert child.stdout.readline()
    child.send_signal(signal.SIGHUP)
    child.communicate(b"go\n", timeout=90)
    assert child.returncode == 3
    assert only_session(tmp_path)[1]["status"] == "failed"


def test_the_last_line_is_a_line_of_its_own(tmp_path: Path) -> None:
    _, written = on_a_terminal("run", "--logs", str(tmp_path / "logs"), "--", "printf", "100%%|##| 5/5")
    assert written.replace("\r", "").splitlines()[0] == "100%|##| 5/5"
    assert written.splitlines()[-1].endswith(only_session(tmp_path)[0].name)


@pytest.mark.long
def test_on_a_terminal_one_line_follows_and_the_title_is_brought_back(tmp_path: Path) -> None:
    code, written = on_a_terminal(
        "run", "--logs", str(tmp_path / "logs"), "--", "sh", "-c", f"{STEPS}; {WATCHED}; sleep 4; exit 5"
    )
    assert code == 5
    session, _ = only_session(tmp_path)
    *lines, last = written.replace("\r", "").splitlines()
    assert str(session) in last
    assert "\x1b]2;gpuwatch" in written
    assert written.count("\x1b[22;2t") == written.count("\x1b[23;2t") == 1
    titles = [part.partition("\x07")[0] for part in written.split("\x1b]2;")[1:]]
    for title in titles:
        written = written.replace(f"\x1b]2;{title}\x07", "")
    plain = written.replace("\x1b[22;2t", "").replace("\x1b[23;2t", "").replace("\r", "").splitlines()
    assert [line.split()[1] for line in plain[:-1]] == [f"{step}/5" for step in range(1, 6)]
    assert lines


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "status", "signal_name"),
    [
        ("exit 3", "failed", None),
        ("kill -9 $$", "failed", "SIGKILL"),
        ("kill -15 $$", "interrupted", "SIGTERM"),
        ("kill -35 $$", "failed", "SIG35"),  # a real-time signal: Python has no name for it
    ],
)
def test_a_crash_is_kept(tmp_path: Path, script: str, status: str, signal_name: str | None) -> None:
    (tmp_path / "trace").write_text(TRACE)
    run_in(tmp_path, "sh", "-c", f"cat trace >&2; {script}")
    _, summary = only_session(tmp_path)
    assert (summary["status"], summary["exit_signal"]) == (status, signal_name)
    assert "oom.cuda" in {each["class"] for each in summary["warnings"]}


@pytest.mark.long
def test_nodes_of_one_slurm_step_write_one_session(tmp_path: Path) -> None:
    slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_LOCALID": "0"}
    nodes = [
        subprocess.Popen(
            [*COMMAND, "run", "--", "sh", "-c", f"echo $GPUWATCH_RUN_DIR $GPUWATCH_RUN_ID; sleep {seconds}"],
            cwd=tmp_path,
            env=environment(**slurm, SLURM_PROCID=str(task)),
            stdout=subprocess.PIPE,
            text=True,
        )
        for task, seconds in enumerate((8, 20))  # the summary is written while the second still runs
    ]
    said = {node.communicate(timeout=100)[0] for node in nodes}
    assert len(said) == 1
    session, _ = only_session(tmp_path)
    assert len(list((session / "ranks").glob("console_*.log"))) == 2
    shown = json.loads(gpuwatch("runs", "show", "--json", cwd=tmp_path).stdout)["sessions"][0]
    assert "node_001.json" in shown["parts"]
    assert [rank["rank"] for rank in shown["ranks"]] == [0, 1]


@pytest.mark.long
def test_when_gpuwatch_is_killed_the_summary_says_so(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [*COMMAND, "run", "--", "sh", "-c", "echo on; sleep 5"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline()
    child.kill()
    child.wait()
    reader = child.stdout
    while reader.read(1):
        pass
    deadline = 200
    while deadline and not list((tmp_path / "logs").glob("*/*_summary.txt")):
        deadline -= 1
        subprocess.run(["sleep", "0.2"], check=True)
    assert only_session(tmp_path)[1]["status"] == "interrupted"


@pytest.mark.long
def test_a_forced_single_gpu_session(tmp_path: Path) -> None:
    """Document 002, line 161."""
    script = "echo $CUDA_VISIBLE_DEVICES; echo step 1/1 loss: 2.5"
    done = run_in(tmp_path, "sh", "-c", script, options=("--single-gpu",), CUDA_VISIBLE_DEVICES="3,5")
    assert done.stdout.splitlines()[0] == "3"
    session, summary = only_session(tmp_path)
    assert (summary["forced_single_gpu"], summary["mode"]) == (True, "single")
    assert "FORCED SINGLE GPU MODE" in (session / f"{session.name}_main.log").read_text()


@pytest.mark.parametrize(("name", "code"), [("no-such-command", 127), ("./plain", 126)])
def test_what_cannot_be_run_leaves_nothing(tmp_path: Path, name: str, code: int) -> None:
    (tmp_path / "plain").write_text("text")
    done = run_in(tmp_path, name)
    assert (done.returncode, done.stdout) == (code, "")
    assert name in done.stderr
    assert not (tmp_path / "logs").exists()


def test_a_folder_that_cannot_be_written_is_reported_before_the_start(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    done = run_in(tmp_path, "touch", "started")
    assert (done.returncode, done.stdout) == (2, "")
    assert not (tmp_path / "started").exists()


@pytest.mark.long
@pytest.mark.skipif(path_of("bash") is None, reason="needs bash")
def test_a_run_inside_of_a_run_is_refused(tmp_path: Path) -> None:
    done = run_in(
        tmp_path, *COMMAND, "run", "--", "true", PYTHONPATH=os.environ.get("PYTHONPATH", str(Path.cwd()))
    )
    assert done.returncode == 2


@pytest.mark.parametrize("options", [("--output", "."), ("--output", ""), ("--logs", "")])
def test_a_name_that_is_no_file_is_refused_before_the_start(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run_in(tmp_path, "touch", "started", options=options)
    assert (done.returncode, done.stdout) == (2, "")
    assert list(tmp_path.iterdir()) == []


def test_a_refused_run_leaves_no_session(tmp_path: Path) -> None:
    done = run_in(tmp_path, "touch", "started", options=("--output", "no/such/folder/file"))
    assert (done.returncode, done.stdout) == (2, "")
    assert list(tmp_path.iterdir()) == []


def test_a_nan_loss_and_the_exception_are_in_the_summary(tmp_path: Path) -> None:
    script = (
        "print('step 1/9 loss: 2.5'); print('step 2/9 loss: nan', flush=True); raise RuntimeError('boom')"
    )
    assert run_in(tmp_path, sys.executable, "-c", script).returncode == 1
    _, summary = only_session(tmp_path)
    assert (summary["final_loss"], summary["non_finite_loss_step"]) == (None, 2)
    assert summary["error"] == "RuntimeError: boom"
    assert "NaN/Inf" in gpuwatch("runs", "list", cwd=tmp_path).stdout
