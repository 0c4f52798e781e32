"""Reads `nvidia-smi nvlink --status`: links that are inactive on one GPU and active on most others."""

from __future__ import annotations

import re
from collections import Counter

from gpuwatch.rules.model import rule_ids
from gpuwatch.runs.saved_outputs.model import ToolFinding, ToolLine

MARK = "(UUID: GPU-"
HEADING = re.compile(r"^GPU \d{1,3}: .{1,120} \(UUID: GPU-")
RULE = rule_ids.GPU_NVLINK_INACTIVE

_GPU = re.compile(r"^GPU (?P<gpu>\d{1,3}): ")
_LINK = re.compile(
    r"^\s{1,12}Link (?P<link>\d{1,3}): (?P<state><?inactive>?|[\d.]{1,10} GB/s)\s*$", re.IGNORECASE
)
ALONE_SHARE = 0.75
"""If a node has one GPU, share of its links that must be active for the others to count as lost."""


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
                found[gpu] = ToolFinding(RULE, "error", line, {"gpu": gpu, "link": link}, (heading,))
        return list(found.values())
