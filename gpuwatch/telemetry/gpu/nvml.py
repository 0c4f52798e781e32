"""Reads GPUs with NVML through ctypes, without any package. Values that the driver refuses are None."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
_TEXT = 96
_OK = 0


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _MemoryV2(ctypes.Structure):
    """NVML's memory struct that lists the driver's own reserve separately from the used memory."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


_MEMORY_V2 = ctypes.sizeof(_MemoryV2) | 2 << 24


class NvmlLibrary:
    """The driver's NVML library, initialized."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def by_uuid(self, uuid: str) -> Any:
        """Return the handle of the GPU or MIG instance with a UUID; None if the call fails."""
        return self._handle("nvmlDeviceGetHandleByUUID", ctypes.c_char_p(uuid.encode()))

    def by_index(self, index: int) -> Any:
        """Return the handle of a GPU by the driver's index, or None."""
        return self._handle("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index))

    def count(self) -> int:
        """Return the number of GPUs that the driver lists; 0 also if the call fails."""
        number = ctypes.c_uint()
        return number.value if self._call("nvmlDeviceGetCount_v2", ctypes.byref(number)) else 0

    def driver_version(self) -> str | None:
        """Return the version as `nvidia-smi` prints it; None if the call fails."""
        text = ctypes.create_string_buffer(_TEXT)
        called = self._call("nvmlSystemGetDriverVersion", text, ctypes.c_uint(_TEXT))
        return text.value.decode("utf-8", "replace") if called else None

    def identity(self, handle: Any) -> dict[str, Any]:
        """Return `index`, `uuid` and `name` of a GPU; None for each that is refused."""
        return {
            "index": self._number(handle, "nvmlDeviceGetIndex", ctypes.c_uint),
            "uuid": self._text(handle, "nvmlDeviceGetUUID"),
            "name": self._text(handle, "nvmlDeviceGetName"),
        }

    def reading(self, handle: Any) -> dict[str, float | None]:
        """Return the changing values by name; None for each that is refused.

        Utilization (%), memory (bytes and %), temperature (C), power (W), energy (J).
        """
        load, celsius = _Utilization(), ctypes.c_uint()
        has_load = self._call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(load))
        used, total = self._memory(handle)
        has_celsius = self._call("nvmlDeviceGetTemperature", handle, ctypes.c_uint(0), ctypes.byref(celsius))
        milliwatts = self._number(handle, "nvmlDeviceGetPowerUsage", ctypes.c_uint)
        millijoules = self._number(handle, "nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong)
        return {
            "utilization_pct": float(load.gpu) if has_load else None,
            "memory_used_bytes": used,
            "memory_total_bytes": total,
            "memory_pct": 100.0 * used / total if used is not None and total else None,
            "temperature_c": float(celsius.value) if has_celsius else None,
            "power_w": None if milliwatts is None else milliwatts / 1e3,
            "energy_j": None if millijoules is None else millijoules / 1e3,
        }

    def _memory(self, handle: Any) -> tuple[int | None, int | None]:
        """Return the used and total bytes, or None twice; drivers before 510 count their reserve as used."""
        newer, older = _MemoryV2(version=_MEMORY_V2), _Memory()
        if self._call("nvmlDeviceGetMemoryInfo_v2", handle, ctypes.byref(newer)) and newer.total:
            return int(newer.used), int(newer.total)
        if self._call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(older)) and older.total:
            return int(older.used), int(older.total)
        return None, None

    def _call(self, name: str, *arguments: Any) -> bool:
        function: Callable[..., int] | None = getattr(self._library, name, None)  # an old driver lacks some
        return function is not None and function(*arguments) == _OK

    def _handle(self, name: str, argument: Any) -> Any:
        handle = ctypes.c_void_p()
        return handle if self._call(name, argument, ctypes.byref(handle)) else None

    def _number(self, handle: Any, name: str, kind: Any) -> int | None:
        number = kind()
        return int(number.value) if self._call(name, handle, ctypes.byref(number)) else None

    def _text(self, handle: Any, name: str) -> str | None:
        text = ctypes.create_string_buffer(_TEXT)
        return (
            text.value.decode("utf-8", "replace")
            if self._call(name, handle, text, ctypes.c_uint(_TEXT))
            else None
        )


_LOCK = threading.Lock()
_opened: list[NvmlLibrary | None] = []


def open_nvml() -> NvmlLibrary | None:
    """Return the driver's library, opened once per process; None if it is missing or refuses."""
    with _LOCK:
        if not _opened:
            _opened.append(_open())
        return _opened[0]


def _open() -> NvmlLibrary | None:
    try:
        library = ctypes.CDLL(LIBRARY)
        return NvmlLibrary(library) if library.nvmlInit_v2() == _OK else None
    except (OSError, AttributeError):
        return None
