"""Ranks that tell their Python stacks on a unix socket which their environment names."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gpuwatch.agent.hang_evidence.debug_socket import MAX_ANSWER, own_stacks
from gpuwatch.agent.hang_evidence.pyspy import MAX_FRAMES
from gpuwatch.wire import PythonThread
from tests.sentences import Sentences

SERVER = """
import faulthandler, http.server, os, socketserver, sys, tempfile, threading, time

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        assert self.path == "/handler/dump_traceback"
        if os.path.exists(sys.argv[2]):
            self.wfile.write(open(sys.argv[2], "rb").read())
            return
        with tempfile.TemporaryFile() as file:
            faulthandler.dump_traceback(file)
            file.seek(0)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(file.read())

    def log_message(self, *_):
        pass

def data_loader_next():
    print("ready", flush=True)
    time.sleep(600)

server = socketserver.ThreadingUnixStreamServer(sys.argv[1], Handler)
Handler.address_string = lambda self: ""
threading.Thread(target=server.serve_forever, daemon=True).start()
data_loader_next()
"""
OK = b"HTTP/1.1 200 OK\r\n\r\n"
HEAD = b"Thread 0x00007f0000000001 (most recent call first):\n"


@contextlib.contextmanager
def rank(folder: Path, named: str = "s") -> Iterator[int]:
    """A rank with such a socket; what it says stands in `answer`, if that is there."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, "s", str(folder / "answer")],
        env={**os.environ, "TORCH_WORKER_SERVER_SOCKET": named},
        stdout=subprocess.PIPE,
        cwd=folder,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def reported(pid: int, seconds: float = 20.0) -> tuple[list[PythonThread], str | None]:
    threads, why = own_stacks("/proc", [pid], seconds)[pid]
    return msgspec.convert(threads, list[PythonThread]), why


def test_the_main_thread_comes_first_also_from_a_deep_folder(tmp_path: Path, sentences: Sentences) -> None:
    folder = tmp_path / ("d" * 120)
    folder.mkdir()
    with rank(folder) as pid, rank(tmp_path, str(folder / "s")) as liar:
        threads, why = reported(pid)
        assert why is None
        assert [(thread.name, thread.main) for thread in threads[:1]] == [("MainThread", True)]
        assert [frame.function for frame in threads[0].frames] == ["data_loader_next", "<module>"]
        assert len(threads) >= 2  # those that serve
        sentences(reported(liar), but=r"(?<=process \()\d+")


def test_a_process_without_one_is_left_out(tmp_path: Path, sentences: Sentences) -> None:
    assert own_stacks("/proc", [os.getpid()], 1.0) == {}
    with rank(tmp_path, "none") as pid:
        sentences(reported(pid))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "its debug socket answers nothing"),
        (b"\xff\x00" * 4096, "its debug socket answers nothing"),
        (b"HTTP/1.1 500 No\r\n\r\noops", "its debug socket answers 500"),
        (OK + HEAD + b"  <no Python frame>\n", "its debug socket reported no main thread"),
        (OK + HEAD + b'  File "a.py", line 1 in _bootstrap\n', "its debug socket reported no main thread"),
        (OK + b"x" * (2 * MAX_ANSWER), "its debug socket reported no main thread"),
    ],
)
def test_an_answer_that_tells_nothing_says_so(tmp_path: Path, answer: bytes, why: str) -> None:
    (tmp_path / "answer").write_bytes(answer)
    with rank(tmp_path) as pid:
        assert reported(pid) == ([], why)


def test_what_a_rank_says_of_itself_is_bounded_and_harmless(tmp_path: Path) -> None:
    frame = '  File "a\x1b[2J.py", line 7 in f\u202eg\n'.encode()
    named = b"Thread 0x0000000000000002 [feeder] (most recent call first):\n"
    (tmp_path / "answer").write_bytes(OK + (named + frame) * 50 + HEAD + frame * 500)
    with rank(tmp_path) as pid:
        threads, why = reported(pid)
    assert why is None
    assert len(threads) <= 16
    assert len(threads[0].frames) == MAX_FRAMES
    assert {thread.name for thread in threads} == {"MainThread", "feeder"}
    assert all(character.isprintable() for thread in threads for f in thread.frames for character in f.file)


@pytest.mark.parametrize("digits", [20, 5000])
def test_a_line_number_beyond_all_files_costs_its_frame_only(tmp_path: Path, digits: int) -> None:
    frames = f'  File "a.py", line {"9" * digits} in f\n  File "a.py", line 7 in g\n'
    (tmp_path / "answer").write_bytes(OK + HEAD + frames.encode())
    with rank(tmp_path) as pid:
        threads, why = reported(pid)
    assert why is None
    assert [frame.line for frame in threads[0].frames] == [7]


def test_a_rank_that_is_stopped_is_not_waited_for(tmp_path: Path) -> None:
    with rank(tmp_path) as pid:
        os.kill(pid, signal.SIGSTOP)
        threads, why = reported(pid, seconds=0.3)
    assert threads == []
    assert "silent" in str(why)
