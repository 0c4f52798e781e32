"""Reads the output of a node's commands: `df` (full file systems) and `ibstat` (ports that are down)."""

from __future__ import annotations

import re

from gpuwatch.rules.model import rule_ids
from gpuwatch.runs.saved_outputs.model import ToolFinding, ToolLine

DF_MARK = "Mounted on"
DF_HEADING = re.compile(r"^Filesystem\s.{0,120}(?:I?Use%|Capacity)\s{1,8}Mounted on")
IBSTAT_MARK = "CA '"
IBSTAT_HEADING = re.compile(r"^CA '[\w.-]{1,64}'")

IBSTATUS_MARK, RDMA_MARK = "Infiniband device '", "physical_state "
IBSTATUS_HEADING = re.compile(r"^Infiniband device '[\w.-]{1,64}' port \d{1,3} status:")
RDMA_HEADING = re.compile(r"^link [\w.-]{1,64}/\d{1,3} state [A-Z]{2,12} physical_state ")
_STATUS = re.compile(
    r"^Infiniband device '(?P<device>[\w.-]{1,64})' port (?P<port>\d{1,3}) status:"
    r"|^\s{0,8}state:\s{1,8}\d: (?P<state>[A-Z]{2,12})"
    r"|^link (?P<rdma>[\w.-]{1,64})/(?P<rdma_port>\d{1,3}) state (?P<rdma_state>[A-Z]{2,12}) "
)
_DF_ROW = re.compile(r"^(?P<device>\S{1,400})\s.{0,200}\s(?P<used>\d{1,3})%\s{1,8}(?P<mount>/\S{0,400})\s*$")
_ALWAYS_FULL = re.compile(r"^(?:/dev/loop|/dev/sr|squashfs|tmpfs$|udev$|overlay\d)|^/snap/")
FULL_PCT = 100
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount point in an output


class Df:
    """Reads the table of `df`."""

    def __init__(self) -> None:
        self._found: list[ToolFinding] = []

    def take(self, line: ToolLine) -> bool:
        """Process a line of `df`; return False if it is neither the heading nor a row."""
        row = _DF_ROW.match(line.text)
        if row is None:
            return DF_HEADING.match(line.text) is not None
        image = _ALWAYS_FULL.search(row["device"]) or _ALWAYS_FULL.search(row["mount"])
        if int(row["used"]) >= FULL_PCT and (not image or row["mount"] == SHARED_MEMORY):
            rule = rule_ids.OOM_SHM if row["mount"] == SHARED_MEMORY else rule_ids.STORAGE_FULL
            self._found.append(ToolFinding(rule, "error", line, {"path": row["mount"]}, by_driver=False))
        return True

    def findings(self) -> list[ToolFinding]:
        """Return a finding for each full file system (100 %) other than images and temporary ones."""
        return self._found


class Ibstat:
    """Reads `ibstat`; a port that is down is reported only if another port is up."""

    def __init__(self) -> None:
        self._device = self._port = ""
        self._up = 0
        self._down: list[ToolFinding] = []

    def take(self, line: ToolLine) -> bool:
        """Process a line; return False if the output ended before it."""
        text = line.text.strip()
        if IBSTAT_HEADING.match(line.text):
            self._device = text.split("'")[1]
        elif text[:1] and line.text[:1] not in (" ", "\t"):
            return False
        elif text.startswith("Port ") and text.endswith(":"):
            self._port = text[5:-1]
        elif text.startswith("State:"):
            self._state(text.partition(":")[2].strip(), line)
        return True

    def findings(self) -> list[ToolFinding]:
        """Return the ports that are down; none if no port is up."""
        return self._down if self._up else []

    def _state(self, state: str, line: ToolLine) -> None:
        state = state.capitalize()
        if state == "Active":
            self._up += 1
        elif state in ("Down", "Initializing", "Armed"):
            above = (f"CA '{self._device}'", f"Port {self._port}:")
            fields: dict[str, str | int | float] = {"device": self._device, "port": self._port}
            self._down.append(
                ToolFinding(rule_ids.NET_NIC_LINK, "warning", line, fields, above, by_driver=False)
            )


class IbStatus(Ibstat):
    """Reads the same ports from the output of `ibstatus` or `rdma link`."""

    def take(self, line: ToolLine) -> bool:
        """Process a line; return False if the output ended before it."""
        found = _STATUS.match(line.text)
        if found is None:
            return not line.text.strip() or line.text[:1] in (" ", "\t")
        self._device = found["device"] or found["rdma"] or self._device
        self._port = found["port"] or found["rdma_port"] or self._port
        state = found["state"] or found["rdma_state"]
        if state is not None:
            self._state(state, line)
        return True
