"""The process of one viewer: screens behind two pipes, in the packets of Textual's web driver."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence

READY = b"__GANGLION__\n"
"""The first line of Textual's web driver."""
DATA, META = b"D", b"M"
START_S = 60.0
"""Seconds from the start of the process to its first line; generous for a loaded machine."""
END_S = 3.0
"""Seconds that a viewer has to exit before it is killed."""
MAX_PACKET_BYTES = 32 << 20
MAX_ERROR_BYTES = 20_000
MAX_SIDE = 2_000
"""Maximum number of columns, and of rows, of a terminal."""


class ViewerProcess:
    """The process that runs the screens of one websocket."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._errors = b""
        self._reading = asyncio.ensure_future(self._read_errors())

    @classmethod
    async def start(
        cls, command: Sequence[str], fds: Sequence[int], environ: Mapping[str, str], size: tuple[int, int]
    ) -> ViewerProcess:
        """Start the screens of a viewer.

        Args:
            command: The command that runs them.
            fds: Open files that the process inherits.
            environ: Its environment; variables about the terminal are added.
            size: Columns and rows.
        """
        columns, rows = bounded_size(*size)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=tuple(fds),
            env={
                **environ,
                "TEXTUAL_COLOR_SYSTEM": "truecolor",
                "TERM_PROGRAM": "textual",
                "TERM": "xterm-256color",
                "COLUMNS": str(columns),
                "ROWS": str(rows),
            },
            start_new_session=True,  # Ctrl-C is for `gpuwatch serve`, which ends its viewers
        )
        return cls(process)

    async def follow(self, write: Callable[[bytes], Awaitable[None]]) -> str:
        """Pass the screens' output to `write` until they end; return why they failed, or an empty string."""
        stream = self._process.stdout
        assert stream is not None  # noqa: S101 - a pipe
        try:
            first = await asyncio.wait_for(stream.readline(), START_S)
            while first == READY:
                kind, size = await stream.readexactly(1), await stream.readexactly(4)
                length = int.from_bytes(size, "big")
                if length > MAX_PACKET_BYTES:
                    break
                payload = await stream.readexactly(length)
                if kind == DATA:
                    await write(payload)
                elif kind == META and json.loads(payload).get("type") == "exit":
                    return ""
        except asyncio.IncompleteReadError:
            pass  # the process has ended
        except (ValueError, asyncio.TimeoutError) as error:
            return f"{type(error).__name__} {error}".strip()
        await self.end()
        return self._errors.decode("utf-8", "replace").strip()

    async def type(self, text: str) -> None:
        """Send text as a terminal does for keys and mouse events."""
        await self._write(DATA, text.encode("utf-8", "replace"))

    async def tell(self, what: str, **facts: int) -> None:
        """Send a message about the terminal to the screens: `resize`, `focus`, `blur`, `quit`."""
        await self._write(META, json.dumps({"type": what, **facts}).encode())

    async def end(self) -> None:
        """Ask the process to exit, then kill it; return when it has ended."""
        await self.tell("quit")
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), END_S)
        except asyncio.TimeoutError:
            self.kill()
            await self._process.wait()
        await self._reading

    def kill(self) -> None:
        """Kill the process and all processes that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _write(self, kind: bytes, payload: bytes) -> None:
        stream = self._process.stdin
        with contextlib.suppress(OSError, RuntimeError):
            if stream is not None and not stream.is_closing():
                stream.write(kind + len(payload).to_bytes(4, "big") + payload)
                await stream.drain()

    async def _read_errors(self) -> None:
        stream = self._process.stderr
        while stream is not None and (data := await stream.read(4096)):
            self._errors = (self._errors + data)[-MAX_ERROR_BYTES:]


def bounded_size(columns: int, rows: int) -> tuple[int, int]:
    """Clamp a terminal size to valid values."""
    return min(MAX_SIDE, max(1, columns)), min(MAX_SIDE, max(1, rows))
