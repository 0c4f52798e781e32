"""Parses log lines about a rank's memory: `memory_summary()`, DeepSpeed, Megatron, a table by rank."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuwatch.plain import plain
from gpuwatch.runs.memory.rank_memory import RankMemory, ZeroPartition

MIB, GIB, GB = 1 << 20, 1 << 30, 1_000_000_000
MAX_LINE_CHARACTERS = 16_384
MAX_ZERO_LINES = 12
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": GIB, "TiB": 1 << 40, "PiB": 1 << 50}
MAX_BYTES = 1 << 60
"""Largest size in bytes that is believed: no machine has as much memory."""
NUMBER = r"([\d.]{1,20})"
RANK_PREFIX = re.compile(r"\[(?:default\d+:)?\[?rank ?(\d{1,7})\]|\[Rank (\d{1,7})\]", re.IGNORECASE)
SUMMARY = re.compile(r"PyTorch CUDA memory summary, device ID (\d{1,4})")
SUMMARY_ROW = re.compile(r"\| {1,3}([A-Z][\w -]{3,24}?) *\| *(\d{1,15}) (\w+) *\| *(\d{1,15}) (\w+) *\|")
SUMMARY_COUNTS = re.compile(r"CUDA OOMs: (\d{1,15}) *\| *cudaMalloc retries: (\d{1,15})")
DEEPSPEED = re.compile(rf"\bMA {NUMBER} GB\s+Max_MA {NUMBER} GB\s+CA {NUMBER} GB\s+Max_CA {NUMBER} GB")
DEEPSPEED_HOST = re.compile(rf"CPU Virtual Memory:\s+used = {NUMBER} GB")
SEE_MEMORY = re.compile(r"see_memory_usage\] (.{1,200})")
MEGATRON = re.compile(
    rf"memory \(MB\) \| allocated: {NUMBER} \| max allocated: {NUMBER} \| reserved: {NUMBER}"
    rf" \| max reserved: {NUMBER}"
)
TABLE_HEAD = re.compile(r"\bRank\s+Allocated\s+Reserved\s+Peak\b")
TABLE_ROW = re.compile(rf"^\s*(\d{{1,7}})\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}\s*$")
ZERO = re.compile(
    r"ZeRO stage \d|ZeRO Offload|partition count \[|[Oo]ptimizer state|CPU Offload: \w+"
    r"|offload_(?:optimizer|param)"
    r"|Parameter Offload:|Reduce bucket size|Allgather bucket size|NVMe|swap(?:ping)? (?:in|out)|nvme_path"
)
"""Matches DeepSpeed's lines about stage, partitions, optimizer states and offload.

