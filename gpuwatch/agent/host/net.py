"""Reads network interfaces from /sys/class/net."""

import os
import re
import time

from ..base.procfs import names, read_int, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

MAX_NICS = 64
SPEED_EVERY_S = 30.0
"""Seconds between readings of the speed, which takes the kernel's network lock."""

_PLUMBING = re.compile(
    r"(veth|docker|br-|virbr|cni|flannel|cali|cilium|lxc|ifb|dummy|tunl|sit|gre|vxlan|nodelocal|kube)"
)


def is_plumbing(name: str) -> bool:
    """Return True if a network interface only connects containers or tunnels."""
    return _PLUMBING.match(name) is not None


class NicReader(object):
    """Reads the network interfaces, and converts their byte counters into rates."""

    def __init__(self, sys: str = "/sys", monotonic: "Callable[[], float]" = time.monotonic) -> None:
        self._root = os.path.join(sys, "class/net")
        self._monotonic = monotonic
        self._counters: dict[str, tuple[float, int | None, int | None]] = {}
        self._speeds: dict[str, tuple[float, str | None, float | None]] = {}

    def read(self) -> "list[dict[str, object]] | None":
        """Return one dict per interface with the keys of `wire.Nic`; None if the kernel lists none."""
        found = [name for name in names(self._root) if os.path.isdir(os.path.join(self._root, name))]
        if not found:
            return None
        chosen = self._worth_showing([name for name in found if name != "lo"])
        self._counters = {name: self._counters[name] for name in chosen if name in self._counters}
        self._speeds = {name: self._speeds[name] for name in chosen if name in self._speeds}
        return [self._nic(name) for name in chosen]

    def _worth_showing(self, found: "list[str]") -> "list[str]":
        """Return the names of the physical network cards among the interfaces `found`.

        If there are none (in a container) virtual functions, else other virtual ones.
        """
        best: dict[int, list[str]] = {}
        for name in found:
            best.setdefault(self._virtuality(name), []).append(name)
        return best[min(best)][:MAX_NICS] if best else []

    def _virtuality(self, name: str) -> int:
        device = os.path.join(self._root, name, "device")
        if os.path.exists(device):
            return 1 if os.path.exists(os.path.join(device, "physfn")) else 0
        return 3 if is_plumbing(name) else 2

    def _nic(self, name: str) -> "dict[str, object]":
        folder = os.path.join(self._root, name)
        count = {
            key: read_int(os.path.join(folder, "statistics", key))
            for key in ("rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
        }
        now = self._monotonic()
        before = self._counters.get(name)
        self._counters[name] = (now, count["rx_bytes"], count["tx_bytes"])
        state = read_text(os.path.join(folder, "operstate"), 64)
        facts: dict[str, object] = {
            "name": name,
            "state": state,
            "speed_bps": self._speed(name, state, now),
            "errors": _total(count["rx_errors"], count["tx_errors"]),
            "drops": _total(count["rx_dropped"], count["tx_dropped"]),
        }
        if before is not None:
            facts["rx_bps"] = rate(before[1], count["rx_bytes"], now - before[0])
            facts["tx_bps"] = rate(before[2], count["tx_bytes"], now - before[0])
        return {key: value for key, value in facts.items() if value is not None}

    def _speed(self, name: str, state: "str | None", now: float) -> "float | None":
        """Return an interface's speed in bytes/s, which is read again after SPEED_EVERY_S.

        None: unknown (link down, virtual interface).
        """
        known = self._speeds.get(name)
        if known is None or known[1] != state or now - known[0] >= SPEED_EVERY_S:
            megabits = read_int(os.path.join(self._root, name, "speed"))
            known = (now, state, megabits * 1e6 / 8 if megabits is not None and megabits > 0 else None)
            self._speeds[name] = known
        return known[2]


def rate(before: "int | None", after: "int | None", seconds: float) -> "float | None":
    """Return the rate per second between two counter values, with four significant digits.

    None if the counter was reset or is unknown.
    """
    if before is None or after is None or after < before or seconds <= 0:
        return None
    return float("%.4g" % ((after - before) / seconds))


def _total(*counts: "int | None") -> "int | None":
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
