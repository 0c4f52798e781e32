"""Internal rules for lines that show where a rank runs or that it saved; matched together with failures.

They are not in the packs because their matches are not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.agent.logs.checkpoints.checkpoint_lines import BEGUN, SAVED
from gpuwatch.rules.model.checkpoint_lines import CHECKPOINT_RULES
from gpuwatch.rules.model.rule import Rule
from gpuwatch.wire import LOCALHOST

PREFIX = "place."
POD = "pod/"
"""Prefix of pod names among addresses; they are no host names."""

NCCL_INIT = "place.nccl_init"
NCCL_ADDRESS = "place.nccl_address"
FAILED_RANK = "place.failed_rank"
RANK_MAPPING = "place.rank_mapping"
RANK_ON_HOST = "place.rank_on_host"
TOOL_HOST = "place.tool_host"
"""The node name in a tool's report; found by the tool's reader, not by a rule."""

HOST = r"(?P<host>[A-Za-z0-9][\w.-]{0,252})"


def _rule(name: str, match: str, *literals: str, block: int = 0, once: bool = False) -> Rule:
    return Rule(
        name, "info", "", (match,), "", (), (), role="hint", literals=literals, block=block, once=once
    )


CLUES: tuple[Rule, ...] = (
    _rule(
        NCCL_INIT,
        r"\brank (?P<rank>\d+) nranks (?P<world>\d+) cudaDev (?P<cuda>\d+)(?: nvmlDev (?P<nvml>\d+))?"
        r"(?: busId (?P<bus>[0-9a-fA-F]+))?",
        "nranks",
    ),
    _rule(
        NCCL_ADDRESS,
        r"NCCL INFO (?:Bootstrap ?: Using|NET/IB ?: Using .{1,400}?; OOB) [^:\s]+:(?P<address>\S+?)<\d+>",
        "Bootstrap",
        " OOB ",
    ),
    _rule(FAILED_RANK, r"\brank +: (?P<rank>\d+) \(local_rank: (?P<local>\d+)\)", "local_rank:", block=2),
    _rule(RANK_MAPPING, r"global_rank_mapping=(?P<mapping>.{1,8000})", "global_rank_mapping"),
    _rule(
        RANK_ON_HOST,
        r"(?i)\b(?:global[_ ])?rank['\"]?(?:\s*[:=]\s*|\s+)(?P<rank>\d+)\b.{0,120}?(?:"
        r"\b(?:host|node)_?(?:name)?['\"]?\s*[:=]\s*['\"]?"
        r"|\bon {1,2}(?:(?:host|node) )?['\"]?(?=[a-z][\w.-]*\d)"
        r")"
        r"(?P<host>[A-Za-z][\w-]*(?:\.[\w-]+)*)(?![\w-]|[:/]\S)",
        *("host", "node", " on "),
        once=True,
    ),
    *CHECKPOINT_RULES,
)

NCCL_HEAD = re.compile(HOST + r":(?P<pid>\d+):\d+ \[\d+\] NCCL ")
DATA_FILE = re.compile(
    r"\.(?:tar|zst|gz|bin|pt|jsonl?|parquet|arrow|safetensors|idx|h5|npy|npz)$", re.IGNORECASE
)
"""Matches a file name, which may stand after "on" as host names do."""
TABLE_HOST = re.compile(r"\bhost +: (\S+)")
TABLE_PID = re.compile(r"\(pid: (\d+)\)")
MAPPED = re.compile(r"'([^']+)': \[([\d, ]+)\]")


NCCL_LINE, MAPPING, TABLE = "NCCL INFO line", "launcher's mapping", "torchrun's table"
OWN_LINE, LINE_PREFIX, HEAD = "the job's own line", "the line's prefix", "the log's head"
SOURCES = (NCCL_LINE, MAPPING, TABLE, OWN_LINE, LINE_PREFIX, HEAD)
"""The sources of clues, most reliable first."""


class Clue(Struct, frozen=True):
    """The facts of one line about where a rank or process runs; None: not stated."""

    file: str
    how: str
    """Its source, one of `SOURCES`."""
    host: str | None = None
    rank: int | None = None
    world: int | None = None
    local_rank: int | None = None
    gpu: int | None = None
    bus_id: str | None = None
    pid: int | None = None
    address: str | None = None


def is_clue(finding: dict[str, Any]) -> bool:
    """Return True if an internal rule made this finding."""
    return str(finding["rule"]).startswith(PREFIX)


def clues_of(file: str, findings: Iterable[dict[str, Any]]) -> Iterator[Clue]:
    """Yield the clues in one file's findings; localhost, which identifies no node, is removed from them.

    Findings of the packs may name host and rank too.
    """
    for clue in _clues_of(file, findings):
        yield replace(clue, host=None) if clue.host in LOCALHOST else clue


def _clues_of(file: str, findings: Iterable[dict[str, Any]]) -> Iterator[Clue]:
    for finding in findings:
        lines: list[str] = finding["lines"]
        line = lines[finding.get("key", 0)] if lines else ""
        fields: dict[str, Any] = finding.get("fields") or {}
        head = NCCL_HEAD.search(line)
        host = finding.get("host") or (head and head["host"])
        pid = finding.get("pid") or (head and int(head["pid"]))
        match finding["rule"]:
            case "place.nccl_init":
                yield Clue(
                    file,
                    NCCL_LINE,
                    host,
                    number(fields.get("rank")),
                    number(fields.get("world")),
                    gpu=number(fields.get("nvml", fields.get("cuda"))),
                    bus_id=bus_id(fields.get("bus")),
                    pid=pid,
                )
            case "place.nccl_address":
                yield Clue(file, NCCL_LINE, host, address=str(fields["address"]))
            case "place.failed_rank":
                yield from failed_rank(file, finding, lines, fields)
            case "place.rank_mapping":
                for node, ranks in MAPPED.findall(str(fields["mapping"])):
                    for local, rank in enumerate(ranks.split(",")):
                        yield Clue(file, MAPPING, node, int(rank), local_rank=local)
            case "place.rank_on_host":
                named = str(fields["host"])
                if DATA_FILE.search(named) is None and f"Pool(host='{named}'" not in line:
                    yield Clue(file, OWN_LINE, named, number(fields.get("rank")))
            case rule if rule in (SAVED, BEGUN):
                pass
            case _ if host is not None:
                rank = finding.get("rank") if finding.get("rank_from") in ("line", "path") else None
                yield Clue(file, LINE_PREFIX, host, rank, pid=pid)


def failed_rank(
    file: str, finding: dict[str, Any], lines: list[str], fields: dict[str, Any]
) -> Iterator[Clue]:
    """Yield the clue of an entry of torchrun's failure table.

    The host is on the line above, the pid below.
    """
    key = finding.get("key", 0)
    above, below = lines[max(0, key - 2) : key], lines[key + 1 : key + 3]
    host = next((found[1] for line in reversed(above) if (found := TABLE_HOST.search(line))), None)
    pid = next((int(found[1]) for line in below if (found := TABLE_PID.search(line))), None)
    rank, local = number(fields.get("rank")), number(fields.get("local"))
    yield Clue(file, TABLE, host, rank, local_rank=local, pid=pid)


def number(value: object) -> int | None:
    """Return the value if it is an integer, else None; NCCL's device numbers and ranks always are."""
    return value if isinstance(value, int) else None


def bus_id(text: object) -> str | None:
    """Return NCCL's PCI address (one hexadecimal number, `1b000`) as `0000:1b:00.0`; None for no address."""
    if text is None:
        return None
    value = int(str(text), 16)
    return f"{value >> 20:04x}:{value >> 12 & 0xFF:02x}:{value >> 4 & 0xFF:02x}.{value & 0xF}"


def bus_key(address: str) -> str:
    """Return a PCI address without its function, in a common form: `0000:0f:00`."""
    parts = address.lower().partition(".")[0].split(":")
    return ":".join((parts[0][-4:], *parts[1:]))
