"""Reads the counters of this node that indicate a bad link, before and after a measurement."""

import os
import time

from gpuwatch.agent.base.background import Background
from gpuwatch.agent.base.procfs import names, read_int, read_text
from gpuwatch.agent.host.infiniband import PortReader
from gpuwatch.agent.host.net import is_plumbing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpuwatch.probe.launcher.inventory.gpus import Gpus

PATIENCE_S = 3.0
"""Seconds to wait for the firmware of the GPUs, which may hang."""
MAX_NICS = 64
_NIC = ("rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
_TCP = {
    "Tcp:": ("net/snmp", {"RetransSegs": "retransmits"}),
    "TcpExt:": ("net/netstat", {"TCPTimeouts": "timeouts"}),
}


class CounterReader(object):
    """Reads the counters repeatedly; a query that hangs is repeated only after it has returned."""

    def __init__(self, gpus: "Gpus", proc: str = "/proc", sys: str = "/sys") -> None:
        self._gpus = gpus
        self._proc = proc
        self._sys = sys
        self._ports = Background(lambda: PortReader(sys).read(), "infiniband")

    def read(self) -> "dict[str, float]":
        """Return the counters by the names of `protocol.Counters`.

        Those that are not available in time are left out.
        """
        deadline = time.monotonic() + PATIENCE_S
        self._ports.start()
        values = tcp(self._proc)
        values.update(nics(self._sys))
        values.update(self._gpus.counters(deadline))
        self._ports.wait(deadline)
        values.update(_of_ports(self._ports.answer()))
        return values


def tcp(proc: str) -> "dict[str, float]":
    """Return `tcp:retransmits` and `tcp:timeouts` of this network namespace."""
    values: dict[str, float] = {}
    for head, (path, wanted) in _TCP.items():
        rows = [
            line.split()[1:]
            for line in (read_text(os.path.join(proc, path)) or "").splitlines()
            if line.startswith(head)
        ]
        if len(rows) == 2:
            reported = dict(zip(*rows))  # noqa: B905 - strict= needs 3.10
            values.update(
                ("tcp:" + name, float(reported[field])) for field, name in wanted.items() if field in reported
            )
    return values


def nics(sys: str) -> "dict[str, float]":
    """Return `nic:eth0:rx_errors` and so on of every interface except loopback.

    If there are more than `MAX_NICS`, those of containers are left out first.
    """
    root = os.path.join(sys, "class/net")
    found = sorted((name for name in names(root) if name != "lo"), key=is_plumbing)
    values: dict[str, float] = {}
    for name in found[:MAX_NICS]:
        for counter in _NIC:
            count = read_int(os.path.join(root, name, "statistics", counter))
            if count is not None:
                values["nic:{}:{}".format(name, counter)] = float(count)
    return values


def _of_ports(ports: "Any") -> "dict[str, float]":
    return {
        "ib:{}/{}:{}".format(port["device"], port["port"], name): float(count)
        for port in ports or ()
        for name, count in (port.get("errors") or {}).items()
    }
