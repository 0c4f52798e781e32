"""Parses the table of plain `nvidia-smi`: GPUs in error, and volatile ECC counts.

|   3  NVIDIA A100-SXM4-80GB          On  | 00000000:4C:00.0 Off |                    2 |
| N/A   35C    P0              61W / 400W |      4MiB / 81920MiB |      0%      Default |
"""

from __future__ import annotations

import re

from gpuwatch.rules.model import rule_ids
from gpuwatch.runs.saved_outputs.model import Fields, ToolFinding, ToolLine
from gpuwatch.whole_number import whole_number

MARK = "| NVIDIA-SMI "
HEADING = re.compile(r"\| NVIDIA-SMI \d")
_ROW = re.compile(r"\|\s{0,4}(?P<gpu>\d{1,3})\s{1,3}(?!\d)\S")
_ADDRESS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")
ECC_CELL = 3
"""Index of the cell with volatile uncorrectable errors; the address is in the cell before it."""
_LOST = re.compile(r"\bERR!|Unknown Error|GPU is lost|requires reset", re.IGNORECASE)


class SmiTable:
    """Reads the table of `nvidia-smi`, to the first line that is no row, border or blank."""

    def __init__(self) -> None:
        self._own: Fields = {}
        self._rows = True
        """True in rows of GPUs, False in rows of processes."""
        self._gpus: dict[str, int] = {}
        self._found: dict[tuple[str, str], ToolFinding] = {}

    def take(self, line: ToolLine) -> bool:
        """Process a line; return False if it does not belong to the table."""
        text = line.text.strip()
        if text[:1] not in ("|", "+"):
            return not text
        if HEADING.search(text):
            self._rows, self._own = True, {}
        elif "Processes:" in text or "MIG devices:" in text:
            self._rows = False
        elif self._rows and text.startswith("|"):
            self._row(text, line)
        return True

    def findings(self) -> list[ToolFinding]:
        """Return one finding per kind and GPU."""
        return list(self._found.values())

    def gpus(self) -> dict[str, int]:
        """Return bus id -> index of all listed GPUs."""
        return self._gpus

    def _row(self, text: str, line: ToolLine) -> None:
        row = _ROW.match(text)
        if row:
            address = _ADDRESS.search(text)
            index = whole_number(row["gpu"])
            self._own = {} if index is None else {"gpu": index}
            if address and index is not None:
                self._own["bus_id"] = address[0]
                self._gpus[address[0]] = index
        if not self._own:
            return
        cells = [cell.strip() for cell in text.split("|")]
        if row and len(cells) > ECC_CELL and _ADDRESS.match(cells[ECC_CELL - 1]):
            errors = whole_number(cells[ECC_CELL])
            if errors:
                self._add(
                    ToolFinding(rule_ids.GPU_XID_ECC, "critical", line, {**self._own, "errors": errors})
                )
        lost = _LOST.search(text)
        if lost:
            self._add(ToolFinding(rule_ids.GPU_LOST, "critical", line, {**self._own, "answer": lost[0]}))

    def _add(self, found: ToolFinding) -> None:
        self._found.setdefault((found.rule, str(found.fields["gpu"])), found)
