"""What all parts of a frame have in common."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

WIRE_VERSION = 1

Severity: TypeAlias = Literal["info", "warning", "error", "critical"]


class Part(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    """A piece of a frame; compared by value, never changed after it was decoded."""


class Notice(Part, frozen=True):
    """A sentence about the whole node: what is wrong or cannot be read, and the remedy."""

    code: str
    """Stable, for scripts: driver_not_loaded, driver_mismatch, library_missing, no_gpu, gpu_missing,
    gpu_silent, nvml_starting, kernel_log_unreadable, no_proc, mps, nvml_error, no_python,
    nvidia_smi_failed, nvidia_smi_silent, ..."""
    text: str
    severity: Severity = "info"
    remedy: str | None = None


class Frame(msgspec.Struct, tag_field="kind", omit_defaults=True, frozen=True, kw_only=True, gc=False):
    """What every frame carries."""

    t: float
    seq: int
    v: int = WIRE_VERSION
