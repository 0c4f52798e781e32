"""Reads /proc files of the NVIDIA driver about itself and its GPUs, without NVML."""

import os
import re

from ..base.notices import in_container
from ..base.procfs import clean, names, read_text
from ..kernel.xid_lines import bus_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_UUID = re.compile(r"GPU-[0-9a-z]{8}(-[0-9a-z]{4}){3}-[0-9a-z]{12}$")


def read(proc: str = "/proc") -> "list[dict[str, Any]]":
    """Return one dict per GPU with `bus_id`, `name` and, if known, `uuid`, in bus order. May block.

    A GPU that the driver could not start has no known UUID. Excluded GPUs are left out.
    """
    root = os.path.join(proc, "driver/nvidia/gpus")
    found = [_facts(read_text(os.path.join(root, name, "information")) or "") for name in names(root)]
    return sorted((facts for facts in found if "bus_id" in facts), key=lambda facts: str(facts["bus_id"]))


def _facts(text: str) -> "dict[str, Any]":
    lines = (line.partition(":") for line in text.splitlines())
    stated = {key.strip(): value.strip() for key, _, value in lines}
    place = bus_id(stated.get("Bus Location", ""))
    if place is None or stated.get("GPU Excluded") == "Yes":
        return {}
    facts = {"bus_id": place, "name": clean(stated.get("Model", ""), 120) or "NVIDIA GPU"}
    if _UUID.match(stated.get("GPU UUID", "")):
        facts["uuid"] = stated["GPU UUID"]
    return facts


def unmet(
    found: "list[dict[str, Any]]", met: "dict[int, str]", listed: int, hidden: "bool | None" = None
) -> "dict[int, dict[str, Any]]":
    """Return index -> GPU of `found` that has a UUID and never answered NVML, with keys of `wire.GpuInfo`.

    NVML counts in bus order, so if both list as many GPUs, positions match; if a UUID from NVML (`met`, by
    index) contradicts that, the result is empty. GPUs that NVML does not list come after the others, except
    in a container (`hidden`), which may have only some of the GPUs.
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


def replaced(library: str) -> bool:
    """Return True if the file of a loaded library was replaced on disk."""
    text = read_text("/proc/self/maps", 1 << 22) or ""
    return any(library in line and line.endswith("(deleted)") for line in text.splitlines())
