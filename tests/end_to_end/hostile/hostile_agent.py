"""A node that wants the cockpit's terminal: it speaks the protocol well and fills every string with escapes.

Started by a `command` link in place of a shell; reads the bundle only for its nonce.
"""

from __future__ import annotations

import json
import sys
import time
import zlib

ATTACK = "\x1b]0;PWNED-title\x07\x1b[2JPWNED\x9b31m\u202ePWNED\u2066\x1b]52;c;UFdORUQ=\x07[bold]PWNED[/nope]"


def main() -> None:
    source, out = sys.stdin.buffer, sys.stdout.buffer
    source.read(int(source.readline()))
    nonce = json.loads(source.readline())["nonce"]
    out.write(f"{ATTACK} from the login shell\n\nGPUWATCH1 {nonce}\n".encode())
    stream = zlib.compressobj()

    def send(kind: str, **fields: object) -> None:
        line = json.dumps({"v": 1, "t": time.time(), "seq": 1, "kind": kind, **fields}, ensure_ascii=False)
        out.write(stream.compress(line.encode() + b"\n") + stream.flush(zlib.Z_SYNC_FLUSH))
        out.flush()

    gpu = {
        "uuid": "GPU-x" + ATTACK,
        "index": 0,
        "name": ATTACK,
        "memory_total_bytes": 80 << 30,
        "bus_id": ATTACK,
    }
    send(
        "hello",
        host=ATTACK,
        agent=ATTACK,
        python=ATTACK,
        pid=1,
        interval_s=1.0,
        gpus=[gpu],
        driver=ATTACK,
        notices=[{"code": "evil", "text": ATTACK, "severity": "warning", "remedy": ATTACK}],
    )
    send("event", event="xid", title=ATTACK, severity="critical", gpu=gpu["uuid"], code=79, detail=ATTACK)
    process = {
        "pid": 7,
        "name": ATTACK,
        "command": ATTACK,
        "user": ATTACK,
        "container": ATTACK,
        "rank": 0,
        "gpus": [{"uuid": gpu["uuid"], "memory_bytes": 1 << 30}],
    }
    while True:
        fast = {"t": time.time(), "utilization_pct": 50, "throttle": [ATTACK], "temperature_c": 50}
        host = {
            "t": time.time(),
            "cpu_pct": 5,
            "nics": [{"name": ATTACK, "state": ATTACK}],
            "disks": [{"mount": ATTACK, "used_bytes": 1, "total_bytes": 2}],
        }
        state = {"uuid": gpu["uuid"], "state": "lost", "reason": ATTACK, "fast": fast}
        send("sample", gpus=[state], host=host)
        send("ranks", processes=[process])
        time.sleep(0.5)


if __name__ == "__main__":
    main()
