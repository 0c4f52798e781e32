"""Takes the inventory of this node, before anything is started on it."""

import os
import socket
import time

from gpuwatch.agent.base.background import Background
from gpuwatch.agent.base.procfs import clean, read_text
from gpuwatch.agent.host.infiniband import PortReader
from gpuwatch.agent.processes.process_reader import ProcessReader
from gpuwatch.probe.launcher.connection.lines import MAX_TEXT
from gpuwatch.probe.launcher.inventory import bus_topology, interpreters, nics, trainers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

    from gpuwatch.probe.launcher.inventory.gpus import Gpus
    from gpuwatch.probe.launcher.inventory.interpreters import Interpreter

NVML_S = 12.0
"""Timeout in seconds for NVML and all GPUs together.

Without persistence mode the driver initialises each of them first.
"""
PORTS_S = 3.0
MAX_NOTES = 32
_PORT = ("device", "port", "state", "link_layer", "rate_gbps")


class InventoryReader(object):
    """Takes one inventory; afterwards `interpreter` is the one for the ranks, or None."""

    def __init__(
        self, gpus: "Gpus", python: "str | None", activate: "str | None", proc: str = "/proc"
    ) -> None:
        self._gpus = gpus
        self._python = python
        self._activate = activate
        self._proc = proc
        self.interpreter: Interpreter | None = None

    def read(self) -> "dict[str, Any]":
        """Take the inventory, set `interpreter`, and return a dict with the keys of `NodeInventory`."""
        now = time.monotonic()
        ports = Background(lambda: PortReader().read(), "infiniband")
        ports.start()
        gpus, notes = self._gpus.inventory(now + NVML_S)
        rows = _processes(gpus, self._proc)
        _name_users(gpus, rows, self._proc)
        refused: list[str] = []
        self.interpreter, tried = interpreters.choose(self._candidates(rows, refused))
        if not ports.wait(now + PORTS_S):
            notes.append("the InfiniBand ports do not answer: /sys/class/infiniband hangs")
        found = ports.answer()
        chosen = self.interpreter
        return {
            "host": clean(socket.gethostname(), MAX_TEXT),
            "boot_id": read_text(os.path.join(self._proc, "sys/kernel/random/boot_id"), 64),
            "pid": os.getpid(),
            "python": None if chosen is None else clean(chosen.real or chosen.python, MAX_TEXT),
            "python_from": None if chosen is None else chosen.why,
            "torch": None if chosen is None else clean(chosen.torch or "", 64),
            "tried": refused + tried,
            "cpus": _cpus(),
            "gpus": [dict(gpu, **bus_topology.of_gpu(gpu.get("bus_id"))) for gpu in gpus],
            "nics": nics.read(),
            "ports": _ports(found),
            "nccl": {} if chosen is None else bus_topology.nccl_settings(chosen.environ()),
            "notes": notes[:MAX_NOTES],
        }

    def _candidates(self, rows: "list[dict[str, Any]]", refused: "list[str]") -> "Iterator[Interpreter]":
        """Yield the interpreters to try, the preferred one first.

        If the hosts file has an activation line, only those that the file configures.
        """
        for one in interpreters.configured(self._python, self._activate):
            yield one
        if self._activate:
            return
        for one in trainers.interpreters(self._proc, rows, refused):
            yield one
        for one in interpreters.installed():
            yield one


def _processes(gpus: "list[dict[str, Any]]", proc: str) -> "list[dict[str, Any]]":
    """Return the processes on GPUs and the ranks without one, with the keys of `wire.Process`."""
    held: dict[int, list[dict[str, object]]] = {}
    for gpu in gpus:
        for user in gpu["users"]:
            held.setdefault(user["pid"], []).append({"uuid": gpu["uuid"]})
    return ProcessReader(proc=proc).read(held)[0]


def _name_users(gpus: "list[dict[str, Any]]", rows: "list[dict[str, Any]]", proc: str) -> None:
    """Set names and users of the processes on the GPUs, as far as they are visible from here."""
    by_pid = {row["pid"]: row for row in rows}
    for gpu in gpus:
        for user in gpu["users"]:
            row = by_pid.get(user["pid"], {})
            if row.get("name", "?") != "?":
                user["name"] = trainers.script(proc, user["pid"])
                if row.get("user"):
                    user["user"] = row["user"]


def _ports(found: "Any") -> "list[dict[str, Any]]":
    return [
        dict({key: port[key] for key in _PORT if key in port}, **bus_topology.of_port(port["device"]))
        for port in found or ()
    ]


def _cpus() -> "int | None":
    """Return the number of CPUs that this process may use; None: unknown."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count()
