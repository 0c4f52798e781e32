"""Reads what lines state about the hosts of pods, containers and addresses, and about own devices. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuwatch.agent.logs.lines.levels import GRAVE, own_level
from gpuwatch.agent.logs.lines.prefixes import Speaker
from gpuwatch.runs.model.clues import MAPPING, POD, Clue

_DIGITS = tuple(bytes([code]) for code in b"0123456789")
MIN_HOSTS = 2
HOSTS_ROW = re.compile(
    rb"((?:[0-9]{1,3}\.){3}[0-9]{1,3})[ \t]{1,40}([A-Za-z][\w.-]{0,80})(?:[ \t]{1,40}[\w.-]{1,80}){0,4}\s*$"
)
"""A line of /etc/hosts; a file has at least `MIN_HOSTS` of them."""
VISIBLE = re.compile(
    r"\b(?:CUDA|HIP|ROCR|ASCEND(?:_RT)?|NVIDIA|MUSA|XPU)_VISIBLE_DEVICES['\"]?\s{0,3}[=:]\s{0,3}['\"]?\[?"
    r"(\d{1,3}(?:, ?\d{1,3}){0,31})(?![\d.])"
)
"""Matches the GPUs that a process sees, by their indexes on the node."""
BUS = re.compile(
    r"(?<![0-9a-fA-F:.])(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F](?![0-9a-fA-F:.])"
)
"""Matches a PCI address."""
_OF_A_FAULT = re.compile(
    r"(?i)\b(?:error|fail\w*|lost|fallen|peer|p2p|remote|reset|xid|uncorrect\w*|timeout|unreachable)\b"
)
DEVICE = re.compile(
    r"(?i)\b(?:device|dev|gpu|cuda|hip|card|npu|xpu)(?:[ _](?:id|index|no))?[ :=#]{0,2}(\d{1,2})(?![\w:.])"
)
"""Matches the index of a GPU, beside its address."""
LOCAL = re.compile(r"(?i)\blocal[ _-]?rank['\"]?[ :=]{1,3}['\"]?(\d{1,3})\b")
HOST_ADDRESS = re.compile(
    r"(?i)\bhost_?(?:name)?['\"]?[=:]\s?['\"]?(?P<host>(?=[\w.-]{0,80}\d)[A-Za-z][\w.-]{0,80}\w)['\"]?[,; ]"
    r".{0,100}?"
    r"\b(?:node_?)?(?:ip|address)['\"]?[=:]\s?['\"]?(?P<address>(?:\d{1,3}\.){3}\d{1,3})(?![\d.])"
)
"""Matches a host with its address: `hostname='w2', node_id='a1', node_ip='10.6.1.5'`."""
CONTAINER_ON = re.compile(
    r"\b(?P<pod>container_(?:e\d{1,8}_)?\d{6,20}_\d{1,8}_\d{1,4}_\d{1,8})\b.{0,120}?"
    r"(?:\bNodeId: ?|\bon (?:host |node )?)(?P<node>(?=[\w.-]{0,80}[\d.])[A-Za-z0-9][\w.-]{0,120})"
)
"""Matches YARN's message with the node of a container."""
ASSIGNED_POD = re.compile(
    r"\bSuccessfully assigned [\w.-]{1,100}/(?P<pod>[\w.-]{1,253}) to (?P<node>[A-Za-z0-9][\w.-]{0,120})"
)
"""Matches the Kubernetes scheduler's message with the node of a pod."""


def places_in(file: str, text: str) -> Iterator[Clue]:
    """Yield clues to the node of a pod or container, or to the host of an address, that a line states."""
    pod = ASSIGNED_POD.search(text) if "assigned" in text else None
    pod = CONTAINER_ON.search(text) if pod is None and "container_" in text else pod
    if pod is not None:
        yield Clue(file, MAPPING, pod["node"], address=POD + pod["pod"])
    named = HOST_ADDRESS.search(text) if "ip" in text or "ddr" in text else None
    if named is not None:
        yield Clue(file, MAPPING, named["host"], address=named["address"])


def table_of_hosts(file: str, lines: Sequence[bytes]) -> list[Clue]:
    """Return clues to the hosts of addresses in a file of `MIN_HOSTS` rows as in /etc/hosts; else []."""
    rows = [HOSTS_ROW.match(raw) for raw in lines if raw[:1] in _DIGITS]
    known = [(row[1].decode(), row[2].decode()) for row in rows if row is not None]
    if len(known) < MIN_HOSTS:
        return []
    return [Clue(file, MAPPING, host, address=address) for address, host in known]


class Device(NamedTuple):
    """The GPU of a process; None for what is not stated."""

    address: str | None
    """Its PCI address."""
    number: int | None


def own_device(text: str) -> Device | None:
    """Return the only GPU in a process's banner; None: it states none, several, or an error.

    An error may be about the GPU of another process.
    """
    addresses = set(BUS.findall(text)) if "." in text and ":" in text else set()
    indexes = set(DEVICE.findall(text)) if addresses or "on " in text else set()
    if len(addresses) > 1 or len(indexes) > 1 or not addresses | indexes:
        return None
    if own_level(text) in GRAVE or _OF_A_FAULT.search(text) is not None:
        return None
    return Device(next(iter(addresses), None), next(map(int, indexes), None))


def visible_gpu(text: str, by: Speaker) -> int | None:
    """Return the GPU of a process whose line states the devices that it sees (`CUDA_VISIBLE_DEVICES`).

    It is the only one, or the one of the local rank; None: unknown.
    """
    visible = VISIBLE.search(text) if "_VISIBLE_DEVICES" in text else None
    if visible is None:
        return None
    seen = [int(each) for each in visible[1].split(",")]
    local = LOCAL.search(text)
    number = int(local[1]) if local is not None else by.local_rank
    if len(seen) == 1:
        return seen[0]
    return None if number is None or number >= len(seen) else seen[number]
