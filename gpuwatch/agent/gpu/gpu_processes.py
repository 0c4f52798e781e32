"""Reads the processes of one GPU: memory and SM share by pid.

The library is called without the binding, with a buffer for the result: one call instead of two, and with the
right structure for the driver (the binding has only one layout).
"""

import ctypes
import time

from ..base import nvml_codes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .nvml import NvmlCaller

_FIRST_PROCESSES = 64
_MAX_PROCESSES = 4096
_NOT_AVAILABLE = 0xFFFFFFFFFFFFFFFF
_WIDE_SINCE, _WIDE_BEFORE = (535, 54), (535, 98)
"""Drivers whose _v3 lists have an additional field (see issues 75, 88 and 93 of nvitop)."""
RARE_EVERY_S = 30.0
"""Seconds between readings of graphics and MPS lists, which are nearly always empty on training nodes."""


class _NvmlProcess(ctypes.Structure):
    """nvmlProcessInfo_v2_t, also the layout of the _v3 calls."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class _WideProcess(ctypes.Structure):
    _fields_ = _NvmlProcess._fields_ + [("protected_memory", ctypes.c_ulonglong)]


class _OldProcess(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong)]


class _Share(ctypes.Structure):
    """nvmlProcessUtilizationSample_t."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("at_us", ctypes.c_ulonglong),
        ("sm", ctypes.c_uint),
        ("memory", ctypes.c_uint),
        ("encoder", ctypes.c_uint),
        ("decoder", ctypes.c_uint),
    ]


class GpuProcesses(object):
    """Reads the processes on a GPU: compute processes each time, graphics and MPS clients every 30 s."""

    def __init__(self, asker: "NvmlCaller", handle: "Any", driver: str) -> None:
        self._asker = asker
        self._handle = handle
        newest = _WideProcess if _WIDE_SINCE <= _version(driver) < _WIDE_BEFORE else _NvmlProcess
        self._layouts: Any = (("_v3", newest), ("_v2", _NvmlProcess), ("", _OldProcess))
        self._rare: dict[int, int | None] = {}
        self._rare_due = 0.0
        self._since_us = 0
        self._room = _FIRST_PROCESSES

    def read(self) -> "dict[int, dict[str, Any]]":
        """Return pid -> {memory_bytes, sm_pct} of the processes on the GPU, without unknown values.

        Raises:
            GpuLost: as `NvmlCaller.ask`.
        """
        now = time.monotonic()
        if now >= self._rare_due:
            self._rare_due = now + RARE_EVERY_S
            self._rare = self._list("nvmlDeviceGetGraphicsRunningProcesses")
            self._rare.update(self._list("nvmlDeviceGetMPSComputeRunningProcesses"))
        memory = dict(self._rare)
        memory.update(self._list("nvmlDeviceGetComputeRunningProcesses"))
        shares = self._shares() if memory else {}
        found = {}
        for pid, used in memory.items():
            holds = {"memory_bytes": used, "sm_pct": shares.get(pid)}
            found[pid] = {name: value for name, value in holds.items() if value is not None}
        return found

    def _list(self, call: str) -> "dict[int, int | None]":
        for suffix, layout in self._layouts:
            answer = self._filled("processes", call + suffix, layout)
            if answer is not None:
                return {p.pid: None if p.memory == _NOT_AVAILABLE else int(p.memory) for p in answer}
        return {}

    def _shares(self) -> "dict[int, int]":
        """Return pid -> share of the SMs (%) in the newest sample since the last reading.

        Shares above 100 are left out.
        """
        newest: dict[int, tuple[int, int]] = {}
        samples = self._filled("processes.sm_pct", "nvmlDeviceGetProcessUtilization", _Share) or []
        for sample in samples:
            if sample.sm <= 100 and sample.at_us >= newest.get(sample.pid, (0, 0))[0]:
                newest[sample.pid] = (sample.at_us, sample.sm)
                self._since_us = max(self._since_us, sample.at_us)
        return {pid: sm for pid, (_, sm) in newest.items()}

    def _filled(self, label: str, call: str, layout: "Any") -> "list[Any] | None":
        """Return the entries of the list that an NVML call fills; None: not supported; empty if it fails."""
        while True:
            count = ctypes.c_uint(self._room)
            entries = (layout * self._room)()
            if layout is _Share:
                since = ctypes.c_ulonglong(self._since_us)
                code = self._asker.ask_directly(
                    label, call, self._handle, entries, ctypes.byref(count), since
                )
            else:
                code = self._asker.ask_directly(label, call, self._handle, ctypes.byref(count), entries)
            if code == nvml_codes.INSUFFICIENT_SIZE and self._room < _MAX_PROCESSES:
                self._room = min(_MAX_PROCESSES, max(2 * self._room, 2 * count.value))
                continue
            if code in nvml_codes.NEVER:
                return None
            return list(entries[: min(count.value, self._room)]) if code == nvml_codes.OK else []


def _version(driver: str) -> "tuple[int, ...]":
    return tuple(int(part) for part in driver.split(".")[:2] if part.isdecimal())
