"""RUNS ON THE NODES: takes the inventory, listens, tries connections, starts and ends the worker.

Standard library and pynvml only, Python 3.6 and later; torch belongs to the worker. One JSON line each way
(`probe.protocol`). The main thread starts the worker, because the kernel ends that together with the thread
that started it; everything that blocks has a thread of its own.
"""

import queue
import select
import threading
import time

from gpuwatch.agent.base.requests import Requests
from gpuwatch.probe.launcher.connection.lifeline import Lifeline
from gpuwatch.probe.launcher.connection.lines import MAX_LINE, LineWriter
from gpuwatch.probe.launcher.inventory.counters import CounterReader
from gpuwatch.probe.launcher.inventory.gpus import Gpus
from gpuwatch.probe.launcher.inventory.inventory import InventoryReader
from gpuwatch.probe.launcher.listening import Listener
from gpuwatch.probe.launcher.reaching import reach_all
from gpuwatch.probe.launcher.worker_process import WorkerProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Callable, NoReturn

DEADLINE_S = 3600.0
"""Seconds after which everything on the node is killed, if the config has no deadline."""
STOP_S = 4.0
"""Seconds for the ranks to exit in order; then they are killed."""
_POLL_S = 0.5
_BEAT_S = 5.0
"""Interval of the heartbeats to the conductor and to the worker."""
_STOPPED_BEATS = 4
"""Number of consecutive heartbeats after which a stopped worker is killed."""
_WORKER_PATIENCE = 2
"""The worker kills everything after the launcher's silence limit times this factor without any line."""


def run(config: "dict[str, Any]", stdin: "BinaryIO", stdout: "BinaryIO") -> "NoReturn":
    """Serve one conductor, then end this process.

    Args:
        config: nonce, version, python, activate, deadline_s, and silence_s: exit if nothing, not even an
            empty line, was received for this long. For tests `proc`, the process file system, and
            `worker_silence_s`, the silence after which the worker kills the launcher.
        stdin: The orders; its end ends everything.
        stdout: Receives the messages.
    """
    outlet = LineWriter(stdout.fileno())
    lifeline = Lifeline(outlet)
    lifeline.take_group()
    deadline = time.monotonic() + float(config.get("deadline_s") or DEADLINE_S)
    lifeline.end_at(deadline)
    launcher = Launcher(config, outlet, lifeline, deadline)
    intake = threading.Thread(target=launcher.take_in, args=(Requests(stdin, MAX_LINE),), name="orders")
    intake.daemon = True
    intake.start()
    try:
        launcher.serve()
    except OSError:
        lifeline.cut("the connection is closed")


