"""Runs py-spy once: the Python threads of a process, without stopping it."""

import json
import os
import subprocess

from ..base.procfs import clean
from ..logs.ipc.lifeline import die_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_THREADS = 16
MAX_FRAMES = 60
"""Frames of a main thread; other threads get a quarter."""
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
    try:
        output, words = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return [], "py-spy took more than {:.0f} s".format(seconds)
    if child.returncode != 0 or len(output) > MAX_OUTPUT:
        last = words.decode("utf-8", "replace").strip().splitlines()
        return [], clean("py-spy: " + (last[-1] if last else "status {}".format(child.returncode)), 200)
    try:
        return _reported(json.loads(output.decode("utf-8", "replace")), pid), None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return [], clean("py-spy's answer cannot be read: {}".format(error), 200)


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
