"""Runs py-spy once: the Python threads of a process, without stopping it."""

import json
import os
import select
import subprocess
import time

from ..base.procfs import clean
from ..logs.ipc.lifeline import die_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_THREADS = 16
MAX_FRAMES = 60
"""Most frames of a main thread's stack; of other threads a quarter."""
MAX_OUTPUT = 8 << 20


def python_stacks(program: str, pid: int, seconds: float) -> "tuple[list[dict[str, Any]], str | None]":
    """Return (threads as `wire.PythonThread`, main thread first, None), or ([], why there are none)."""
    me = os.getpid()
    try:
        child = subprocess.Popen(
            [program, "dump", "--nonblocking", "--json", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: die_with(me),  # noqa: PLW1509 - one system call
        )
    except OSError as error:
        return [], "py-spy cannot be run: {}".format(error.strerror)
    output, words = _outputs(child, time.monotonic() + seconds)
    if child.poll() is None:
        child.kill()
    child.wait()
    child.stdout.close()  # type: ignore[union-attr]  # started with stdout=PIPE
    child.stderr.close()  # type: ignore[union-attr]  # started with stderr=PIPE
    if len(output) > MAX_OUTPUT:
        return [], "py-spy printed more than {} MB: the stacks are too large".format(MAX_OUTPUT >> 20)
    if child.returncode == -9:
        return [], "py-spy took more than {:.0f} s".format(seconds)
    if child.returncode != 0:
        last = words.decode("utf-8", "replace").strip().splitlines()
        return [], clean("py-spy: " + (last[-1] if last else "status {}".format(child.returncode)), 200)
    try:
        return _reported(json.loads(output.decode("utf-8", "replace")), pid), None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return [], clean("py-spy's answer cannot be read: {}".format(error), 200)


def _outputs(child: "subprocess.Popen[bytes]", deadline: float) -> "tuple[bytes, bytes]":
    """Return (stdout, stderr) of py-spy once it has ended, cut at a time and a size limit.

    A process chooses how large its stacks are.
    """
    streams = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}  # type: ignore[union-attr]  # both are pipes
    first, second = streams.values()
    waiting = select.poll()
    for number in streams:
        waiting.register(number, select.POLLIN)
    left = len(streams)
    while left and len(first) <= MAX_OUTPUT and len(second) <= MAX_OUTPUT:
        ready = waiting.poll(max(0.0, deadline - time.monotonic()) * 1000)
        if not ready:
            break
        for number, _ in ready:
            data = os.read(number, 1 << 16)
            streams[number] += data
            if not data:
                waiting.unregister(number)
                left -= 1
    return bytes(first), bytes(second)


def _reported(found: "list[dict[str, Any]]", pid: int) -> "list[dict[str, Any]]":
    threads = []
    for each in found:
        main = each.get("os_thread_id") == pid or each.get("thread_name") == "MainThread"
        most = MAX_FRAMES if main else MAX_FRAMES // 4
        frames = [
            {
                "function": clean(str(frame["name"]), 100),
                "file": clean(str(frame.get("filename") or frame.get("short_filename") or "?"), 200),
                "line": int(frame.get("line") or 0),
            }
            for frame in each["frames"][:most]
        ]
        threads.append(
            {
                "name": clean(str(each.get("thread_name") or ""), 60),
                "main": main,
                "active": bool(each.get("active")),
                "gil": bool(each.get("owns_gil")),
                "frames": frames,
            }
        )
    threads.sort(key=lambda thread: not thread["main"])
    return threads[:MAX_THREADS]