class Launcher(object):
    """The launcher of one node: executes the orders of a probe."""

    def __init__(
        self, config: "dict[str, Any]", outlet: "LineWriter", lifeline: "Lifeline", deadline: float
    ) -> None:
        self._config = config
        self._outlet = outlet
        self._lifeline = lifeline
        self._deadline = deadline
        self._orders: queue.Queue[dict[str, Any] | ValueError] = queue.Queue()
        self._gpus = Gpus()
        self._inventory_reader = InventoryReader(
            self._gpus, config.get("python"), config.get("activate"), config.get("proc", "/proc")
        )
        self._counters = CounterReader(self._gpus)
        self._counting = threading.Lock()
        self._silence_s = float(config.get("silence_s") or 0.0)
        """0: never exit because of silence."""
        self._worker_silence_s = float(config.get("worker_silence_s") or _WORKER_PATIENCE * self._silence_s)
        self._beat_s = min(_BEAT_S, self._worker_silence_s / 4 or _BEAT_S)
        self._listener: Listener | None = None
        self._worker: WorkerProcess | None = None

    def take_in(self, requests: "Requests") -> "NoReturn":
        """Queue the received orders; end everything at the end of stdin, or after too long a silence."""
        try:
            self._queue_orders(requests)
        except Exception as error:  # without this thread nothing would end us
            self._lifeline.cut("an error in the launcher: {!r}".format(error))
        self._lifeline.cut("the connection ended")

    def _queue_orders(self, requests: "Requests") -> None:
        silence_s = self._silence_s or float("inf")
        received = time.monotonic()
        while not requests.ended:
            silent = time.monotonic() - received > silence_s
            # looked at last, so that a time in which we were stopped does not count when something has come
            if select.select([requests], [], [], 0.0 if silent else _POLL_S)[0]:
                received = time.monotonic()
            elif silent:
                self._lifeline.cut("nothing was received for {:g} s".format(silence_s))
            for order in requests.read():
                if isinstance(order, dict) and order.get("do") == "stop" and self._worker is None:
                    self._lifeline.leave("stopped")
                self._orders.put(order)

    def serve(self) -> "NoReturn":
        """Send the inventory, then execute orders; does not return.

        Raises:
            OSError: the connection is closed.
        """
        self._outlet.begin(str(self._config["nonce"]))
        self._beside(self._beat)
        self._outlet.emit("inventory", **self._inventory_reader.read())
        while True:
            order = self._orders.get()
            if isinstance(order, ValueError):
                self._outlet.note("a command from gpuwatch was not understood on this node: {}".format(order))
                continue
            try:
                self._do(order)
            except (KeyError, TypeError, ValueError) as error:
                text = "the command {} from gpuwatch was not understood on this node: {!r}"
                self._outlet.note(text.format(order.get("do"), error))

    def _do(self, order: "dict[str, Any]") -> None:
        command = order.get("do")
        if command == "listen":
            self._listen(str(order["address"]))
        elif command == "reach":
            targets = [dict(one, port=int(one["port"])) for one in order["targets"]]
            source = str(self._listener.address if self._listener is not None else "")
            self._beside(lambda: self._reach(source, targets, float(order.get("timeout_s", 5.0))))
        elif command == "count":
            self._beside(self._count)
        elif command == "prepare":
            self._prepare(order)
        elif command == "step":
            if self._worker is None:
                self._outlet.note("a step was requested before the ranks were prepared")
            else:
                self._worker.send(order)
        elif command == "stop":
            self._stop(order)
        else:
            self._outlet.note("a command from gpuwatch is unknown on this node: {}".format(command))

    def _listen(self, address: str) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        try:
            self._listener = Listener(address)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            error_text = "cannot listen on {}: {}".format(address, why)
            self._outlet.emit("listening", address=address, port=0, error=error_text)
            return
        self._outlet.emit("listening", address=address, port=self._listener.port)

    def _reach(self, source: str, targets: "list[dict[str, Any]]", timeout_s: float) -> None:
        self._outlet.emit("reached", tries=reach_all(source, targets, timeout_s))

    def _count(self) -> None:
        with self._counting:
            self._outlet.emit("counters", values=self._counters.read())

    def _prepare(self, order: "dict[str, Any]") -> None:
        if self._worker is not None:
            self._outlet.note("ignored a second command to prepare the ranks")
            return
        store = None
        if self._listener is not None:
            if order.get("store_here"):
                store = self._listener.take()
            else:
                self._listener.close()
            self._listener = None
        interpreter = self._inventory_reader.interpreter
        if interpreter is None:
            self._outlet.emit("died", reason="no interpreter with torch was found on this node")
            return
        config = {
            "nonce": self._config["nonce"],
            "version": self._config.get("version"),
            "deadline_s": max(0.0, self._deadline - time.monotonic()),
            "silence_s": self._worker_silence_s,
        }
        try:
            self._worker = WorkerProcess(self._outlet, interpreter, config, store)
        except (OSError, RuntimeError) as error:
            self._outlet.emit("died", reason="the worker does not start: {}".format(error))
            return
        self._worker.send(order)

    def _stop(self, order: "dict[str, Any]") -> "NoReturn":
        if self._worker is not None:
            self._worker.stop_requested = True
            self._worker.send(order)
            self._worker.wait(STOP_S)
        self._lifeline.leave("stopped")

    def _beat(self) -> None:
        """Send a heartbeat with the worker's state at intervals; give up a worker that stays stopped.

        The worker does not send it, because an import may keep it from writing.
        """
        stopped = 0
        while True:
            time.sleep(self._beat_s)
            worker, state = self._worker, None
            if worker is not None:
                worker.beat()
                state = worker.state()
                stopped = stopped + 1 if state in ("T", "t") else 0
                if stopped == _STOPPED_BEATS:
                    worker.give_up("it was stopped (by SIGSTOP or a debugger) and did not continue")
            try:
                self._outlet.emit("alive", worker=state)
            except OSError:
                self._lifeline.cut("the connection is closed")

    def _beside(self, work: "Callable[[], None]") -> None:
        """Run a function in a separate thread; a failure is reported to the conductor."""

        def attempt() -> None:
            try:
                work()
            except Exception as error:
                self._outlet.note("an error in the launcher: {!r}".format(error))

        thread = threading.Thread(target=attempt, name="order")
        thread.daemon = True
        thread.start()
