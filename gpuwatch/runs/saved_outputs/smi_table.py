"""Parses the table of plain `nvidia-smi`: GPUs in error, and volatile ECC counts; links that are inactive.

|   3  NVIDIA A100-SXM4-80GB          On  | 00000000:4C:00.0 Off |                    2 |
| N/A   35C    P0              61W / 400W |      4MiB / 81920MiB |      0%      Default |
"""

from __future__ import annotations

import re
from collections import Counter

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
NVLINK_MARK = "(UUID: GPU-"
NVLINK_HEADING = re.compile(r"^GPU \d{1,3}: .{1,120} \(UUID: GPU-")
NVLINK_RULE = rule_ids.GPU_NVLINK_INACTIVE

_GPU = re.compile(r"^GPU (?P<gpu>\d{1,3}): ")
_LINK = re.compile(
    r"^\s{1,12}Link (?P<link>\d{1,3}): (?P<state><?inactive>?|[\d.]{1,10} GB/s)\s*$", re.IGNORECASE
)
ALONE_SHARE = 0.75
"""If a node has one GPU, share of its links that must be active for the others to count as lost."""


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


class NvlinkStatus:
    """The links of all GPUs of a node."""

    def __init__(self) -> None:
        self._gpu = -1
        self._heading = ""
        self._active: dict[int, set[int]] = {}
        self._inactive: list[tuple[int, int, str, ToolLine]] = []

    def take(self, line: ToolLine) -> bool:
        """Process a line; return False if the output ended before it."""
        gpu = _GPU.match(line.text)
        if gpu is not None:
            self._gpu, self._heading = int(gpu["gpu"]), line.text
            self._active.setdefault(self._gpu, set())
            return True
        link = _LINK.match(line.text)
        if link is None:
            return not line.text.strip()
        if link["state"].strip("<>").lower() == "inactive":
            self._inactive.append((self._gpu, int(link["link"]), self._heading, line))
        else:
            self._active[self._gpu].add(int(link["link"]))
        return True

    def findings(self) -> list[ToolFinding]:
        """Return a finding for each GPU with an inactive link that is active on most GPUs.

        If only one GPU is listed, at least `ALONE_SHARE` of its links must be active instead.
        """
        users = Counter(link for links in self._active.values() for link in links)
        lost = Counter(gpu for gpu, *_ in self._inactive)
        found: dict[int, ToolFinding] = {}
        for gpu, link, heading, line in self._inactive:
            own = len(self._active[gpu])
            every = own + lost[gpu]
            alone = len(self._active) == 1 and own >= ALONE_SHARE * every
            if (alone or 2 * users[link] > len(self._active)) and gpu not in found:
                found[gpu] = ToolFinding(NVLINK_RULE, "error", line, {"gpu": gpu, "link": link}, (heading,))
        return list(found.values())
