"""Reads a machine without /proc (macOS): with psutil if installed, else only a few values."""

import importlib
import os

from ..base.rates import rate
from .disks import usage
from .net import MAX_NICS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_LOOPBACK = ("lo", "lo0")


class OtherSystem(object):
    """The values of `wire.HostSample` that are available without /proc."""

    def __init__(self, monotonic: "Callable[[], float]") -> None:
        self._monotonic = monotonic
        self._psutil = _psutil()
        self._times: tuple[float, float] | None = None
        self._counters: dict[str, tuple[float, int, int]] = {}

    def read(self) -> "dict[str, object]":
        """Return host values with the keys of `wire.HostSample`; fewer without psutil.

        They are processor, memory, swap, interfaces and the root file system.
        """
        sample: dict[str, object] = {}
        used, total = usage("/")
        sample["disks"] = [{"mount": "/", "used_bytes": used, "total_bytes": total}]
        psutil = self._psutil
        if psutil is None:
            sample["memory_total_bytes"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            return sample
        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        sample["memory_total_bytes"], sample["memory_used_bytes"] = (
            memory.total,
            memory.total - memory.available,
        )
        sample["swap_total_bytes"], sample["swap_used_bytes"] = swap.total, swap.used
        sample.update(self._processor(psutil.cpu_times()))
        sample["nics"] = self._nics(psutil.net_if_stats(), psutil.net_io_counters(pernic=True))
        return sample

    def _processor(self, times: "Any") -> "dict[str, object]":
        total, idle = sum(times), times.idle + getattr(times, "iowait", 0.0)
        before, self._times = self._times, (total, idle)
        if before is None or total <= before[0]:
            return {}
        share = 1.0 - (idle - before[1]) / (total - before[0])
        return {"cpu_pct": min(100.0, max(0.0, 100.0 * share))}

    def _nics(self, states: "Any", found: "Any") -> "list[dict[str, object]]":
        chosen = [name for name in sorted(found) if name not in _LOOPBACK and name in states]
        return [self._nic(name, found[name], states[name]) for name in chosen[:MAX_NICS]]

    def _nic(self, name: str, count: "Any", state: "Any") -> "dict[str, object]":
        now = self._monotonic()
        before = self._counters.get(name)
        self._counters[name] = (now, count.bytes_recv, count.bytes_sent)
        facts: dict[str, object] = {
            "name": name,
            "state": "up" if state.isup else "down",
            "speed_bps": state.speed * 1e6 / 8 if state.speed > 0 else None,
            "errors": count.errin + count.errout,
            "drops": count.dropin + count.dropout,
        }
        if before is not None:
            facts["rx_bps"] = rate(before[1], count.bytes_recv, now - before[0])
            facts["tx_bps"] = rate(before[2], count.bytes_sent, now - before[0])
        return {key: value for key, value in facts.items() if value is not None}


def _psutil() -> "Any":
    try:
        return importlib.import_module(
            "psutil"
        )  # not at the top: on a node with /proc it would only use memory
    except ImportError:
        return None
