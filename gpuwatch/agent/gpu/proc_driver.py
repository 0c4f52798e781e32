"""What the NVIDIA driver states about its GPUs and of itself in /proc, without NVML."""

import os
import re

from ..base.notices import in_container
from ..base.procfs import clean, names, read_text
from ..kernel.xid_lines import bus_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - used in type comments

_UUID = re.compile(r"GPU-[0-9a-z]{8}(-[0-9a-z]{4}){3}-[0-9a-z]{12}$")


def read(proc="/proc"):
    # type: (str) -> list[dict[str, Any]]
    """One dict a GPU with `uuid`, `name` and `bus_id` as far as known, in the order of the bus.

    The driver shows question marks for the UUID of a GPU that it could not start. May block.
    """
    root = os.path.join(proc, "driver/nvidia/gpus")
    found = [_facts(read_text(os.path.join(root, name, "information")) or "") for name in names(root)]
    return sorted((facts for facts in found if "bus_id" in facts), key=lambda facts: str(facts["bus_id"]))


def _facts(text):
    # type: (str) -> dict[str, Any]
    lines = (line.partition(":") for line in text.splitlines())
    stated = {key.strip(): value.strip() for key, _, value in lines}
    place = bus_id(stated.get("Bus Location", ""))
    if place is None or stated.get("GPU Excluded") == "Yes":
        return {}
    facts = {"bus_id": place, "name": clean(stated.get("Model", ""), 120) or "NVIDIA GPU"}
    if _UUID.match(stated.get("GPU UUID", "")):
        facts["uuid"] = stated["GPU UUID"]
    return facts


def unmet(found, met, listed, hidden=None):
    # type: (list[dict[str, Any]], dict[int, str], int, bool | None) -> dict[int, dict[str, Any]]
    """By index: GPUs of `found` that NVML shows nothing of, as dicts with the keys of `wire.GpuInfo`.

    NVML counts in the order of the bus, so as many GPUs in both have the same places; where a UUID that NVML
    reported (`met`, by index) contradicts that, nothing is stated. GPUs beyond those that NVML lists
    follow after them, except in a container (`hidden`), which may have been given only some.
    """
    if len(met) >= len(found):
        return {}
    if len(found) == listed:
        places = dict(enumerate(found))
        if any(places[index].get("uuid", uuid) != uuid for index, uuid in met.items() if index < listed):
            return {}
    elif len(met) == listed < len(found) and not (in_container() if hidden is None else hidden):
        known = set(met.values())
        places = dict(enumerate((facts for facts in found if facts.get("uuid") not in known), listed))
        if len(places) != len(found) - listed:
            return {}
    else:
        return {}
    return {
        index: dict(facts, index=index)
        for index, facts in places.items()
        if index not in met and "uuid" in facts and facts["uuid"] not in met.values()
    }


def replaced(library):
    # type: (str) -> bool
    """Whether the file behind a library that this process has loaded is not on disk any more."""
    text = read_text("/proc/self/maps", 1 << 22) or ""
    return any(library in line and line.endswith("(deleted)") for line in text.splitlines())
