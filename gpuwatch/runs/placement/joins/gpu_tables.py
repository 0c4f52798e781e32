"""Reads from the tables of tools which GPU has which PCI address or UUID, and which one a process uses. Pure.

`nvidia-smi` (table, `-L`, `-q`, `--query-...`), `dcgmi discovery -l`, `rocm-smi --showbus`, `amd-smi list`,
`xpu-smi discovery`, `npu-smi info`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct, field

from gpuwatch.runs.model.clues import bus_key
from gpuwatch.whole_number import whole_number

MAX_ROWS = 4_096
_ADDRESS = r"(?P<bus>(?:[0-9a-fA-F]{4,8}:)[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])"
_MARK = re.compile(rb"GPU|NVIDIA|PCI|pci\.bus|NPU|BDF|Bus-Id")
_ONE_LINE = (
    re.compile(r"GPU\[(?P<gpu>\d{1,3})\]\s{0,8}: (?:Card )?PCI Bus: " + _ADDRESS),
    re.compile(r"\|\s{0,4}(?P<gpu>\d{1,3})\s{1,3}\S.{0,80}\|\s{0,3}" + _ADDRESS + r"\s"),
)
"""An index and an address in one line."""
_UUID = re.compile(r"GPU (?P<gpu>\d{1,3}): .{1,120}\(UUID: (?P<uuid>GPU-[0-9a-fA-F-]{8,40})\)")
_INDEX = re.compile(r"\s{0,8}(?:\|\s{0,3})?(?:GPU: )?(?P<gpu>\d{1,3})(?:\s{1,8}\||\s{1,8}\S|\s{0,4}$)")
_ADDRESS_BELOW = re.compile(
    r"(?:BDF|PCI Bus ID|PCI BDF Address|Bus-Id|\|\s{1,8}\d{0,3}\s{0,20}\|)\s{0,3}:?\s{0,3}" + _ADDRESS
)
"""An address below the line with its index."""
_PROCESS = re.compile(
    r"\|\s{1,6}(?P<gpu>\d{1,3})\s{1,8}(?:(?:N/A|\d{1,3})\s{1,8}(?:N/A|\d{1,3})\s{1,8}|\d{1,3}\s{1,20}\|\s{1,4})?"
    r"(?P<pid>\d{2,10})\s{1,20}(?:\|\s{1,4})?(?:(?:C|G|C\+G|M\+C)\s{1,8}\S|[A-Za-z])"
)
"""A row of the processes of nvidia-smi or npu-smi."""
_PROCESSES = re.compile(r"(?i)\|\s{1,4}(?:Processes:|GPU\s.{0,40}\bPID\b|NPU\s.{0,60}\bProcess id\b)")


class CsvColumns(NamedTuple):
    """Where the index and the PCI address are in the rows of a table, and the number of columns."""

    index_at: int
    bus_at: int
    size: int


class GpuTable(Struct):
    """The GPUs that one file lists."""

    addresses: dict[str, int] = field(default_factory=dict)
    """PCI address as of `bus_key`, or UUID -> index."""
    processes: dict[int, int] = field(default_factory=dict)
    """Pid -> index; none for a process on several GPUs."""


def gpu_table(lines: Sequence[bytes]) -> GpuTable | None:
    """Return the GPUs that the sample lines of a file list; None: none."""
    if _MARK.search(b"\n".join(lines[:40])) is None:
        return None
    table = GpuTable()
    several: set[int] = set()
    index: int | None = None
    columns: CsvColumns | None = None
    in_processes = False
    for raw in lines[:MAX_ROWS]:
        text = raw[:300].decode("utf-8", "replace")
        in_processes = in_processes or _PROCESSES.match(text) is not None
        if in_processes:
            row = _PROCESS.match(text)
            if row is not None:
                pid, gpu = int(row["pid"]), int(row["gpu"])
                if table.processes.setdefault(pid, gpu) != gpu:
                    several.add(pid)
            continue
        heading = _columns(text) if "bus_id" in text else None
        if heading is not None:
            columns = heading
            continue
        index = _take(table, text, index, columns)
    for pid in several:
        del table.processes[pid]
    return table if table.addresses or table.processes else None


def _columns(text: str) -> CsvColumns | None:
    """Return the columns of a table that `nvidia-smi --query-gpu` prints as CSV; None: it is no heading."""
    names = [cell.strip().partition(" ")[0] for cell in text.split(",")]
    bus = next((at for at, name in enumerate(names) if name in ("gpu_bus_id", "pci.bus_id")), None)
    return None if bus is None or "index" not in names else CsvColumns(names.index("index"), bus, len(names))


def _take(table: GpuTable, text: str, index: int | None, columns: CsvColumns | None) -> int | None:
    """Add what a line lists; return the index to which an address below it belongs, None: to none."""
    found = next((each for form in _ONE_LINE if (each := form.match(text.lstrip()))), None)
    if found is not None:
        table.addresses.setdefault(bus_key(found["bus"]), int(found["gpu"]))
        return None
    named = _UUID.match(text)
    if named is not None:
        table.addresses.setdefault(named["uuid"], int(named["gpu"]))
        return None
    cells = [cell.strip() for cell in text.split(",")]
    number = whole_number(cells[columns.index_at]) if columns and len(cells) == columns.size else None
    if columns is not None and number is not None:
        if re.fullmatch(_ADDRESS, cells[columns.bus_at]):
            table.addresses.setdefault(bus_key(cells[columns.bus_at]), number)
        return None
    below = _ADDRESS_BELOW.search(text) if index is not None else None
    if below is not None and index is not None:
        table.addresses.setdefault(bus_key(below["bus"]), index)
        return None
    begun = _INDEX.match(text)
    return index if begun is None else int(begun["gpu"])
