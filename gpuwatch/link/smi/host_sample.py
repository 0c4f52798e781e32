"""Converts the fallback's /proc lines into the host part of a sample. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuwatch.agent.host.host_reader import memory, processor_shares
from gpuwatch.wire import HostSample

MEMINFO = re.compile(r"(MemTotal|MemAvailable|SwapTotal|SwapFree):\s+\d{1,15} kB")
OTHER_MEMINFO = re.compile(r"[\w()]{2,40}:\s+\d{1,20}(?: kB)?")


def processor_times(line: str) -> list[int] | None:
    """Return the columns of the `cpu` line of /proc/stat, in ticks; None for another line."""
    words = line.split()
    if len(words) < 5 or words[0] != "cpu" or not all(re.fullmatch(r"\d{1,18}", word) for word in words[1:]):
        return None
    return [int(word) for word in words[1:9]]


def host_sample(
    t: float, facts: Mapping[str, str], meminfo: list[str], before: list[int] | None
) -> HostSample:
    """Return a block of /proc lines as a `HostSample`; missing values are left out.

    Args:
        t: The node's clock, unix seconds.
        facts: `cpu`: the first line of /proc/stat; `load`: /proc/loadavg.
        meminfo: Lines of /proc/meminfo.
        before: The processor times of the previous block; None in the first, which then has no CPU shares.
    """
    shares: dict[str, object] = {}
    times = processor_times(facts.get("cpu", ""))
    if before is not None and times is not None:
        shares = processor_shares(before, times)
    known = {**shares, **_load(facts.get("load", "")), **memory("\n".join(meminfo).encode())}
    return HostSample(t=t, **known)  # type: ignore[arg-type] # the keys and types are those of the agent


def _load(line: str) -> dict[str, object]:
    found = re.match(r"(\d{1,9}\.\d+) (\d{1,9}\.\d+) (\d{1,9}\.\d+)\b", line)
    if found is None:
        return {}
    one, five, fifteen = (float(number) for number in found.groups())
    return {"load_1m": one, "load_5m": five, "load_15m": fifteen}
