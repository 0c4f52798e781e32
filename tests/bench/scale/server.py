"""Many simulated nodes behind one ssh server, all in one process: each command is an agent with eight GPUs.

    python -m tests.bench.scale.server PORT HOST_KEY

Prints a line once it listens, and ends when its stdin does. A real sshd has three processes a node, which
a small machine has no room for at 1,000 nodes; the client sees the same protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import asyncssh

from tests.bench.live.simulated_agent import fast

GPUS = 8
KINDS_OF_TICK = 100
"""As many different samples are made once; a stream repeats them."""


@cache
def values(number: int) -> str:
    """The values of one GPU, but for its name and time."""
    return json.dumps({key: value for key, value in fast(number).items() if key != "t"})[1:-1]


def sample(uuids: list[str], seq: int) -> str:
    """The fields of one sample, as an agent writes them."""
    now = f"{time.time():.3f}"
    rows = [
        f'{{"uuid": "{uuid}", "fast": {{"t": {now}, {values((seq + index) % KINDS_OF_TICK)}}}}}'
        for index, uuid in enumerate(uuids)
    ]
    return f'"gpus": [{", ".join(rows)}]'


class Agent:
    """One command of a client: the loader's bytes in, frames out."""

    def __init__(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        self._in, self._out = process.stdin, process.stdout
        self._stream = zlib.compressobj()
        self._seq = 0

    async def run(self) -> None:
        """Read the config, then send a sample each interval until the client ends."""
        await self._in.readexactly(int(await self._in.readline()))
        config: Mapping[str, Any] = json.loads(await self._in.readline())
        self._out.write(f"\nGPUWATCH1 {config['nonce']}\n".encode())
        host, interval_s = config["host"], config["interval_s"]
        uuids = [f"GPU-{host}-{index}" for index in range(GPUS)]
        gpus = [
            {"uuid": uuid, "index": index, "name": "SIM H100", "memory_total_bytes": 80 << 30}
            for index, uuid in enumerate(uuids)
        ]
        hello = {"host": host, "agent": "sim", "python": "3", "pid": 1, "interval_s": interval_s}
        self._send("hello", json.dumps({**hello, "gpus": gpus})[1:-1])
        answering = asyncio.create_task(self._answer())
        due = time.monotonic() + hash(host) % 1000 / 1000 * interval_s
        while not answering.done():
            await asyncio.wait([answering], timeout=max(0.0, due - time.monotonic()))
            due += interval_s
            self._send("sample", sample(uuids, self._seq))

    async def _answer(self) -> None:
        while line := await self._in.readline():
            self._send("reply", f'"id": {json.loads(line)["id"]}')

    def _send(self, kind: str, fields: str) -> None:
        self._seq += 1
        line = f'{{"v": 1, "t": {time.time():.3f}, "seq": {self._seq}, "kind": "{kind}", {fields}}}\n'
        self._out.write(self._stream.compress(line.encode()) + self._stream.flush(zlib.Z_SYNC_FLUSH))


class Open(asyncssh.SSHServer):  # type: ignore[misc] # Any, as its types are not read
    """Lets everybody in: asyncssh's server takes no second request for a login, which paramiko sends."""

    def begin_auth(self, username: str) -> bool:
        """No proof is needed."""
        del username
        return False


async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Be the agent that the client's command starts."""
    with contextlib.suppress(OSError, EOFError, asyncssh.Error):
        await Agent(process).run()
    process.exit(0)


async def main(port: int, host_key: str) -> None:
    """Listen until stdin ends."""
    async with asyncssh.listen(
        "127.0.0.1",
        port,
        server_factory=Open,
        server_host_keys=[host_key],
        process_factory=serve,
        encoding=None,
        backlog=1000,
        line_editor=False,
        login_timeout=600,
    ):
        print("listening", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
