"""Parses `nvidia-smi -q`: counters and states of each GPU that indicate a fault.

    GPU 00000000:4C:00.0
        Remapped Rows
            Pending                           : Yes

Headings are distinguished from values by the colon, and belong to what is indented below them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuwatch.rules.model import rule_ids
from gpuwatch.runs.saved_outputs.model import Fields, ToolFinding, ToolLine, date_in
from gpuwatch.whole_number import whole_number
from gpuwatch.wire import Severity

MARK = "NVSMI LOG"
HEADING = re.compile(r"=NVSMI LOG=")
MAX_SMI_GPUS = 256
_GPU = re.compile(r"\s*GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_VALUE = re.compile(r"(?P<indent>\s*)(?P<name>\S.{0,79}?)\s+: ?(?P<value>.*)$")
_HEADING = re.compile(r"[A-Z][\w /().+-]{1,60}$")
_HEADER_KEYS = ("Timestamp", "Driver Version", "CUDA Version", "Attached GPUs")
"""Keys above the first GPU."""
_LOST = re.compile(r"\[?(?:GPU requires reset|GPU is lost|Unknown Error|ERR!)\]?$", re.IGNORECASE)
_SLOWED = ("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "SW Thermal Slowdown")
_PENDING = (
    "Pending Page Blacklist",
    "Pending Page Retirement",
    "Channel Repair Pending",
    "TPC Repair Pending",
)
_NO_ACTION = ("none", "n/a", "[n/a]", "")


@dataclass
class _Gpu:
    """The fields of one GPU's section."""

    bus_id: str
    minor: int | None = None
    found: dict[str, ToolFinding] = field(default_factory=dict)
    """One finding per kind."""


class SmiQuery:
    """Reads `nvidia-smi -q`, from the line with `NVSMI LOG` to the first line that does not belong to it."""

    def __init__(self) -> None:
        self._gpus: list[_Gpu] = []
        self._attached: int | None = None
        self._at: float | None = None
        self._headings: list[tuple[int, str]] = []
        self._flat: bool | None = None
        """True if the text lost its indentation; None: unknown yet."""

    def take(self, line: ToolLine) -> bool:
        """Process a line; return False if it does not belong to the output."""
        text = line.text.rstrip()
        gpu = _GPU.match(text)
        if gpu:
            if len(self._gpus) < MAX_SMI_GPUS:
                self._gpus.append(_Gpu(gpu[1]))
            self._headings = []
            return True
        if not text or MARK in text:
            return True
        if self._gpus and self._flat is None:
            self._flat = not text[0].isspace()
        value = _VALUE.match(text)
        if value is None:
            return self._heading(text)
        indent, name = len(value["indent"]), value["name"]
        if indent == 0 and name not in _HEADER_KEYS and not self._flat:
            return False
        self._headings = [each for each in self._headings if each[0] < indent or self._flat]
        self._value(name, value["value"].strip(), line)
        return True

    def findings(self) -> list[ToolFinding]:
        """Return the findings of all GPUs, without those implied by a more severe one of the same GPU."""
        found: list[ToolFinding] = []
        indices = self.gpus()
        for gpu in self._gpus:
            index = indices.get(gpu.bus_id)
            own: Fields = {"bus_id": gpu.bus_id, **({} if index is None else {"gpu": index})}
            found += [
                ToolFinding(each.rule, each.severity, each.line, {**own, **each.fields}, each.above, self._at)
                for each in _worth_reporting(gpu.found)
            ]
        return found

    def gpus(self) -> dict[str, int]:
        """Return bus id -> index: the position if all GPUs are listed, else the minor number."""
        hidden = any(gpu.minor is not None and gpu.minor >= len(self._gpus) for gpu in self._gpus)
        if self._attached == len(self._gpus) and not hidden:
            return {gpu.bus_id: place for place, gpu in enumerate(self._gpus)}
        return {gpu.bus_id: gpu.minor for gpu in self._gpus if gpu.minor is not None}

    def _heading(self, text: str) -> bool:
        name = text.strip()
        indent = len(text) - len(text.lstrip())
        if not indent and not (self._flat and _HEADING.match(name)):
            return False
        self._headings = [each for each in self._headings if each[0] < indent]
        self._headings.append((indent, name))
        return True

    def _value(self, name: str, value: str, line: ToolLine) -> None:
        if not self._gpus:
            if name == "Timestamp":
                self._at = date_in(value)
            elif name == "Attached GPUs":
                self._attached = whole_number(value)
            return
        gpu = self._gpus[-1]
        if name == "Minor Number":
            gpu.minor = whole_number(value)
            return
        sections = {heading for _, heading in self._headings}
        kind = _lost(name, value) or _counted(name, value, sections) or _state(name, value, sections)
        if kind is not None and kind[0] not in gpu.found:
            rule, severity, fields = kind[1:]
            above = (f"GPU {gpu.bus_id}", *(heading for _, heading in self._headings))
            gpu.found[kind[0]] = ToolFinding(rule, severity, line, fields, above)


