"""A node that wants the cockpit's memory or time: it speaks the protocol well and tells without an end.

Started by a `command` link in place of a shell, with what to tell as its argument.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
import time
import zlib
from collections.abc import Iterator
from typing import Any

LONG = 60_000


def noise(size: int) -> str:
    """Text that does not pack."""
    return random.randbytes(size // 2).hex()


def gpu(number: int) -> dict[str, Any]:
    return {"uuid": f"GPU-{number}", "index": number % 1024, "name": noise(300)}


def hello(gpus: list[dict[str, Any]]) -> dict[str, Any]:
    reported = {"kind": "hello", "host": "flood", "agent": "1", "python": "3", "pid": 1, "interval_s": 1.0}
    return {**reported, "gpus": gpus, "kernel_log": "/dev/kmsg"}


def processes(what: str, number: int) -> list[dict[str, Any]]:
    """One list: of many long rows, more short ones, invalid ones, or as many ranks as are allowed."""
    if what == "invalid rows":
        return [{"pid": "x"}] * 300_000
    if what == "processes":
        each = {"name": "python", "world_size": 1_000_000, "command": noise(100)}
        return [{"pid": n, "rank": n, "job": f"{n % 500}-{number}", **each} for n in range(4000)]
    if what == "small processes":
        ranks = [(n, (n * 47 + number) % 1_000_000, f"j{(n + number) % 5000}") for n in range(9000)]
    else:
        ranks = [(n, n + number, "4711") for n in range(1000)]
    return [{"pid": pid, "name": "p", "rank": rank, "job": job} for pid, rank, job in ranks]


def frames(what: str) -> Iterator[dict[str, Any]]:
    now = time.time()
    for number in itertools.count():
        if what == "gpus":
            yield hello([gpu(number * 900 + each) for each in range(900)])
        elif what == "titles":
            texts = {
                "title": noise(4_000),
                "detail": noise(16_000),
                "remedy": noise(4_000),
            }  # as long as may be
            yield {"kind": "event", "event": "xid", "severity": "critical", "code": number % 100, **texts}
        elif what == "findings":
            place = {"file": f"/logs/{number}", "offset": number, "at": now, "rule": "oom.cuda", "id": number}
            lines = [noise(LONG) for _ in range(10)]
            yield {"kind": "finding", "severity": "error", "lines": lines, **place}
        elif what == "small findings":
            place = {"file": f"/logs/{number}", "offset": number, "at": now, "rule": "oom.cuda", "id": number}
            yield {
                "kind": "finding",
                "severity": "error",
                "lines": [noise(200)],
                "rank": number % 999,
                **place,
            }
        elif what == "phases":
            reported = {"file": f"/logs/{number % 50}", "offset": 1, "at": now, "dialect": "x"}
            yield {"kind": "progress", **reported, "phases_s": {noise(300): 1.0 for _ in range(1000)}}
        elif what == "progress":
            time.sleep(1 / 190)  # below the rate of frames at which a link is closed
            reported = {"file": f"/logs/{number}", "offset": 1, "at": now, "timed": True, "dialect": "x"}
            place = {"rank": number, "job": f"j{number}", "host": f"h{number}"}
            phases = {f"p{number}-{each}": 1.0 for each in range(20)}
            fields = {"step": number, "loss": "nan"}
            yield {"kind": "progress", **reported, **place, "fields": fields, "phases_s": phases}
        elif what == "files":
            files = [{"path": f"/logs/{noise(60)}", "size": 5, "searched_to": 5} for _ in range(5000)]
            yield {"kind": "logs", "complete": True, "files": files}
        elif what.endswith(("processes", "ranks", "rows")):
            yield {"kind": "ranks", "processes": processes(what, number)}
        elif what == "missing":
            if not number:
                yield hello([gpu(each) for each in range(900)])
            lacking = {noise(200): noise(700) for _ in range(900)}
            yield {"kind": "sample", "gpus": [{"uuid": f"GPU-{number % 900}", "missing": lacking}]}


def main() -> None:
    what = sys.argv[1]
    source, out = sys.stdin.buffer, sys.stdout.buffer
    source.read(int(source.readline()))
    nonce = json.loads(source.readline())["nonce"]
    out.write(f"\nGPUWATCH1 {nonce}\n".encode())
    stream = zlib.compressobj(1)

    def send(frame: dict[str, Any]) -> None:
        line = json.dumps({"v": 1, "t": time.time(), "seq": 1, **frame}).encode() + b"\n"
        out.write(stream.compress(line) + stream.flush(zlib.Z_SYNC_FLUSH))
        out.flush()

    send(hello([]))
    while what == "empty lines":
        out.write(stream.compress(b"\n" * (1 << 20)) + stream.flush(zlib.Z_SYNC_FLUSH))
        out.flush()
    per_s = 4e6 / float(os.environ.get("FLOOD_SLOWER", "1"))
    for frame in frames(what):
        began = time.monotonic()
        send(frame)
        time.sleep(max(0.0, len(str(frame)) / per_s - (time.monotonic() - began)))


if __name__ == "__main__":
    main()
