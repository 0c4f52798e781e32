"""Runs one confirmed command to its end, here or over a node's link, with limits on time and output size."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from functools import partial

from gpuwatch.diagnose.actions.action import Action, ActionOutcome
from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.child_process import ChildCarrier
from gpuwatch.link.stream.carrier import Carrier, CarrierError, Dialer
from gpuwatch.plain import plain, plain_lines
from gpuwatch.shell_command import command_line

RUNS_S = 120.0
"""Seconds after which a running command is ended; a drain, a kill and a reset take seconds."""
STATUS_S = 2.0
"""Seconds to wait for the exit status after the end of the output."""
MAX_OUTPUT_BYTES, MAX_LINES = 64 << 10, 200


class ActionRun:
    """One command on its own thread, started by `start`; `outcome` holds its result."""

    def __init__(self, action: Action, opened: Callable[[], Carrier], limit_s: float = RUNS_S) -> None:
        """Create the run of an action; `start` begins it.

        Args:
            action: The confirmed action.
            opened: Starts the command.
            limit_s: The command is ended after this many seconds.
        """
        self.action = action
        self.outcome: ActionOutcome | None = None
        """The outcome of the command; None while it runs."""
        self._opened, self._limit_s = opened, limit_s
        self._thread = threading.Thread(target=self._run, name=f"action {action.kind}", daemon=True)

    def start(self) -> None:
        """Start the command; does not block."""
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` seconds; return True if the command has ended."""
        self._thread.join(timeout_s)
        return self.outcome is not None

    def _run(self) -> None:
        try:
            carrier = self._opened()
        except (CarrierError, OSError) as error:
            self.outcome = ActionOutcome(None, problem=f"not run: {plain(str(error))}")
            return
        try:
            self.outcome = self._result(carrier)
        except OSError as error:
            self.outcome = ActionOutcome(
                None, problem=f"the link broke ({plain(str(error))}): whether it ran is not known"
            )

    def _result(self, carrier: Carrier) -> ActionOutcome:
        given_up = threading.Event()

        def give_up() -> None:
            given_up.set()
            carrier.close()

        watchdog = threading.Timer(self._limit_s, give_up)
        watchdog.daemon = True
        watchdog.start()
        try:
            output = bytearray()
            while data := carrier.recv(MAX_OUTPUT_BYTES):
                output += data
                del output[:-MAX_OUTPUT_BYTES]
            status = None if given_up.is_set() else carrier.exit_status(STATUS_S)
            text = "\n".join((output.decode("utf-8", "replace"), carrier.stderr()))
        finally:
            watchdog.cancel()
            carrier.close()
        problem = ""
        if given_up.is_set():
            problem = f"it did not end within {self._limit_s:g} s and was given up; it may still be running"
        elif status is None:
            problem = "it ran; its exit status is unknown"
        return ActionOutcome(status, "\n".join(plain_lines(text, MAX_LINES)), problem)


SAME_PROCESS = """
pid=$1 start=$2 signal=$3
stat=$(cat "/proc/$pid/stat" 2>/dev/null) || { echo "process $pid has ended" >&2; exit 3; }
set -f
set -- ${stat##*)}
for number in "${20}" "$start"; do
  case $number in ''|*[!0-9]*) echo "cannot read when process $pid started" >&2; exit 3;; esac
done
while read -r key value; do [ "$key" = btime ] && boot=$value; done < /proc/stat
hz=$(getconf CLK_TCK 2>/dev/null || echo 100)
off=$((boot + ${20} / hz - start))
[ "$off" -ge -2 ] && [ "$off" -le 2 ] || { echo "number $pid is another process now" >&2; exit 3; }
kill $signal "$pid"
"""
"""A shell script that sends a signal to a process only if it started at a given time (unix seconds).

Process ids are used again. Word 20 behind the name in /proc/PID/stat is the start in ticks since the boot
(proc(5)). The name is the process's choice and may hold line feeds, `)` and patterns: what follows its last
`)` is never expanded, and only digits reach the arithmetic. The boot time in /proc/stat may differ by a
second between two readings.
"""


def _argv(action: Action) -> tuple[str, ...]:
    """Return the arguments to run.

    A signal to a process with a known start time is sent by a script that checks the process once more.
    """
    process = action.process
    if process is None or process.start is None:
        return action.argv
    options = action.argv[1:-1]
    return ("sh", "-c", SAME_PROCESS, "gpuwatch", str(process.pid), str(int(process.start)), *options)


def run_of(action: Action, spec: NodeSpec | None, dialer: Dialer | None) -> ActionRun:
    """Return a run of an action that is not started yet.

    Args:
        action: The confirmed action.
        spec: The node that it runs on; None: it runs on this machine.
        dialer: Opens a carrier to that node.

    Raises:
        CarrierError: the program is not installed here, or no link to the node carries commands.
    """
    if spec is None or spec.link == "local":
        argv = _argv(action)
        if shutil.which(argv[0]) is None:
            raise CarrierError(f"{argv[0]} is not installed on this machine", final=True)
        return ActionRun(action, partial(ChildCarrier, argv))
    if dialer is None:
        raise CarrierError(f"{spec.name} has no link that carries a command", final=True)
    return ActionRun(action, partial(dialer, command_line(_argv(action))))