Kind = tuple[str, str, Severity, Fields]
"""Subject, rule id, severity and fields of a finding."""


def _lost(name: str, value: str) -> Kind | None:
    if _LOST.match(value):
        return "lost", rule_ids.GPU_LOST, "critical", {"answer": value.strip("[]")}
    if name == "Reset Required" and value == "Yes":
        return "lost", rule_ids.GPU_LOST, "critical", {"answer": "GPU requires reset"}
    return None


def _counted(name: str, value: str, sections: set[str]) -> Kind | None:
    """Return the finding of a counter of uncorrectable memory errors above zero, else None.

    Also of an exceeded SRAM threshold. Volatile counters count since the driver was loaded, aggregate ones
    over the GPU's life.
    """
    if name == "SRAM Threshold Exceeded" and value == "Yes":
        return "threshold", rule_ids.GPU_XID_ECC, "error", {"counter": "SRAM threshold exceeded"}
    errors = whole_number(value)
    if not errors:
        return None
    double_bit = "Double Bit" in sections and name == "Total"
    if not double_bit and "Uncorrectable" not in name:
        return None
    fields: Fields = {"errors": errors, "counter": "double bit" if double_bit else name}
    if "Volatile" in sections:
        return "volatile", rule_ids.GPU_XID_ECC, "critical", fields
    if "Aggregate" in sections:
        return "aggregate", rule_ids.GPU_ECC_HISTORY, "info", fields
    return None


def _state(name: str, value: str, sections: set[str]) -> Kind | None:
    if value == "Yes":
        if name == "Remapping Failure Occurred":
            return "remap_failed", rule_ids.GPU_REMAP_PENDING, "critical", {"failure": "Yes"}
        if name in _PENDING or (name == "Pending" and "Remapped Rows" in sections):
            return "remap_pending", rule_ids.GPU_REMAP_PENDING, "warning", {}
        if name == "Drain and Reset Recommended":
            return "recovery", rule_ids.GPU_XID_RECOVERY, "critical", {"action": "Drain and Reset"}
    if name in _SLOWED and value == "Active":
        severity: Severity = "warning" if name.startswith("SW") else "error"
        return (
            "slowed" if name.startswith("HW") else "sw_slowed",
            rule_ids.GPU_THROTTLED,
            severity,
            {"slowdown": name},
        )
    if name in ("GPU Recovery Action", "Recovery Action") and value.lower() not in _NO_ACTION:
        return "recovery", rule_ids.GPU_XID_RECOVERY, "critical", {"action": value}
    return None


def _worth_reporting(found: dict[str, ToolFinding]) -> list[ToolFinding]:
    """Return the findings without those implied by a more severe finding of the same GPU."""
    implied = {"aggregate": "volatile", "remap_pending": "remap_failed", "sw_slowed": "slowed"}
    if "remap_failed" in found and "volatile" in found:
        found["volatile"].fields["remapping"] = "failed"
    return [each for kind, each in found.items() if implied.get(kind) not in found]
