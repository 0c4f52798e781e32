"""Finds tool outputs in a file and passes each to its reader.

Text that a reader takes is blanked before the rules search it, so that each fault is found once, by the
reader that knows its GPU. Of a bug report, only the logs are left to the rules. A file without any of the
marks costs one search per piece.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct

from gpuwatch.agent.ranks.rank_environment import LAUNCHER_RANKS, identity, variables
from gpuwatch.runs.model.clues import RANK_ON_HOST, bus_key
from gpuwatch.runs.saved_outputs import (
    batch_systems,
    bug_report,
    containers,
    dcgm,
    host_tables,
    pod_manifest,
    slurm,
    smi_query,
    smi_table,
)
from gpuwatch.runs.saved_outputs.bug_report import BugReport
from gpuwatch.runs.saved_outputs.dcgm import Dcgm
from gpuwatch.runs.saved_outputs.model import GpuList, ToolFinding, ToolLine, ToolReader, date_in
from gpuwatch.runs.saved_outputs.smi_query import SmiQuery
from gpuwatch.runs.saved_outputs.smi_table import SmiTable

_READERS: tuple[tuple[re.Pattern[str], str, Callable[[], ToolReader]], ...] = (
    (smi_query.HEADING, "nvidia-smi -q", SmiQuery),
    (smi_table.HEADING, "nvidia-smi", SmiTable),
    (dcgm.HEADING, "dcgmi", Dcgm),
    (containers.POD_HEADING, "kubectl describe pod", containers.PodDescription),
    (pod_manifest.HEADING, "kubectl get pod", pod_manifest.PodManifest),
    (containers.INSPECT_HEADING, "docker inspect", containers.ContainerInspection),
    (slurm.SACCT_HEADING, "sacct", slurm.Sacct),
    (slurm.JOB_HEADING, "scontrol show job", slurm.Scontrol),
    (slurm.NODE_HEADING, "scontrol show node", slurm.Scontrol),
    (host_tables.DF_HEADING, "df", host_tables.Df),
    (host_tables.IBSTATUS_HEADING, "ibstatus", host_tables.IbStatus),
    (host_tables.RDMA_HEADING, "rdma link", host_tables.IbStatus),
    (slurm.REASONS_HEADING, "sinfo -R", slurm.NodeReasons),
    (smi_table.NVLINK_HEADING, "nvidia-smi nvlink", smi_table.NvlinkStatus),
    (host_tables.IBSTAT_HEADING, "ibstat", host_tables.Ibstat),
    (batch_systems.PBS_HEADING, "qstat -f", batch_systems.PbsJob),
    (batch_systems.HOSTS_HEADING, "bhosts", batch_systems.LsfHosts),
    (batch_systems.LSF_HEADING, "bjobs", batch_systems.LsfJobs),
    (batch_systems.SQUEUE_HEADING, "squeue", batch_systems.Squeue),
    (batch_systems.QUEUES_HEADING, "qstat -f of Grid Engine", batch_systems.SgeQueues),
)
MARKS = tuple(
    mark.encode()
    for mark in (
        smi_query.MARK, smi_table.MARK, *dcgm.MARKS, bug_report.MARK, containers.POD_MARK,
        containers.CONDITION_MARK,
        containers.NODE_MARK, smi_table.NVLINK_MARK, host_tables.IBSTATUS_MARK, host_tables.RDMA_MARK,
        slurm.REASONS_MARK,
        containers.INSPECT_MARK, pod_manifest.MARK, slurm.SACCT_MARK, slurm.JOB_MARK, slurm.NODE_MARK,
        host_tables.DF_MARK, host_tables.IBSTAT_MARK,
        *batch_systems.PBS_MARKS, batch_systems.HOSTS_MARK, batch_systems.JOBS_MARK,
        batch_systems.QUEUES_MARK,
    )
)  # fmt: skip
"""Texts of which each tool output contains at least one."""
BEGIN_BYTES = 2000
"""Bytes at the start of a file within which a tool output has its mark."""
ENVIRONMENT_BYTES = 1 << 16
MAX_LINE = 4096
MAX_OPEN = 256
"""Most outputs (of different hosts) that are read in parallel."""
MIN_LAUNCHER_VARIABLES = 2
"""Least number of launcher variables in a file's first bytes that make it an environment dump."""
_LAUNCHER_VARIABLE = re.compile(
    rb"(?m)^(?:export |declare -x )?(?:LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|SLURM_JOB_ID"
    rb"|TORCHELASTIC_RUN_ID|RANK|" + "|".join(LAUNCHER_RANKS).encode() + rb")=[\"']?[\w.:-]{1,200}[\"']?\r?$"
)
_VARIABLE = re.compile(rb"(?m)^(?:export |declare -x )?([A-Za-z_]\w{0,100})=[\"']?([^\"'\r\n]{0,1000})")

