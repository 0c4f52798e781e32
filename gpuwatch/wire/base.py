"""The common parts of all frames."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from gpuwatch.wire.limits import Moment, Name, Text, Whole

WIRE_VERSION = 1

Severity: TypeAlias = Literal["info", "warning", "error", "critical"]


class FramePart(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    """The base of all structs in frames: compared by value, immutable after decoding."""


class Notice(FramePart, frozen=True):
    """A sentence about the whole node: a problem, or what cannot be read, and the remedy."""

    code: Name
    """Stable, for scripts: driver_not_loaded, driver_mismatch, library_missing, no_gpu, gpu_missing,
    gpu_silent, nvml_starting, kernel_log_unreadable, no_proc, mps, nvml_error, no_python,
    nvidia_smi_failed, nvidia_smi_silent, ..."""
    text: Text
    severity: Severity = "info"
    remedy: Text | None = None


class Frame(msgspec.Struct, tag_field="kind", omit_defaults=True, frozen=True, kw_only=True, gc=False):
    """The base of all frames, with the fields that every frame has."""

    t: Moment
    seq: Whole
    v: Whole = WIRE_VERSION
