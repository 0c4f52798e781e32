"""Reads what a session's summary states about the environment: packages, system, the command."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

from ..base.masks import mask_arguments
from ..base.ranks import host_name, loaded_torch
from ..gpu.nvml import open_nvml

MAX_PACKAGES = 2000
MAX_ARGUMENTS = 200


def packages() -> dict[str, str]:
    """Return installed packages (lower case, at most `MAX_PACKAGES`) and `python` -> version."""
    from importlib import metadata  # noqa: PLC0415 - 10 ms, at the start of a session only

    found = {"python": platform.python_version()}
    for number, each in enumerate(metadata.distributions()):
        if number >= MAX_PACKAGES:
            break
        try:
            name, version = each.metadata["Name"], each.version
        except (KeyError, OSError, UnicodeDecodeError):  # a folder that is no package any more
            continue
        if name:
            found.setdefault(str(name).lower(), str(version))
    return dict(sorted(found.items()))


def system_facts() -> dict[str, Any]:
    """Return the `system` object of a summary; unknown values are None."""
    torch = loaded_torch()
    uses_cuda = torch is not None and torch.cuda.is_available()
    library = open_nvml() if torch is None or uses_cuda else None
    return {
        "hostname": host_name(),
        "os": _os_name(),
        "kernel": platform.release() or None,
        "cpu_model": _cpu_model(),
        "cpu_count": os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "driver": library.driver_version() if library else None,
        "cuda": getattr(getattr(torch, "version", None), "cuda", None),
    }


def command() -> list[str]:
    """Return the program and its arguments, at most `MAX_ARGUMENTS`, with secrets masked."""
    return mask_arguments([*sys.argv][:MAX_ARGUMENTS])


def _line_of(path: str, key: str) -> str | None:
    """Return the value of `key` in a file of `key: value` or `key=value` lines.

    None if the key or the file is missing, or the value is empty.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - /proc
            for line in file:
                name, separator, value = line.replace("=", ":", 1).partition(":")
                if separator and name.strip() == key:
                    return value.strip().strip('"') or None
    except OSError:
        pass
    return None


def _os_name() -> str:
    return _line_of("/etc/os-release", "PRETTY_NAME") or platform.system()


def _cpu_model() -> str | None:
    return _line_of("/proc/cpuinfo", "model name") or platform.processor() or None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
