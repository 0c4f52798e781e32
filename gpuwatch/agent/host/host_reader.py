"""Reads the host: processor, memory, network, disks."""

import os
import re
import time

from ..base.background import Background
from ..base.procfs import read_bytes
from .disks import DiskReader
from .infiniband import PortReader
from .net import NicReader
from .psutil_host import OtherSystem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

DISKS_EVERY_S = 30.0
IB_PATIENCE_S = 0.2
"""Seconds that a tick waits for a network card whose counters may block."""


class HostReader(object):
    """Reads the host part of a sample; remembers the previous counters, for rates."""

    def __init__(
        self,
        clock: "Callable[[], float]" = time.time,
        proc: str = "/proc",
        sys: str = "/sys",
        monotonic: "Callable[[], float]" = time.monotonic,
    ) -> None:
        self._clock = clock
        self._elsewhere = None if os.path.exists(os.path.join(proc, "stat")) else OtherSystem(monotonic)
        self._monotonic = monotonic
        self._proc = proc
        self._times: list[int] | None = None
        self._nics = NicReader(sys, monotonic)
        self._ports = Background(PortReader(sys, monotonic).read, "infiniband", lasting=True)
        self._disks = DiskReader(proc)
        self._disks_due = monotonic()

    def read(self) -> "dict[str, object]":
        """Return a dict with the keys of `wire.HostSample`; unknown values are left out."""
        sample: dict[str, object] = {"t": self._clock()}
        sample.update(load())
        if self._elsewhere is not None:
            sample.update(self._elsewhere.read())
            return sample
        sample.update(self._processor())
        sample.update(memory(read_bytes(os.path.join(self._proc, "meminfo")) or b""))
        self._ports.start()
        sample["nics"] = self._nics.read()
        sample["disks"] = self._disks_when_due()
        self._ports.wait(time.monotonic() + IB_PATIENCE_S)
        sample["ib"] = self._ports.answer()
        return {key: value for key, value in sample.items() if value is not None}

    def _processor(self) -> "dict[str, object]":
        text = (read_bytes(os.path.join(self._proc, "stat"), 512) or b"").split(b"\n", 1)[0]
        if not text.startswith(b"cpu "):
            return {}
        times = [int(word) for word in text.split()[1:9]]
        before, self._times = self._times, times
        return {} if before is None else processor_shares(before, times)

    def _disks_when_due(self) -> "list[dict[str, object]] | None":
        if self._monotonic() < self._disks_due:
            return None
        self._disks_due = self._monotonic() + DISKS_EVERY_S
        return self._disks.read()


def processor_shares(before: "list[int]", after: "list[int]") -> "dict[str, object]":
    """Return busy and iowait percent of all processors between two `cpu` lines of /proc/stat, or {}.

    The columns are user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user.
    """
    spent = [max(0, new - old) for old, new in zip(before, after)]  # noqa: B905 - strict= needs 3.10
    total = sum(spent)
    if total == 0 or len(spent) < 5:
        return {}
    busy = sum(spent[:3]) + sum(spent[5:7])
    return {"cpu_pct": 100.0 * busy / total, "iowait_pct": 100.0 * spent[4] / total}


def load() -> "dict[str, object]":
    """Return the load averages of 1, 5 and 15 minutes; empty if unknown."""
    try:
        one, five, fifteen = os.getloadavg()
    except OSError:
        return {}
    return {"load_1m": one, "load_5m": five, "load_15m": fifteen}


def memory(meminfo: bytes) -> "dict[str, object]":
    """Return total and used bytes of memory and swap, where known.

    Used memory is MemTotal - MemAvailable: what is available without swapping does not count.
    """
    fields = {key: int(value) * 1024 for key, value in re.findall(rb"(?m)^(\w+):\s+(\d+) kB$", meminfo)}
    facts: dict[str, object] = {}
    if b"MemTotal" in fields:
        facts["memory_total_bytes"] = fields[b"MemTotal"]
        if b"MemAvailable" in fields:
            facts["memory_used_bytes"] = fields[b"MemTotal"] - fields[b"MemAvailable"]
    if b"SwapTotal" in fields and b"SwapFree" in fields:
        facts["swap_total_bytes"] = fields[b"SwapTotal"]
        facts["swap_used_bytes"] = fields[b"SwapTotal"] - fields[b"SwapFree"]
    return facts
