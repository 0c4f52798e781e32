"""Classifies trace events: operator, kernel, copy; communication or not."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache


class EventKind(IntEnum):
    """The kinds of events that are measured."""

    OPERATOR = 0
    ANNOTATION = 1
    """A section named by the program: record_function, an NVTX range, a profiler step."""
    RUNTIME = 2
    """A call of the CUDA runtime or driver on the CPU."""
    KERNEL = 3
    MEMORY_COPY = 4
    """A copy or fill of device memory."""
    OTHER_GPU = 5


KIND_OF_CATEGORY = {
    "cpu_op": EventKind.OPERATOR,
    "operator": EventKind.OPERATOR,
    "user_annotation": EventKind.ANNOTATION,
    "cuda_runtime": EventKind.RUNTIME,
    "cuda_driver": EventKind.RUNTIME,
    "runtime": EventKind.RUNTIME,
    "hip_runtime": EventKind.RUNTIME,
    "kernel": EventKind.KERNEL,
    "gpu_memcpy": EventKind.MEMORY_COPY,
    "memcpy": EventKind.MEMORY_COPY,
    "gpu_memset": EventKind.MEMORY_COPY,
    "memset": EventKind.MEMORY_COPY,
}
"""Kineto's category in lower case -> kind; torch before 1.11 wrote `Operator`, `Kernel`, ..."""
GPU_KINDS = frozenset((EventKind.KERNEL, EventKind.MEMORY_COPY, EventKind.OTHER_GPU))

_COMMUNICATION_KERNEL = re.compile(
    r"(void )?(nccl|rccl|msccl|nvshmem)"
    r"|.*(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce|multimem_|deep_ep::)",
    re.IGNORECASE,
)
"""Matches kernels of NCCL and RCCL, and of libraries that name the collective (vLLM) or of DeepEP."""
_COPY_KERNEL = re.compile(r"Memcpy|Memset|dma")
_SYNCHRONISATION = re.compile(r".*Sync")
_COMMUNICATION_CALL = re.compile(r"(_?c10d(_functional)?::|gloo:|nccl:|mpi:|ucc:|record_param_comms)")
_COLLECTIVE = re.compile(
    r"(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|send_?recv|barrier|gather|scatter|reduce"
    r"|send|recv)",
    re.IGNORECASE,
)
_SPELLINGS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send_recv",
}
UNNAMED_COLLECTIVE = "collective"
"""Name for a collective whose kernel does not name it, such as `ncclDevKernel_Generic`."""


@lru_cache(maxsize=65536)
def is_communication_kernel(name: str) -> bool:
    """Return True if a kernel moves data between ranks, by its name."""
    return _COMMUNICATION_KERNEL.match(name) is not None


@lru_cache(maxsize=65536)
def kernel_kind(name: str) -> EventKind:
    """Return the kind of a kernel by its name; some libraries implement copies and waits as kernels."""
    if is_communication_kernel(name):
        return EventKind.KERNEL
    if _COPY_KERNEL.match(name):
        return EventKind.MEMORY_COPY
    return EventKind.OTHER_GPU if _SYNCHRONISATION.match(name) else EventKind.KERNEL


@lru_cache(maxsize=65536)
def is_communication_call(name: str) -> bool:
    """Return True if a CPU operator or section belongs to torch.distributed, by its name."""
    return _COMMUNICATION_CALL.match(name) is not None


@lru_cache(maxsize=65536)
def collective_of(name: str) -> str:
    """Return `all_reduce` for `ncclDevKernel_AllReduce_Sum_bf16_RING_LL` or `c10d::allreduce_`.

    `UNNAMED_COLLECTIVE` for a name without one.
    """
    found = _COLLECTIVE.search(name.removeprefix("c10d::"))
    if found is None:
        return UNNAMED_COLLECTIVE
    plain_name = found[1].lower()
    return _SPELLINGS.get(plain_name.replace("_", ""), plain_name)
