"""The agent looks at real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gpuwatch.agent.hang_evidence.stacks import MAX_PROCESSES, stacks, trusted
from gpuwatch.wire import ProcessStack, Stacks

PROGRAMS = {
    "asleep": "import time; print(1, flush=True); time.sleep(600)",
    "spinning": "import sys, time\n"
    "out, log = [open(sys.argv[1] + end, 'wb', 0) for end in ('', '.log')]; print(1, flush=True)\n"
    "while True: sum(range(100_000)), out.write(bytes(1 << 15)), log.write(bytes(1 << 15)), time.sleep(0.01)",
    "feeding": "import subprocess, sys, time; "
    "worker = [sys.executable, '-c', 'import os, signal; os.kill(os.getpid(), signal.SIGSTOP)']; "
    "ends = subprocess.Popen('true'); child = subprocess.Popen(worker, stdin=subprocess.DEVNULL); "
    "import os; os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT); print(1, flush=True); "
    "sys.stdin.read(); child.kill()",
    "locked": "import threading; print(1, flush=True); threading.Lock().acquire(); "
    "lock = threading.Lock(); lock.acquire(); lock.acquire()",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """Processes that do one thing each; their pids."""
    written = str(tmp_path_factory.mktemp("out") / "model.pt")
    started = {
        name: subprocess.Popen(
            [sys.executable, "-c", code, written], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for name, code in PROGRAMS.items()
    }
    for process in started.values():
        assert process.stdout is not None
        process.stdout.readline()
    yield {name: process.pid for name, process in started.items()}
    started["feeding"].communicate()  # it ends what it has started
    for process in started.values():
        process.kill()
        process.communicate()


def reported(pids: list[int], **more: object) -> dict[int, ProcessStack]:
    found = msgspec.convert(stacks({"pids": pids, **more}), Stacks)
    return {each.pid: each for each in found.processes}


def test_the_kernel_tells_what_a_process_does(running: dict[str, int]) -> None:
    found = reported(list(running.values()), py_spy=None)
    asleep, spinning, locked = (found[running[name]] for name in ("asleep", "spinning", "locked"))
    assert Path(spinning.writes or "").name == "model.pt"
    assert (asleep.writes, locked.writes) == (None, None)
    main = {each.pid: each.threads[0] for each in found.values()}
    assert main[asleep.pid].tid == asleep.pid
    assert "nanosleep" in f"{main[asleep.pid].syscall} {main[asleep.pid].wchan}"
    assert "futex" in f"{main[locked.pid].syscall} {main[locked.pid].wchan}"
    assert (spinning.cpu_pct or 0) > 5 * (asleep.cpu_pct or 0) + 1
    assert asleep.python == []
    assert asleep.why is None


def test_what_a_process_has_started_is_reported_too(running: dict[str, int]) -> None:
    """A worker of a data loader that is stopped, say: its rank only waits for it."""
    found = reported([running["feeding"], running["asleep"]], py_spy=None)
    assert found[running["asleep"]].children == []
    assert [child.state for child in found[running["feeding"]].children] == ["T", "Z"]


def test_a_process_that_has_ended_is_left_out(running: dict[str, int]) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert set(reported([ended.pid, running["asleep"]], py_spy=None)) == {running["asleep"]}
    assert reported(["x", -3, 0]) == {}  # type: ignore[list-item]
    assert stacks({"pids": [os.getpid()] * 500, "py_spy": None})["processes"].__len__() <= MAX_PROCESSES


def fake_py_spy(folder: Path, script: str) -> str:
    """A program of that name which does what a shell script says."""
    path = folder / "py-spy"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


FRAMES = [
    {"name": "data_loader_next", "filename": "/home/ann/train.py", "line": 9},
    {"name": "main", "filename": "/home/ann/train.py", "line": 40},
]
THREADS = [
    {"thread_name": "helper", "os_thread_id": 1, "active": True, "owns_gil": True, "frames": FRAMES[1:]},
    {"thread_name": "MainThread", "os_thread_id": 2, "active": False, "owns_gil": False, "frames": FRAMES},
]


def test_py_spys_threads_come_with_the_main_one_first(running: dict[str, int], tmp_path: Path) -> None:
    (tmp_path / "said.json").write_text(json.dumps(THREADS))
    program = fake_py_spy(tmp_path, f'echo "$@" > {tmp_path}/asked; cat {tmp_path}/said.json')
    found = reported([running["asleep"]], py_spy=program)[running["asleep"]]
    assert [thread.name for thread in found.python] == ["MainThread", "helper"]
    assert [(f.function, f.line) for f in found.python[0].frames] == [("data_loader_next", 9), ("main", 40)]
    assert (tmp_path / "asked").read_text().split() == [
        "dump",
        "--nonblocking",
        "--json",
        "--pid",
        str(running["asleep"]),
    ]


def test_a_look_that_caught_no_frame_is_taken_again(running: dict[str, int], tmp_path: Path) -> None:
    (tmp_path / "said.json").write_text(json.dumps(THREADS))
    nothing = json.dumps([{**THREADS[1], "frames": []}])
    script = f"cd {tmp_path}; if [ -e asked ]; then cat said.json; else echo '{nothing}'; fi; touch asked"
    found = reported([running["spinning"]], py_spy=fake_py_spy(tmp_path, script))[running["spinning"]]
    assert found.python[0].frames[0].function == "data_loader_next"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'Error: Permission Denied' >&2; exit 1", "Permission Denied"),
        ("echo '{\"x\": '", "cannot be read"),
        ("exec sleep 600", "took more than"),
    ],
)
def test_a_py_spy_that_fails_leaves_the_kernels_facts(
    running: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    monkeypatch.setattr("gpuwatch.agent.hang_evidence.stacks.ONE_S", 0.5)
    found = reported([running["asleep"]], py_spy=fake_py_spy(tmp_path, script))[running["asleep"]]
    assert found.python == []
    assert why in str(found.why)
    assert found.threads[0].tid == running["asleep"]


def test_a_program_that_others_could_have_written_is_not_run(running: dict[str, int], tmp_path: Path) -> None:
    program = fake_py_spy(tmp_path, f"touch {tmp_path}/ran")
    assert trusted(program)
    Path(program).chmod(0o777)
    assert not trusted(program)
    found = reported([running["asleep"]], py_spy=program)[running["asleep"]]
    assert not (tmp_path / "ran").exists()
    assert "not installed" in str(found.why)


def test_it_is_found_in_the_environment_that_the_rank_runs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (tmp_path / "bin").mkdir()
    fake_py_spy(tmp_path / "bin", f"echo '{json.dumps(THREADS)}'")
    rank = subprocess.Popen(["/bin/sleep", "600"], env={"VIRTUAL_ENV": str(tmp_path)})
    try:
        deadline = time.monotonic() + 60
        while Path(f"/proc/{rank.pid}/comm").read_text().strip() != "sleep":
            assert time.monotonic() < deadline
        assert len(reported([rank.pid])[rank.pid].python) == 2
    finally:
        rank.kill()
        rank.wait()


def test_deep_stacks_of_many_ranks_fit_into_one_reply(
    running: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("ONE_S", "ALL_STACKS_TIMEOUT_S"):
        monkeypatch.setattr(f"gpuwatch.agent.hang_evidence.stacks.{limit}", 100.0)  # not what is tested here
    deep = {"name": "f" * 90, "filename": "/home/ann/" + "x" * 150, "line": 7}
    threads = [{**THREADS[1], "thread_name": "MainThread" if n == 0 else f"t{n}"} for n in range(4)]
    output = json.dumps([{**thread, "frames": [deep] * 60} for thread in threads])
    (tmp_path / "said.json").write_text(output)
    program = fake_py_spy(tmp_path, f"cat {tmp_path}/said.json")
    reply = stacks({"pids": [running["asleep"]] * MAX_PROCESSES, "py_spy": program})
    assert len(json.dumps(reply)) < 1 << 20
    assert reply["processes"][0]["python"][0]["main"]
