"""Reads which GPUs a scheduler has given a pod, from the annotations that it or its device plugin wrote.

NVIDIA's own device plugin writes none. The forms are those of the projects' documentation:

- HAMi and Volcano's vGPU: `GPU-04dc-...,NVIDIA,8000,10:GPU-...,NVIDIA,8000,10:;`, a `;` after each container
- Volcano's GPU sharing: `0,2`
- Koordinator: `{"gpu": [{"minor": 0, "resources": {...}}], "rdma": [...]}`
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gpuwatch.decode_errors import DECODE_ERRORS

DEVICE_LISTS = ("hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new")
DEVICE_NUMBERS = "volcano.sh/gpu-index"
DEVICE_JSON = "scheduling.koordinator.sh/device-allocated"
MAX_CHARS = 4096
MAX_GPUS = 64
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F-]{1,60}")
_NUMBERS = re.compile(r"\d{1,3}(?:,\d{1,3}){0,63}")


class _Device(msgspec.Struct):
    minor: int


class _Allocated(msgspec.Struct):
    gpu: list[_Device] = []


def allocated_gpus(annotations: Mapping[str, Any]) -> str:
    """Return the UUIDs of a pod's GPUs, or their numbers on its machine, joined by `,`; "" without any."""
    return ",".join(dict.fromkeys(_found(annotations)))


def _found(annotations: Mapping[str, Any]) -> Iterator[str]:
    for name in DEVICE_LISTS:
        yield from _UUID.findall(_text(annotations, name))[:MAX_GPUS]
    numbers = _text(annotations, DEVICE_NUMBERS)
    if _NUMBERS.fullmatch(numbers):
        yield from numbers.split(",")
    text = _text(annotations, DEVICE_JSON)
    if text:
        try:
            devices = msgspec.json.decode(text.encode("utf-8", "replace"), type=_Allocated).gpu
        except DECODE_ERRORS:
            return
        yield from (str(each.minor) for each in devices[:MAX_GPUS] if 0 <= each.minor < 1000)


def _text(annotations: Mapping[str, Any], name: str) -> str:
    value = annotations.get(name)
    return value[:MAX_CHARS] if isinstance(value, str) else ""
