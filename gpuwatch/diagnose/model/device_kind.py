"""Determines which vendor's accelerator a line is about, and adapts rule texts for NVIDIA to that vendor.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from gpuwatch.agent.patterns.module_pattern import pattern_of

MAX_READ_CHARACTERS = 1000
"""Most characters of a line that are searched."""


class DeviceKind(Struct, frozen=True):
    """A kind of accelerator other than NVIDIA's: its name, its tool, and the pattern of lines about it."""

    name: str
    """The name of the device in its own software."""
    is_gpu: bool
    tool: str | None
    """The command that lists the devices and their users."""
    allocator: str | None
    """The environment variable that configures torch's allocator for the device."""
    marks: re.Pattern[str]
    """A pattern that only lines about the device match."""


KINDS = (
    DeviceKind(
        "TPU", False, "tpu-info", None,
        pattern_of(r"(?<!GPU/)\bTPU(?!/)\b|\blibtpu\b|\bTPU_[A-Z]|\bmemory space (?:hbm|vmem)\b"),
    ),
    DeviceKind(
        "HPU", False, "hl-smi", None,
        pattern_of(
            r"\bHPU\b|\bhpu:\d|\b[Hh]abana|\bHABANA|\bGaudi\d?\b|\bPT_(?:DEVMEM|BRIDGE|HPU)\b|\bhl-smi\b"
            r"|\bsyn(?:StatusCode|Fail|OutOf)\w{1,40}|\bsynStatus ?= ?\d|\bsyn[A-Z]\w{1,40} failed\b"
        ),
    ),
    DeviceKind(
        "NPU", False, "npu-smi info", "PYTORCH_NPU_ALLOC_CONF",
        pattern_of(
            r"\bNPU\b|\bnpu:\d|\btorch_npu\b|\baclrt[A-Z]|\baclnn[A-Z]|\b[Aa]scend|\bnpu[A-Z]|\bnpu-smi\b"
            r"|\bDevice\(id: ?\d"
        ),
    ),
    DeviceKind(
        "Neuron", False, "neuron-top", None,
        pattern_of(r"\bNRT_[A-Z]|\b[Nn]euron ?[Cc]ores?\b|\bND \d{1,4}:NC \d|\bTDRV:|\bnrt_\w"),
    ),
    DeviceKind(
        "XPU", True, "xpu-smi dump -m 0,18", None,
        pattern_of(
            r"\bXPU\b|\bxpu:\d|\b(?:UR_RESULT|ZE_RESULT|PI_ERROR)_|\blevel[_-]zero\b|\bxpu-smi\b|\boneCCL\b"
        ),
    ),
    DeviceKind(
        "HIP", True, "rocm-smi --showpids --showmeminfo vram", "PYTORCH_HIP_ALLOC_CONF",
        pattern_of(
            r"\bHIP\b|\bhip(?:Error|Malloc|Memcpy|Stream|Device|Success)|\bROCm\b|\bHSA_STATUS_|\bRCCL\b"
            r"|\b(?:MIOpen|rocBLAS|rocblas|hipBLAS|hipblas)"
        ),
    ),
    DeviceKind(
        "MPS", True, None, None,
        pattern_of(r"\bMPS (?:backend|device|out of memory)\b|\bmps:\d|\bMPSGraph\b|\bMTL[A-Z]"),
    ),
)  # fmt: skip
_NVIDIA = pattern_of(
    r"\bcuda(?:Error|Malloc|Success|Memcpy)|\bCUDA (?:error|out of memory)|\bcu(?:BLAS|DNN)\b|\bNVML\b"
)
"""Matches a word that only lines about NVIDIA have, whatever else they mention."""
_SMI = pattern_of(r"nvidia-smi[^`;]{0,120}")
_OTHER_CUDA = pattern_of(
    r"CUDA_[A-Z_]+|TORCH_CUDA_\w+|compute-sanitizer|nvidia(?!-smi)|\bfabricmanager\b|\b[Xx]ids?\b|nvrm"
)
"""Matches advice that applies to NVIDIA's software only."""


def device_kind(line: str) -> DeviceKind | None:
    """Return the kind of accelerator that a line is about; None: NVIDIA's, or unknown."""
    if _NVIDIA.search(line[:MAX_READ_CHARACTERS]):
        return None
    return next((kind for kind in KINDS if kind.marks.search(line[:MAX_READ_CHARACTERS])), None)


def for_device(text: str, kind: DeviceKind | None) -> str:
    """Return a title or explanation with the terms of this kind of device; unchanged if `kind` is None."""
    if kind is None:
        return text
    text = re.sub(r"\bCUDA's\b", f"{kind.name}'s", text)
    text = re.sub(r"\b(?:CUDA|NVIDIA)\b(?!_)", kind.name, text)
    return text if kind.is_gpu else re.sub(r"\bGPU(s?)\b", rf"{kind.name}\1", text)


def steps_for(steps: Iterable[str], kind: DeviceKind | None) -> tuple[str, ...]:
    """Return the steps that apply to this kind of device, with its own tool; CUDA-only advice is left out."""
    steps = tuple(steps)
    if kind is None:
        return steps
    found = []
    for step in steps:
        text = step
        if kind.allocator is not None:
            text = text.replace("PYTORCH_CUDA_ALLOC_CONF", kind.allocator)
        if kind.tool is not None:
            text = _SMI.sub(kind.tool, text)
        named_alike = "torch.cuda" not in text or kind.name == "HIP"  # ROCm keeps the module's name
        if (
            named_alike
            and not _OTHER_CUDA.search(text)
            and "PYTORCH_CUDA" not in text
            and "nvidia-smi" not in text
        ):
            found.append(for_device(text, kind))
    return tuple(found)
