"""Starts and controls the worker process.

Its program is sent on stdin, followed by orders; its lines are passed on; the launcher outlives it.
"""

import json
import os
import queue
import subprocess
import threading
import zlib
from collections import deque

from gpuwatch.agent.base.procfs import clean
from gpuwatch.agent.processes.process_table import read_stat
from gpuwatch.probe.launcher.connection.lifeline import end_others
from gpuwatch.probe.launcher.connection.lines import MAX_LINE, MAX_TEXT
from gpuwatch.probe.launcher.inventory.interpreters import ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any, Deque

    from gpuwatch.probe.launcher.connection.lines import LineWriter
    from gpuwatch.probe.launcher.inventory.interpreters import Interpreter

ENTRY = "gpuwatch.probe.worker"
NEEDED = (ENTRY, "gpuwatch.probe.ranks")
"""Prefixes of the modules that are sent to the worker."""
LAST_LINES = 8
_DRAIN_S = 1.0
"""Seconds for which the rest of the worker's pipes is read after its end."""

# An entry of sys.path that is empty is the working folder, where a torch.py may lie.
_LOADER = (
    "import sys;sys.path=[p for p in sys.path if p];import zlib;"
    "r=sys.stdin.buffer;n=int(r.readline());exec(zlib.decompress(r.read(n)))"
)


class WorkerProcess(object):
    """The worker's process.

    The launcher's main thread starts it, because the kernel ends it together with that thread.
    """

    def __init__(
        self, outlet: "LineWriter", interpreter: "Interpreter", config: "dict[str, Any]", store: "Any"
    ) -> None:
        """Start the worker.

        Args:
            outlet: Receives its lines.
            interpreter: The interpreter that runs it.
            config: Its config, to which `store_fd` is added.
            store: The listening socket for the store, or None; it is closed here.

        Raises:
            OSError: the interpreter does not start.
            RuntimeError: this launcher was not started from sent sources, so it has none to send.
        """
        self._outlet = outlet
        self.stop_requested = False
        self._given_up: str | None = None
        store_fd = None if store is None else store.fileno()
        first = _program() + json.dumps(dict(config, store_fd=store_fd)).encode("ascii") + b"\n"
        passed = [] if store_fd is None else [store_fd]
        inside_in, outside_in = os.pipe()
        outside_out, inside_out = os.pipe()
        shell = interpreter.activate is not None
        try:
            self.process = subprocess.Popen(
                interpreter.argv(_LOADER, (inside_in, inside_out)),
                env=interpreter.environ(),
                stdin=subprocess.DEVNULL if shell else inside_in,
                stdout=subprocess.DEVNULL if shell else inside_out,
                stderr=subprocess.PIPE,
                pass_fds=passed + ([inside_in, inside_out] if shell else []),
            )
        except BaseException:
            os.close(outside_in)
            os.close(outside_out)
            raise
        finally:
            os.close(inside_in)
            os.close(inside_out)
            if store is not None:
                store.close()
        assert self.process.stderr is not None  # noqa: S101 - asked for above
        self._stderr: IO[bytes] = self.process.stderr
        self._last_words: Deque[str] = deque(maxlen=LAST_LINES)
        self._orders: queue.Queue[bytes] = queue.Queue()
        self._orders.put(first)
        _in_background(lambda: self._feed(outside_in), "to the worker")
        self._words = _in_background(self._listen, "the worker's stderr")
        self._lines = _in_background(lambda: self._pass_on(outside_out), "from the worker")
        self._end = _in_background(self._see_it_end, "the worker")

    def send(self, order: "dict[str, Any]") -> None:
        """Queue an order for the worker; returns at once."""
        self._orders.put(json.dumps(order).encode("ascii") + b"\n")

    def beat(self) -> None:
        """Send a heartbeat."""
        self._orders.put(b"\n")

    def state(self) -> "str | None":
        """Return the state in /proc: S, D, T, ...; None after its end."""
        found = read_stat("/proc", self.process.pid)
        return None if found is None else found.state

    def give_up(self, reason: str) -> None:
        """Kill the worker; `reason` is reported as the reason for its end."""
        self._given_up = reason
        self.process.kill()

    def wait(self, seconds: float) -> None:
        """Wait up to `seconds` until it has ended and all its lines were passed on."""
        self._end.join(seconds)

    def _feed(self, descriptor: int) -> None:
        """Write the queued orders; the worker may not read for long while it measures."""
        with os.fdopen(descriptor, "wb", 0) as pipe:
            while True:
                data = self._orders.get()
                try:
                    while data:
                        data = data[pipe.write(data) or 0 :]
                except OSError:
                    return  # it has ended, which is reported elsewhere

    def _pass_on(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb", MAX_LINE) as pipe:
            while True:
                line = pipe.readline(MAX_LINE)
                if not line:
                    break
                if line.startswith(b"{") and line.endswith(b"}\n"):
                    self._outlet.write(line)

    def _see_it_end(self) -> None:
        """Wait for the worker's end, kill leftover ranks, pass on the last lines, and report a failure."""
        status = self.process.wait()
        end_others()
        self._lines.join(_DRAIN_S)
        self._words.join(_DRAIN_S)
        if status != 0 or not self.stop_requested:
            self._outlet.emit("died", reason=self._why(status))

    def _why(self, status: int) -> str:
        if self._given_up is not None:
            return self._given_up
        words = list(self._last_words)
        message = "; its last words: " + "\n".join(words) if words else "; it printed nothing"
        return ("the worker ended: {}".format(ending(status)) + message)[: 8 * MAX_TEXT]

    def _listen(self) -> None:
        """Collect the worker's last lines on stderr; torch's warnings must not block it."""
        while True:
            line = self._stderr.readline(1 << 14)
            if not line:
                return
            message = clean(line.decode("utf-8", "replace"), MAX_TEXT)
            if message:
                self._last_words.append(message)


def _in_background(work: "Any", name: str) -> "threading.Thread":
    thread = threading.Thread(target=work, name=name)
    thread.daemon = True
    thread.start()
    return thread


def _program() -> bytes:
    """Return the sources that the worker needs, in the format of its loader.

    Raises:
        RuntimeError: this launcher itself was not sent as source text.
    """
    make = getattr(getattr(__spec__, "loader", None), "program", None)
    if make is None:
        raise RuntimeError("the worker is shipped by the launcher, and the launcher was not shipped")
    body = zlib.compress(make(ENTRY, NEEDED).encode("utf-8"), 6)
    return b"%d\n" % len(body) + body
