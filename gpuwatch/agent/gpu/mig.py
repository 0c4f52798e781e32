"""Reads the MIG instances of a GPU."""

from .nvml import number, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .nvml import NvmlCaller


def enabled(asker: "NvmlCaller", handle: "Any") -> "bool | None":
    """Return True if MIG mode is on; None if the GPU has no MIG, or does not state it."""
    mode = asker.ask("mig_enabled", "nvmlDeviceGetMigMode", handle)
    return None if mode is None else bool(mode[0])


def instances(asker: "NvmlCaller", handle: "Any") -> "list[dict[str, Any]]":
    """Return one dict per instance with the keys of `wire.MigInstance`.

    Raises:
        GpuLost: as `NvmlCaller.ask`.
    """
    found = []
    for index in range(asker.ask("mig", "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        instance = asker.ask("mig", "nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if instance is None:
            continue
        uuid = text(asker.ask("mig", "nvmlDeviceGetUUID", instance))
        if uuid is None:
            continue
        name = text(asker.ask("mig", "nvmlDeviceGetName", instance)) or ""
        memory = asker.ask("mig", "nvmlDeviceGetMemoryInfo", instance)
        facts = {
            "uuid": uuid,
            "index": index,
            "profile": name.rsplit("MIG ", 1)[1] if "MIG " in name else None,
            "memory_used_bytes": None if memory is None else number(memory.used),
            "memory_total_bytes": None if memory is None else number(memory.total),
        }
        found.append({key: value for key, value in facts.items() if value is not None})
    return found
