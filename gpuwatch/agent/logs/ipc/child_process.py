"""A running log reader as seen by the agent: its process, its pipes, and whether it hangs."""

import json
import os
import subprocess
import sys
import time
import zlib

from .activity_marker import last_activity
from .process_stats import cpu_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .activity_marker import Activity

_LOADER = "import sys,zlib;r=sys.stdin.buffer;n=int(r.readline());exec(zlib.decompress(r.read(n)))"
STALL_CPU_S = 3.0
"""CPU seconds without a message that mean an endless pattern; a step takes 0.1 s."""
STALL_DISK_S = 5.0
"""Allowed silence of the log reader in seconds while the kernel blocks its read (state D)."""
STALL_S = 20.0
"""Allowed silence of the log reader in seconds while it waits for anything but a disk."""
START_CPU_S = 20.0
"""CPU seconds that the log reader may use before its first message: it compiles hundreds of patterns."""
_PIECE_BYTES = 1 << 18
SHIPPED_PACKAGES = ("base", "masking", "patterns", "ranks")
"""Packages of the agent besides `logs` that the reader imports."""


class Child(object):
    """The log reader's process; `config` is sent to it with the activity marker and the agent's pid."""

    def __init__(self, config: "dict[str, Any]") -> None:
        """Start the process.

        Raises:
            OSError: The interpreter does not start.
            RuntimeError: The agent was not sent as a bundle, so it has no program to send on.
        """
        marker = os.pipe()
        self._marker = marker[0]
        try:
            first = _program() + json.dumps(dict(config, marker=marker, parent=os.getpid())).encode() + b"\n"
            self.process = subprocess.Popen(
                [sys.executable, "-ISu", "-c", _LOADER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=marker,
            )
        except BaseException:
            os.close(marker[0])
            raise
        finally:
            os.close(marker[1])
        assert self.process.stdin is not None and self.process.stdout is not None  # noqa: S101 - asked for above
        self.input, self.output = self.process.stdin.fileno(), self.process.stdout.fileno()
        for end in (self.input, self.output):
            os.set_blocking(end, False)
        self.unsent = first
        self.sent: dict[str, bytes] = {}
        """The standing messages that it has received."""
        self._rest = b""
        self._spoken = False
        self._received = time.monotonic()
        self._worked = 0.0

    def write(self) -> bool:
        """Write queued messages as far as the pipe accepts them; return False if the reader is gone."""
        try:
            written = os.write(self.input, self.unsent[:_PIECE_BYTES])
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.unsent = self.unsent[written:]
        return True

    def read(self) -> "list[str] | None":
        """Return the complete lines received since the last call; None at the end of the stream."""
        try:
            data = os.read(self.output, _PIECE_BYTES)
        except BlockingIOError:
            return []
        if not data:
            return None
        self._spoken = True
        self.receive()
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        return [line.decode("ascii") for line in lines]

    def receive(self) -> None:
        """Note that a message was received, which restarts the limit on silence."""
        self._received, self._worked = time.monotonic(), cpu_s(self.process.pid)[0]

    def hangs(self) -> "str | None":
        """Return why the reader must be killed: `work` (endless), `wait` (too long), `stopped`; else None."""
        silent = time.monotonic() - self._received
        if silent < min(STALL_CPU_S, STALL_DISK_S):
            return None
        worked, state = cpu_s(self.process.pid)
        if worked - self._worked > (STALL_CPU_S if self._spoken else START_CPU_S):
            return "work"
        if silent > (STALL_DISK_S if state == "D" else STALL_S) and state != "R":
            return "stopped" if state in ("T", "t") else "wait"
        return None

    def last_activity(self) -> "Activity":
        """Return the last activity that the reader announced."""
        return last_activity(self._marker)

    def kill(self) -> bool:
        """Kill the reader; return False while the kernel does not end it."""
        try:
            self.process.kill()
            self.process.wait(0.5)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return True

    def close(self) -> None:
        """Close the agent's ends of the reader's pipes."""
        os.close(self._marker)
        for end in (self.process.stdin, self.process.stdout):
            if end is not None:
                end.close()


def _program() -> bytes:
    """Return the source files that the reader needs, in the form that its loader reads."""
    package = __name__.rsplit(".", 2)[0]
    agent = package.rpartition(".")[0]
    shipped = getattr(__spec__, "loader", None)
    make = getattr(shipped, "program", None)
    if make is None:
        raise RuntimeError("the agent was not sent as a bundle, so it has no log reader to start")
    needed = (package,) + tuple(agent + "." + name for name in SHIPPED_PACKAGES)
    text = make(package + ".worker", needed)
    body = zlib.compress(text.encode("utf-8"), 1)
    return str(len(body)).encode("ascii") + b"\n" + body
