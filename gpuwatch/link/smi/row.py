"""Converts a row of `nvidia-smi --query-gpu` into parts of a frame. Pure.

Where nvidia-smi has no number it writes words in brackets; such a field is left out, never 0.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

from msgspec import Struct

from gpuwatch.agent.gpu.sampling_tiers import REASONS
from gpuwatch.link.smi.shell_script import COLUMNS, MORE_COLUMNS
from gpuwatch.plain import plain
from gpuwatch.wire import GpuFast, GpuInfo, GpuMedium, GpuSample, GpuSlow

MIB = 1 << 20
WORD_LIMIT = 100
MAX_VALUE = 1e12
"""Highest accepted number in a row of nvidia-smi, larger than any memory in MiB."""
MAX_SMI_GPUS = 64
"""Rows of more GPUs are refused, so that garbage cannot fill the fleet."""
_LOST = re.compile(r"gpu is lost|fallen off the bus|requires reset", re.IGNORECASE)
_UNKNOWN = "[Unknown Error]"
_NOT_SUPPORTED = frozenset({"[Not Supported]", "[N/A]", "N/A", ""})
_UUID = re.compile(r"(?:GPU-)?[0-9A-Fa-f-]{8,64}")
_IDENTITY = frozenset({"timestamp", "index", "uuid", "name", "pci.bus_id", "driver_version"})
_LAYOUTS = {len(columns): columns for columns in (COLUMNS, MORE_COLUMNS)}
FIELDS = {
    "utilization.gpu": "utilization_pct",
    "utilization.memory": "memory_utilization_pct",
    "memory.used": "memory_used_bytes",
    "memory.total": "memory_total_bytes",
    "temperature.gpu": "temperature_c",
    "power.draw": "power_w",
    "enforced.power.limit": "power_limit_w",
    "clocks.sm": "sm_clock_mhz",
    "clocks.mem": "memory_clock_mhz",
    "pcie.link.gen.current": "pcie_gen",
    "pcie.link.width.current": "pcie_width",
    "pstate": "performance_state",
    "fan.speed": "fan_pct",
    "clocks_throttle_reasons.active": "throttle",
    "ecc.errors.corrected.volatile.total": "ecc_corrected",
    "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected",
}
"""Column -> the field of `wire.GpuFast`, `GpuMedium` or `GpuSlow` that it fills."""


class RowError(ValueError):
    """Raised for a line that starts like a row but is invalid; the message is safe to show."""


class Row(Struct, frozen=True):
    """One GPU's row of nvidia-smi's output; values are unparsed."""

    values: dict[str, str]

    @property
    def at(self) -> float:
        """Return the row's time stamp read as UTC (unix seconds); the node's clock may be in another zone."""
        text = self.values["timestamp"]
        return datetime.strptime(text, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=timezone.utc).timestamp()

    @property
    def index(self) -> int | None:
        """Return the driver's index of the GPU; None if not reported."""
        return self._whole("index")

    @property
    def uuid(self) -> str | None:
        """Return the GPU's UUID; None if not reported."""
        text = self.values["uuid"]
        return text if _UUID.fullmatch(text) else None

    @property
    def bus_id(self) -> str | None:
        """Return the GPU's PCI address; None if not reported."""
        text = self.values["pci.bus_id"]
        return text if ":" in text else None

    @property
    def driver(self) -> str | None:
        """Return the driver's version; None if not reported."""
        text = self.values["driver_version"]
        return text if text[:1].isdecimal() else None

    def lost(self) -> str | None:
        """Return why the GPU counts as lost, in nvidia-smi's words; None if it responds.

        A GPU with only errors and no value is lost too.
        """
        for text in self.values.values():
            if _LOST.search(text):
                return text.strip("[]")
        measured = [text for column, text in self.values.items() if column not in _IDENTITY]
        errors = [text for text in measured if text == _UNKNOWN]
        answered = [text for text in measured if text != _UNKNOWN and text not in _NOT_SUPPORTED]
        return _UNKNOWN.strip("[]") if errors and not answered else None

    def info(self, uuid: str, index: int) -> GpuInfo:
        """Return the constant properties of the GPU."""
        return GpuInfo(
            uuid=uuid,
            index=index,
            name=self.values["name"],
            bus_id=self.bus_id,
            memory_total_bytes=self._bytes("memory.total"),
            power_limit_default_w=self._number("power.default_limit"),
            power_limit_max_w=self._number("power.max_limit"),
            sm_clock_max_mhz=self._whole("clocks.max.sm"),
            memory_clock_max_mhz=self._whole("clocks.max.mem"),
            pcie_gen_max=self._whole("pcie.link.gen.max"),
            pcie_width_max=self._whole("pcie.link.width.max"),
        )

    def sample(self, uuid: str, t: float) -> GpuSample:
        """Return the GPU's values; `t` is the row's time on the node's clock, unix seconds."""
        reason = self.lost()
        if reason is not None:
            return GpuSample(uuid=uuid, state="lost", reason=reason)
        fast = GpuFast(
            t=t,
            utilization_pct=self._number("utilization.gpu"),
            memory_utilization_pct=self._number("utilization.memory"),
            memory_used_bytes=self._bytes("memory.used"),
            memory_total_bytes=self._bytes("memory.total"),
            temperature_c=self._number("temperature.gpu"),
            power_w=self._number("power.draw"),
            sm_clock_mhz=self._whole("clocks.sm"),
            throttle=self._throttle(),
        )
        medium = GpuMedium(
            t=t,
            memory_clock_mhz=self._whole("clocks.mem"),
            power_limit_w=self._number("enforced.power.limit"),
            pcie_gen=self._whole("pcie.link.gen.current"),
            pcie_width=self._whole("pcie.link.width.current"),
            performance_state=self._performance_state(),
            fan_pct=self._number("fan.speed"),
        )
        return GpuSample(uuid=uuid, fast=fast, medium=medium, slow=self._slow(t))

    def missing(self) -> dict[str, str]:
        """Return field -> why it has no value, for `wire.GpuSample.missing`."""
        return {
            field: _why(text)
            for column, field in FIELDS.items()
            if (text := self.values.get(column)) is not None
            and (text in _NOT_SUPPORTED or not text[:1].isalnum())
        }

    def _slow(self, t: float) -> GpuSlow | None:
        if "ecc.errors.corrected.volatile.total" not in self.values:
            return None
        return GpuSlow(
            t=t,
            ecc_corrected=self._whole("ecc.errors.corrected.volatile.total"),
            ecc_uncorrected=self._whole("ecc.errors.uncorrected.volatile.total"),
        )

    def _number(self, column: str) -> float | None:
        try:
            value = float(self.values.get(column, ""))
        except ValueError:
            return None
        return value if 0 <= value <= MAX_VALUE else None

    def _whole(self, column: str) -> int | None:
        value = self._number(column)
        return None if value is None else round(value)

    def _bytes(self, column: str) -> int | None:
        value = self._number(column)
        return None if value is None else round(value * MIB)

    def _throttle(self) -> list[str] | None:
        try:
            bits = int(self.values.get("clocks_throttle_reasons.active", ""), 16)
        except ValueError:
            return None
        return [name for bit, name in REASONS if bits & bit]

    def _performance_state(self) -> int | None:
        found = re.fullmatch(r"P(\d{1,2})", self.values.get("pstate", ""))
        return None if found is None else int(found[1])


def parse_row(line: str) -> Row:
    """Return the row in one line of `nvidia-smi --format=csv,noheader,nounits`.

    Raises:
        RowError: The number of values is not that of `COLUMNS` or `MORE_COLUMNS`, the time stamp is missing,
            or the GPU's index is too high.
    """
    values = [plain(text.strip())[:WORD_LIMIT] for text in line.split(",")]
    columns = _LAYOUTS.get(len(values))
    if columns is None:
        raise RowError(
            f"a row of {len(values)} values from nvidia-smi instead of {' or '.join(map(str, _LAYOUTS))}; "
            "is it another program, or another version?"
        )
    row = Row(dict(zip(columns, values, strict=True)))
    try:
        _ = row.at
    except ValueError as error:
        raise RowError("a row of nvidia-smi without its time") from error
    if row.index is not None and row.index >= MAX_SMI_GPUS:
        raise RowError(f"a GPU with the number {row.index} from nvidia-smi")
    return row


def _why(text: str) -> str:
    if text in _NOT_SUPPORTED:
        return "not_supported"
    if "permission" in text.lower():
        return "no_permission"
    return text.strip("[]").lower()