They are from its stage_1_and_2.py and stage3.py.
"""

PARTITION = re.compile(
    r"Rank: (\d{1,7}) partition count \[([\d, ]{1,400})\] and sizes ?\[([\w(), ]{1,2000})\]"
)
PARTITION_SIZE = re.compile(r"\((\d{1,15}),")
MAX_PARTITIONS = 16_384
"""Ranks of one log."""


class MemoryLines:
    """Collects the memory of ranks from the lines of one log: call `read` for the lines, then `found`."""

    def __init__(self, file: str, rank: int | None) -> None:
        self._file, self._rank = file, rank
        self._found: dict[tuple[str, int | None, int | None], RankMemory] = {}
        self._zero: list[str] = []
        self.partitions: dict[int, ZeroPartition] = {}
        """Rank -> its newest partitions."""
        self._summaries: dict[int | None, RankMemory] = {}
        """Rank in the line's prefix -> its newest memory summary; several ranks may write into one log."""
        self._table = False
        self._messages: dict[int | None, str] = {}
        """Rank in the line's prefix -> what DeepSpeed announced for the rank's next line of sizes."""

    def read(self, lines: Iterable[str]) -> None:
        """Process lines of the log."""
        for line in lines:
            self._line(line[:MAX_LINE_CHARACTERS])

    @property
    def found(self) -> list[RankMemory]:
        """Return one entry for each source, rank and device.

        If the log states only ZeRO settings, one entry with these and without sizes.
        """
        for memory in self._found.values():
            memory.zero = list(self._zero)
        if not self._found and self._zero:
            return [RankMemory(self._file, "deepspeed", self._rank, zero=list(self._zero))]
        return list(self._found.values())

    def _line(self, line: str) -> None:
        if self._table and self._table_row(line):
            return
        if "memory" in line or "MA " in line:
            self._of_trainer(line)
        if "|" in line:
            self._of_summary(line)
        if TABLE_HEAD.search(line):
            self._table = True
        if "partition count [" in line:
            self._of_partition(line)
        if len(self._zero) < MAX_ZERO_LINES and ZERO.search(line) and "see_memory_usage" not in line:
            self._zero.append(plain(line.strip())[:200])

    def _rank_of(self, line: str) -> int | None:
        stated = RANK_PREFIX.search(line)
        return int(stated[1] or stated[2]) if stated is not None else self._rank

    def _of(self, source: str, line: str, device: int | None = None) -> RankMemory:
        rank = self._rank_of(line)
        key = source, rank, device
        if key not in self._found:
            self._found[key] = RankMemory(self._file, source, rank, device)
        return self._found[key]

    def _of_trainer(self, line: str) -> None:
        sizes = DEEPSPEED.search(line)
        if sizes is not None:
            memory = self._of("deepspeed", line)
            announced = self._messages.pop(memory.rank, "")
            self._take(memory, [_scaled(each, GIB) for each in sizes.groups()], announced)
            return
        sizes = MEGATRON.search(line)
        if sizes is not None:
            allocated, most, reserved, most_reserved = (_scaled(each, MIB) for each in sizes.groups())
            self._take(
                self._of("megatron", line), [allocated, most, reserved, most_reserved], line[: sizes.start()]
            )
            return
        host = DEEPSPEED_HOST.search(line)
        if host is not None:
            self._of("deepspeed", line).host_used = _scaled(host[1], GIB)
            return
        message = SEE_MEMORY.search(line)
        if message is not None:
            self._messages[self._rank_of(line)] = message[1]

    def _of_partition(self, line: str) -> None:
        stated = PARTITION.search(line)
        if stated is None or len(self.partitions) >= MAX_PARTITIONS:
            return
        rank, counts = int(stated[1]), tuple(map(int, re.findall(r"\d{1,9}", stated[2])))
        elements = tuple(map(int, PARTITION_SIZE.findall(stated[3])))
        self.partitions[rank] = ZeroPartition(self._file, rank, counts, elements)

    @staticmethod
    def _take(memory: RankMemory, sizes: list[int | None], message: str) -> None:
        memory.allocated, most, memory.reserved, most_reserved = sizes
        if most is not None and most > (memory.peak or -1):
            memory.peak = most
            memory.peak_at = plain(RANK_PREFIX.sub("", message).strip())[:120] or None
        memory.peak_reserved = max(memory.peak_reserved or 0, most_reserved or 0)

    def _of_summary(self, line: str) -> None:
        begins = SUMMARY.search(line)
        if begins is not None:
            self._summaries[self._rank_of(line)] = self._of("memory_summary", line, int(begins[1]))
            return
        memory = self._summaries.get(self._rank_of(line))
        if memory is None:
            return
        counts = SUMMARY_COUNTS.search(line)
        if counts is not None:
            memory.out_of_memory, memory.retries = int(counts[1]), int(counts[2])
            return
        row = SUMMARY_ROW.search(line)
        if row is None or row[3] not in UNITS or row[5] not in UNITS:
            return
        now, most = _scaled(row[2], UNITS[row[3]]), _scaled(row[4], UNITS[row[5]])
        if row[1] == "Allocated memory":
            memory.allocated, memory.peak = now, most
        elif row[1] == "GPU reserved memory":
            memory.reserved, memory.peak_reserved = now, most
        elif row[1] == "Requested memory":
            memory.requested = now
        elif row[1] == "Non-releasable memory":
            memory.unusable = now

    def _table_row(self, line: str) -> bool:
        row = TABLE_ROW.match(line)
        if row is None:
            self._table = line.strip(" -=\t") == ""
            return self._table
        key = "table", int(row[1]), None
        memory = self._found.setdefault(key, RankMemory(self._file, "table", int(row[1])))
        memory.allocated, memory.reserved, memory.peak = (_scaled(row[at], GB) for at in (2, 3, 4))
        return True


def _scaled(text: str, unit: int) -> int | None:
    try:
        found = round(float(text) * unit)
    except ValueError:
        return None
    return found if found <= MAX_BYTES else None
