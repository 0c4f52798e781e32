"""Reads InfiniBand and RoCE ports from /sys/class/infiniband."""

import os
import re
import time

from ..base.procfs import names, read_int, read_text
from ..base.rates import rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

MAX_PORTS = 64
ERRORS_EVERY_S = 10.0
"""Seconds between readings of error counters; each is a command to the card's firmware."""

_ERRORS = (
    ("counters", "symbol_error"),
    ("counters", "link_downed"),
    ("counters", "link_error_recovery"),
    ("counters", "port_rcv_errors"),
    ("counters", "port_xmit_discards"),
    ("counters", "local_link_integrity_errors"),
    ("counters", "excessive_buffer_overrun_errors"),
    ("hw_counters", "out_of_sequence"),
    ("hw_counters", "packet_seq_err"),
    ("hw_counters", "rnr_nak_retry_err"),
    ("hw_counters", "local_ack_timeout_err"),
    ("hw_counters", "roce_adp_retrans"),
    ("hw_counters", "np_cnp_sent"),
    ("hw_counters", "rp_cnp_handled"),
)

_SATURATED = 0xFFFFFFFF
"""Value at which an old 32-bit port counter is saturated and useless."""


class PortReader(object):
    """Reads state, link rate, error counters and throughput (bytes/s) of the InfiniBand and RoCE ports.

    Throughput is measured against the previous `read`, so the first has none.
    """

    def __init__(self, sys: str = "/sys", monotonic: "Callable[[], float]" = time.monotonic) -> None:
        self._root = os.path.join(sys, "class/infiniband")
        self._monotonic = monotonic
        self._counters: dict[str, tuple[float, int | None, int | None]] = {}
        self._errors: dict[str, tuple[float, dict[str, int]]] = {}

    def read(self) -> "list[dict[str, object]] | None":
        """Return one dict per port with the keys of `wire.IbPort`; None: this node has no port."""
        found = [
            (device, int(number))
            for device in names(self._root)
            for number in names(os.path.join(self._root, device, "ports"))
            if number.isdecimal()
        ]
        return [self._port(device, number) for device, number in found[:MAX_PORTS]] or None

    def _port(self, device: str, number: int) -> "dict[str, object]":
        folder = os.path.join(self._root, device, "ports", str(number))
        received = _words_as_bytes(os.path.join(folder, "counters/port_rcv_data"))
        sent = _words_as_bytes(os.path.join(folder, "counters/port_xmit_data"))
        now = self._monotonic()
        before = self._counters.get(folder)
        self._counters[folder] = (now, received, sent)
        facts: dict[str, object] = {
            "device": device,
            "port": number,
            "state": _after_number(read_text(os.path.join(folder, "state"), 64)),
            "physical_state": _after_number(read_text(os.path.join(folder, "phys_state"), 64)),
            "link_layer": read_text(os.path.join(folder, "link_layer"), 64),
            "rate_gbps": _gigabits(read_text(os.path.join(folder, "rate"), 64)),
            "errors": self._error_counters(folder, now) or None,
        }
        if before is not None:
            facts["rx_bps"] = rate(before[1], received, now - before[0])
            facts["tx_bps"] = rate(before[2], sent, now - before[0])
        return {key: value for key, value in facts.items() if value is not None}

    def _error_counters(self, folder: str, now: float) -> "dict[str, int]":
        known = self._errors.get(folder)
        if known is None or now - known[0] >= ERRORS_EVERY_S:
            counts = {name: read_int(os.path.join(folder, group, name)) for group, name in _ERRORS}
            known = (now, {name: count for name, count in counts.items() if count is not None})
            self._errors[folder] = known
        return known[1]


def _words_as_bytes(path: str) -> "int | None":
    """Return the value of `port_xmit_data` or `port_rcv_data` in bytes; None: unreadable or saturated.

    They count words of four bytes (sysfs-class-infiniband).
    """
    words = read_int(path)
    return None if words is None or words == _SATURATED else words * 4


def _after_number(text: "str | None") -> "str | None":
    """Return the name in a state of sysfs: `ACTIVE` for `4: ACTIVE`; None for None."""
    return text.partition(":")[2].strip() or text if text else None


def _gigabits(text: "str | None") -> "float | None":
    """Return the link rate in Gb/s: 400.0 for `400 Gb/sec (4X NDR)`; None for other text."""
    match = re.match(r"([\d.]+)\s*Gb/sec", text or "")
    return float(match.group(1)) if match else None