_HOST = re.compile(r"\[?(?P<host>[A-Za-z][\w.-]{0,62}|\d{1,5})\]?: (?=\s*\S)")
_PROMPT = re.compile(
    r"\[?[\w.-]{1,32}@(?P<host>[A-Za-z0-9][\w.-]{0,62})[ :].{0,120}[#$%>] .{0,80}"
    r"\b(?:nvidia-smi|dcgmi|df|ibstat(?:us)?|rdma|sinfo)\b"
)


def begins_with_tool_output(head: bytes) -> bool:
    """Return True if the first bytes of a file are those of a tool output, whatever its name."""
    return any(mark in head[:BEGIN_BYTES] for mark in MARKS) or is_environment_dump(head)


class Reported(Struct, frozen=True):
    """A finding with the tool and host of the output that it is from."""

    tool: str
    host: str | None
    at: float | None
    """When the tool ran (unix seconds)."""
    finding: ToolFinding


@dataclass(slots=True)
class _Output:
    """A tool output that is being read."""

    tool: str
    host: str | None
    at: float | None
    reader: ToolReader


class ToolSections:
    """Finds the tool outputs in one file: call `feed` with the file piece by piece, then `end`."""

    def __init__(self, holds_mark: Callable[[bytes], bool] | None = None) -> None:
        """Create the finder of tool outputs for one file.

        `holds_mark`: returns True if one of `MARKS` occurs in the data; None: search all of them.
        """
        self._holds_mark = holds_mark or _holds_mark
        self.found: list[Reported] = []
        self.node: str | None = None
        """The node of a bug report, or of the only pod that is described."""
        self.rank_clue: dict[str, object] | None = None
        """Rank and host of an environment dump."""
        self.gpus: dict[str, int] = {}
        """PCI address as of `bus_key` -> GPU index, as listed by tools."""
        self._report: BugReport | None = None
        self._open: dict[str, _Output] = {}
        """Line prefix -> the tool output that is being read."""
        self._pods = 0
        self._prompt: str | None = None
        """Host of the last shell prompt."""
        self._at: float | None = None
        self._rest = b""
        self._rest_at = 0

    def feed(self, data: bytes, offset: int) -> tuple[bytes, int]:
        """Process the complete lines; return them and their offset, with tool output blanked."""
        if offset == 0 and is_environment_dump(data[:BEGIN_BYTES]):
            self.rank_clue = environment_clue(data[:ENVIRONMENT_BYTES])
        if self._rest:
            data, offset = self._rest + data, self._rest_at
        cut = data.rfind(b"\n") + 1 or len(data)
        self._rest, self._rest_at = data[cut:], offset + cut
        return self._seen(data[:cut], offset), offset

    def end(self) -> tuple[bytes, int]:
        """Process an unterminated last line; return it (blanked if tool output) and its offset."""
        seen = self._seen(self._rest, self._rest_at)
        for key in list(self._open):
            self._close(key)
        return seen, self._rest_at

    def _seen(self, data: bytes, offset: int) -> bytes:
        reading = self._open or self._report is not None
        if not reading and not self._holds_mark(data):
            return data
        seen = bytearray()
        for raw in data.splitlines(keepends=True):
            text = raw[:MAX_LINE].decode("utf-8", "replace").rstrip("\r\n")
            if self._is_left(text, offset + len(seen)):
                seen += raw
            else:
                ink = len(raw.rstrip(b"\r\n"))
                seen += b" " * ink + raw[ink:]
        return bytes(seen)

    def _is_left(self, text: str, offset: int) -> bool:
        """Process a line; return True if the rules are to search it."""
        if bug_report.MARK in text:
            self._report = BugReport()
        key, host, body = self._whose(text)
        if self._taken(key, host, ToolLine(body, offset)):
            return False
        prompt = _PROMPT.match(text)
        if prompt:
            self._prompt = prompt["host"]
        if self._report is None:
            return True
        is_log = self._report.is_log(text)
        self.node = self._report.node
        return is_log

    def _whose(self, text: str) -> tuple[str, str | None, str]:
        """Return a line's prefix, the host in it (None: a number or no prefix), and the rest of the line."""
        prefix = _HOST.match(text)
        if prefix is None or (prefix["host"] not in self._open and _begun(text[prefix.end() :]) is None):
            return "", None, text
        host = prefix["host"]
        return host, None if host.isdecimal() else host, text[prefix.end() :]

    def _taken(self, key: str, host: str | None, line: ToolLine) -> bool:
        begun, known = _begun(line.text), self._open.get(key)
        if begun is None and known is None:
            border = not line.text.strip("+- ")
            self._at = date_in(line.text) or (self._at if border else None)
            return False
        if begun is not None and (known is None or known.tool != begun[0]):
            self._close(key)
            if len(self._open) >= MAX_OPEN:
                return False
            known = self._open[key] = _Output(begun[0], host or self._prompt, self._at, begun[1]())
        if known is None or known.reader.take(line):
            return True
        self._close(key)
        return False

    def _close(self, key: str) -> None:
        known = self._open.pop(key, None)
        if known is None:
            return
        if isinstance(known.reader, GpuList):
            listed = known.reader.gpus()
            self.gpus.update((bus_key(address), index) for address, index in listed.items())
        if isinstance(known.reader, containers.PodDescription):
            self._pods += 1
            self.node = known.reader.host if self._pods == 1 else None
        report = self._report
        host = known.host or (report.node if report is not None else None)
        made = known.at or (report.at if report is not None else None)
        self.found += [
            Reported(known.tool, each.host or host, each.at or made, each) for each in known.reader.findings()
        ]


def _holds_mark(data: bytes) -> bool:
    return any(mark in data for mark in MARKS)


def _begun(text: str) -> tuple[str, Callable[[], ToolReader]] | None:
    """Return the tool whose output begins on this line, and its reader; None if there is none."""
    return next((each[1:] for each in _READERS if each[0].search(text)), None)


def is_environment_dump(head: bytes) -> bool:
    """Return True if the first bytes of a file are a dump of a rank's environment (`env`, `printenv`)."""
    return len(set(_LAUNCHER_VARIABLE.findall(head))) >= MIN_LAUNCHER_VARIABLES


def environment_clue(head: bytes) -> dict[str, object] | None:
    """Return rank and host of an environment dump, as a clue for the rank map; None if one is missing."""
    found = dict(_VARIABLE.findall(head))
    rank = identity(variables(b"\0".join(key + b"=" + value for key, value in found.items()))).get("rank")
    host = found.get(b"HOSTNAME") or found.get(b"SLURMD_NODENAME") or found.get(b"HOST")
    if rank is None or not host:
        return None
    fields = {"rank": rank, "host": host.decode("utf-8", "replace").partition(".")[0]}
    return {"rule": RANK_ON_HOST, "lines": [], "fields": fields}
