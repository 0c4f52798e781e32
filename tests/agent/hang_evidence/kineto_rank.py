"""A process that asks a daemon for orders as libkineto does, and then writes a file. Arguments: ADDRESS FORM.

It prints a line when it has started (the kernel shows its environment only then), and the path when it has
its orders. It writes after a line on stdin.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from pathlib import Path

TRACE = """{ "schemaVersion": 1, "traceEvents": [
  { "ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 100.5, "dur": 30.5, "args": {} },
  { "ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "ts": 0.0, "dur": 1000.0 }
  ], "traceName": "t" }"""
HEADER = struct.Struct("<Q32s")


def orders(address: bytes) -> str:
    """The first configuration that comes; a request for events alone gets none."""
    own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    own.bind(b"\0rank%d" % os.getpid())
    own.settimeout(30)
    for wanted in (1, 3):
        payload = struct.pack("<iiqi", wanted, 1, 0, os.getpid())
        while True:
            try:
                own.sendto(HEADER.pack(len(payload), b"req") + payload, address)
                break
            except OSError:
                time.sleep(0.02)
        answer = own.recv(65536)
        size, kind = HEADER.unpack_from(answer)
        assert (size, kind.rstrip(b"\0")) == (len(answer) - HEADER.size, b"req")
        assert (size > 0) is (wanted == 3)
    return answer[HEADER.size :].decode()


def write(path: Path, form: str) -> None:
    if form == "link":
        return path.symlink_to("/etc/passwd")
    if form == "pipe":
        return os.mkfifo(path)
    unfinished = path.with_suffix(".json.tmp")
    unfinished.write_text(TRACE[: len(TRACE) // 2] if form == "cut" else TRACE)
    if form in ("huge", "growing"):
        os.truncate(unfinished, 300 << 20)
    if form != "growing":
        unfinished.rename(path)
    return None


if __name__ == "__main__":
    print("started", flush=True)
    lines = dict(line.split("=", 1) for line in orders(bytes.fromhex(sys.argv[1])).splitlines())
    assert int(lines["ACTIVITIES_DURATION_MSECS"]) == 1000
    file = Path(lines["ACTIVITIES_LOG_FILE"])
    file = file.with_name(f"{file.stem}_{os.getpid()}.json")
    print(file, flush=True)
    sys.stdin.readline()
    write(file, sys.argv[2])
    print("written", flush=True)
    sys.stdin.read()
