"""Real processes, sampled by the real py-spy through the agent's request."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gpuwatch.agent.hang_evidence import profile as profile_module
from gpuwatch.agent.hang_evidence.profile import profile
from gpuwatch.agent.hang_evidence.stacks import ABSENT
from gpuwatch.diagnose.profiles.call_tree import profile_text, threads_of
from gpuwatch.wire import ProcessProfile, Profiles
from tests.end_to_end.hang.hanging import py_spy

PROGRAM = """
import threading, time
def spin():
    while True: sum(range(100_000)), time.sleep(0.005)
def idle():
    threading.Event().wait()
threading.Thread(target=idle, daemon=True, name="pin;memory\\x1b[31m").start()
print(1, flush=True)
spin()
"""


@pytest.fixture(scope="module")
def spinning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    file = tmp_path_factory.mktemp("program") / "spin.py"
    file.write_text(PROGRAM)
    process = subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process.pid
    process.kill()
    process.communicate()


def sampled(pids: list[int], **more: object) -> list[ProcessProfile]:
    request = {"pids": pids, "seconds": 1, "rate": 50, "py_spy": py_spy(), **more}
    return msgspec.convert(profile(request, "/proc", None), Profiles).processes


def test_the_threads_of_a_process_are_sampled_without_stopping_it(spinning: int) -> None:
    (found,) = sampled([spinning])
    assert found.why is None
    main, other = threads_of(profile_text(found.packed))
    assert main.name == "MainThread"
    assert any(call.code.function == "spin" and call.code.line == 4 for call, _ in main.walk())
    assert all(call.code.function != "spin" for call, _ in other.walk())
    assert "\x1b" not in other.name
    assert found.py_spy_cpu_s is not None and found.py_spy_cpu_s > 0
    assert found.seconds is not None and found.seconds >= 0.5  # samples of a full machine are late


@pytest.mark.parametrize("blocking", [False, True])
def test_the_process_is_stopped_for_its_samples_only_where_that_is_asked_for(
    spinning: int, tmp_path: Path, blocking: bool
) -> None:
    noting = tmp_path / "py-spy"
    noting.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\nexec {py_spy()} "$@"\n')
    noting.chmod(0o755)
    (found,) = sampled([spinning], py_spy=str(noting), blocking=blocking)
    assert found.packed
    assert ("--nonblocking" in (tmp_path / "arguments").read_text().split()) is not blocking


def test_a_process_that_has_ended_says_so(spinning: int) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    by_pid = {each.pid: each for each in sampled([ended.pid, spinning])}
    assert (by_pid[ended.pid].packed, by_pid[ended.pid].seconds is None) == ("", False)
    assert by_pid[ended.pid].why
    assert by_pid[spinning].packed


def test_a_node_without_py_spy_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = profile({"pids": [1 << 22], "py_spy": ""}, str(tmp_path), None)
    assert answer["lacks_py_spy"] is True
    assert answer["processes"][0]["why"] == ABSENT


def test_a_py_spy_that_does_not_end_is_made_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGINT first, upon which py-spy writes what it has; then SIGKILL."""
    slow = tmp_path / "py-spy"
    slow.write_text("#!/bin/sh\ntrap '' INT\nwhile :; do sleep 0.05; done\n")
    slow.chmod(0o755)
    monkeypatch.setattr(profile_module, "INTERRUPT_AFTER_S", 0.2)
    monkeypatch.setattr(profile_module, "find_py_spy", lambda *_: {os.getpid(): str(slow)})
    (found,) = profile({"pids": [os.getpid()], "seconds": 1}, "/proc", None)["processes"]
    assert found["why"].startswith("py-spy")


def test_a_reply_has_its_bounds() -> None:
    lines = [
        b"thread (1): MainThread;f%d (%s.py:1) %d" % (n, os.urandom(40).hex().encode(), n)
        for n in range(9000)
    ]
    packed, left_out = profile_module._packed(b"\n".join(lines), 100_000)
    assert len(packed) <= 100_000
    kept = zlib.decompress(base64.b64decode(packed)).split(b"\n")
    assert kept[0].endswith(b" 8999")
    assert left_out + sum(int(line.rsplit(b" ")[-1]) for line in kept) == sum(range(9000))
