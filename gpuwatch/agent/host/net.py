"""Reads network interfaces from /sys/class/net."""

import os
import re
import time

from ..base.procfs import names, read_int, read_text
from ..base.rates import rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

MAX_NICS = 64
SPEED_EVERY_S = 30.0
"""Seconds between readings of an interface's nature and speed; the speed takes the kernel's network lock."""
FAILURES_EVERY_S = 5.0
"""Seconds between readings of errors and dropped packets."""

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
        self._found: list[str] = []
        self._chosen: list[str] = []
        self._chosen_at = 0.0
        self._counters: dict[str, tuple[float, int | None, int | None]] = {}
        self._failures: dict[str, tuple[float, int | None, int | None]] = {}
        """Interface -> when they were read, its errors, its drops."""
        self._speeds: dict[str, tuple[float, str | None, float | None]] = {}

    def read(self) -> "list[dict[str, object]] | None":
        """Return one dict per interface to show, with the keys of `wire.Nic`; None: the kernel lists none."""
        found, now = names(self._root), self._monotonic()
        if found != self._found or now - self._chosen_at >= SPEED_EVERY_S:
            self._found, self._chosen_at = found, now
            folders = [name for name in found if os.path.isdir(os.path.join(self._root, name))]
            self._chosen = self._worth_showing([name for name in folders if name != "lo"])
            for known in (self._counters, self._failures, self._speeds):
                for name in set(known).difference(self._chosen):
                    del known[name]
            if not folders:
                self._found = []
        return [self._nic(name) for name in self._chosen] if self._found else None

    def _worth_showing(self, found: "list[str]") -> "list[str]":
        """Return the names of the physical network cards among the interfaces `found`, at most `MAX_NICS`.

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
        received, sent = (
            read_int(os.path.join(folder, "statistics", key)) for key in ("rx_bytes", "tx_bytes")
        )
        now = self._monotonic()
        before = self._counters.get(name)
        self._counters[name] = (now, received, sent)
        errors, drops = self._failures_of(name, now)
        state = read_text(os.path.join(folder, "operstate"), 64)
        facts: dict[str, object] = {
            "name": name,
            "state": state,
            "speed_bps": self._speed(name, state, now),
            "errors": errors,
            "drops": drops,
        }
        if before is not None:
            facts["rx_bps"] = rate(before[1], received, now - before[0])
            facts["tx_bps"] = rate(before[2], sent, now - before[0])
        return {key: value for key, value in facts.items() if value is not None}

    def _failures_of(self, name: str, now: float) -> "tuple[int | None, int | None]":
        """Return an interface's errors and dropped packets (None: unknown), read every FAILURES_EVERY_S."""
        known = self._failures.get(name)
        if known is None or now - known[0] >= FAILURES_EVERY_S:
            folder = os.path.join(self._root, name, "statistics")
            errors, drops = (
                _total(*(read_int(os.path.join(folder, side + what)) for side in ("rx_", "tx_")))
                for what in ("errors", "dropped")
            )
            known = self._failures[name] = (now, errors, drops)
        return known[1:]

    def _speed(self, name: str, state: "str | None", now: float) -> "float | None":
        """Return an interface's speed in bytes/s, read again after SPEED_EVERY_S or when its state changes.

        None: unknown (link down, virtual interface).
        """
        known = self._speeds.get(name)
        if known is None or known[1] != state or now - known[0] >= SPEED_EVERY_S:
            megabits = read_int(os.path.join(self._root, name, "speed"))
            known = (now, state, megabits * 1e6 / 8 if megabits is not None and megabits > 0 else None)
            self._speeds[name] = known
        return known[2]


def _total(*counts: "int | None") -> "int | None":
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
