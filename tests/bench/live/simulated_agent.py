"""Stands in for an agent where only the transport is measured: eight GPUs, no NVML, little CPU.

sshd runs it as ForceCommand; it reads the bundle only for its nonce.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
import zlib


def main() -> None:
    source, out = sys.stdin.buffer, sys.stdout.buffer
    source.read(int(source.readline()))
    config = json.loads(source.readline())
    nonce, interval_s = config["nonce"], config["interval_s"]
    out.write(f"\nGPUWATCH1 {nonce}\n".encode())
    stream = zlib.compressobj()
    seq = 0

    def send(kind: str, **fields: object) -> None:
        nonlocal seq
        seq += 1
        line = json.dumps({"v": 1, "t": time.time(), "seq": seq, "kind": kind, **fields})
        out.write(stream.compress(line.encode() + b"\n") + stream.flush(zlib.Z_SYNC_FLUSH))
        out.flush()

    node = config.get("host", str(os.getpid()))
    uuids = [f"GPU-{node}-{index}" for index in range(8)]
    gpus = [
        {"uuid": uuid, "index": index, "name": "SIM H100", "memory_total_bytes": 80 << 30}
        for index, uuid in enumerate(uuids)
    ]
    send(
        "hello",
        host=f"sim-{node}",
        agent="sim",
        python="3",
        pid=os.getpid(),
        interval_s=interval_s,
        gpus=gpus,
    )
    due = time.monotonic()
    while True:
        while select.select([source], [], [], max(0.0, due - time.monotonic()))[0]:
            data = os.read(0, 65536)
            if not data:
                return
            for request in data.splitlines():
                send("reply", id=json.loads(request)["id"])
        due += interval_s
        send("sample", gpus=[{"uuid": uuid, "fast": fast(seq + index)} for index, uuid in enumerate(uuids)])


def fast(number: int) -> dict[str, object]:
    """Values of the size and variety of a real GPU's."""
    return {
        "t": time.time(),
        "utilization_pct": 90 + number % 10,
        "memory_utilization_pct": 40 + number % 7,
        "memory_used_bytes": (70 << 30) + number * 4096,
        "memory_total_bytes": 80 << 30,
        "temperature_c": 60 + number % 9,
        "memory_temperature_c": 70 + number % 5,
        "power_w": 600.5 + number % 90,
        "energy_j": 1e6 + number * 650.25,
        "sm_clock_mhz": 1755 + number % 45,
        "throttle": ["power_cap"],
        "throttle_pct": {"power_cap": 3.25},
        "pcie_rx_bps": 1.5e9 + number,
        "pcie_tx_bps": 2.5e9 + number,
        "nvlink_rx_bps": 2.5e11 + number,
        "nvlink_tx_bps": 2.5e11 - number,
        "sm_activity_pct": 80.5,
        "tensor_activity_pct": 40.25,
        "dram_activity_pct": 50.75,
    }


if __name__ == "__main__":
    main()
