"""Reads nvmlDeviceGetFieldValues: many values in one call, each with its own return code and time stamp.

Field ids are those of nvml.h. Some facts have several sources (an older and a newer field, a total or
per-link values); if this GPU or driver lacks a source, the next one is used.
"""

import ctypes
import math
import struct

from ..base import nvml_codes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .nvml import NvmlCaller

MEMORY_TEMPERATURE = 82
POWER_AVERAGE = 185
POWER_INSTANT = 186
ENERGY = 83
THROTTLE = {
    "power_cap": 74,
    "thermal": 75,
    "sync_boost": 76,
    "sw_thermal": 269,
    "hw_thermal": 270,
    "power_brake": 271,
}
NVLINK_COUNT = 91
NVLINK_STATE = 165
NVLINK_TX_KIB = 138
NVLINK_RX_KIB = 139
NVLINK_TX_BYTES = 202
NVLINK_RX_BYTES = 204
PCIE_TX_BYTES = 197
PCIE_RX_BYTES = 198
RECOVERY_ACTION = 230

ALL_LINKS = 0xFFFFFFFF

_VALUE = struct.Struct("=IIqqiiQ")
"""nvmlFieldValue_t: field, scope, time stamp in us, latency in us, value type, return code, value."""
_KEY = struct.Struct("=II")
_MAX_REFUSALS = 2
"""Consecutive invalid-argument codes after which a field counts as unknown to the driver."""


def decoded(kind: int, raw: int) -> "float | int | None":
    """Return the value of an nvmlValue_t by its type; None for NaN, Inf and "blank" sentinels."""
    packed = raw.to_bytes(8, _BYTE_ORDER)
    value = _UNPACK.get(kind, _UNPACK[3]).unpack_from(packed)[0]
    blank = _BLANK.get(kind)
    if not math.isfinite(value) or (blank is not None and value >= blank):
        return None
    return value  # type: ignore[no-any-return]  # filtered by `isfinite` above: an int or a float


_BYTE_ORDER: "Any" = "little" if struct.pack("=H", 1) == b"\x01\x00" else "big"
_UNPACK = {
    0: struct.Struct("=d"),
    1: struct.Struct("=I"),
    2: struct.Struct("=Q"),
    3: struct.Struct("=Q"),
    4: struct.Struct("=q"),
    5: struct.Struct("=i"),
    6: struct.Struct("=H"),
}
_BLANK = {1: 0x7FFFFFF0, 5: 0x7FFFFFF0, 2: 0x7FFFFFFFFFFFFFF0, 3: 0x7FFFFFFFFFFFFFF0, 4: 0x7FFFFFFFFFFFFFF0}


class FactSource(object):
    """A fact and the NVML fields that can supply it, best first.

    A source is (scale, [(field, scope), ...]); its values are summed and multiplied by the scale.
    """

    def __init__(self, name: str, *ways: "tuple[float, list[tuple[int, int]]]") -> None:
        self.name = name
        self.ways = [way for way in ways if way[1]]
        self._refused = 0

    def entries(self) -> "list[tuple[int, int]]":
        """Return (field, scope) of the fact's current source, to query now; empty if no source is left."""
        return self.ways[0][1] if self.ways else []

    def give_up(self, code: int) -> bool:
        """Return True if a return code ends the fact's current source for good; the next is then used."""
        self._refused = self._refused + 1 if code == nvml_codes.INVALID_ARGUMENT else 0
        if code not in nvml_codes.NEVER and self._refused < _MAX_REFUSALS:
            return False
        self.ways.pop(0)
        self._refused = 0
        return True


class FieldBatch(object):
    """Reads the facts of one GPU with one call of NVML, into a reused buffer."""

    CALL = "nvmlDeviceGetFieldValues"

    def __init__(self, wanted: "list[FactSource]") -> None:
        self._wanted = wanted
        self._lay_out()

    def _lay_out(self) -> None:
        keys = sorted({key for wanted in self._wanted for key in wanted.entries()})
        self._count = len(keys)
        self._buffer = ctypes.create_string_buffer(_VALUE.size * max(1, len(keys)))
        for i, key in enumerate(keys):
            _KEY.pack_into(self._buffer, i * _VALUE.size, *key)

    def read(self, asker: "NvmlCaller", handle: "Any", label: str) -> "dict[str, tuple[float, int]]":
        """Return fact -> (value, time stamp in us); facts without a current value are left out.

        Raises:
            GpuLost: as `NvmlCaller.ask`.
        """
        if not self._count:
            return {}
        if asker.ask_directly(label, self.CALL, handle, self._count, self._buffer) != nvml_codes.OK:
            return {}
        answers: dict[tuple[int, int], tuple[int, float | int | None, int]] = {}
        size = self._count * _VALUE.size
        for field, scope, at_us, _, kind, code, raw in _VALUE.iter_unpack(self._buffer.raw[:size]):
            answers[(field, scope)] = (code, decoded(kind, raw) if code == nvml_codes.OK else None, at_us)
        return self._join(asker, answers)

    def _join(
        self, asker: "NvmlCaller", answers: "dict[tuple[int, int], tuple[int, float | int | None, int]]"
    ) -> "dict[str, tuple[float, int]]":
        found: dict[str, tuple[float, int]] = {}
        moved = False
        for wanted in self._wanted:
            parts = [answers[key] for key in wanted.entries()]
            if not parts:
                continue
            code = max(part[0] for part in parts)
            if code != nvml_codes.OK and wanted.give_up(code):
                moved = True
                if wanted.ways:
                    continue
                code = nvml_codes.NOT_SUPPORTED
            asker.judge(wanted.name, code, self.CALL)
            values = [part[1] for part in parts if part[1] is not None]
            if code == nvml_codes.OK and len(values) == len(parts):
                found[wanted.name] = (sum(values) * wanted.ways[0][0], max(part[2] for part in parts))
        if moved:
            self._lay_out()
        return found
