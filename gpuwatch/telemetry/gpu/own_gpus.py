"""Finds the GPUs that this rank reads, and reads them in a thread while the training runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..base.ranks import RankFacts, loaded_torch, whole
from ..base.records import record

if TYPE_CHECKING:
    from .nvml import NvmlLibrary

VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"


@record(frozen=True)
class OwnGpu:
    """A GPU that a rank uses."""

    library: NvmlLibrary
    handle: Any
    identity: Mapping[str, Any]
    """`index` (by the driver), `uuid` and `name`."""

    def reading(self) -> dict[str, Any]:
        """Return the identity and the current values of this rank's GPU."""
        return {**self.identity, **self.library.reading(self.handle)}


def own_gpu(facts: RankFacts, env: Mapping[str, str] | None = None) -> OwnGpu | None:
    """Return the GPU that this rank computes on; None: torch or NVML finds none."""
    torch = loaded_torch()
    if torch is not None and not torch.cuda.is_available():
        return None
    from .nvml import open_nvml  # noqa: PLC0415 - ctypes, at the start of a session only

    library = open_nvml()
    if library is None:
        return None
    handle = _handle_of_torch(library, torch) or _handle_of_place(
        library, facts.local_rank, env or os.environ
    )
    return OwnGpu(library, handle, library.identity(handle)) if handle is not None else None


_own_index: dict[RankFacts, int | None] = {}


def own_gpu_index(facts: RankFacts) -> int | None:
    """Return the driver's index of this rank's GPU, determined once; None: no GPU, or unknown."""
    if facts not in _own_index:
        gpu = own_gpu(facts)
        _own_index[facts] = None if gpu is None else gpu.identity.get("index")
    return _own_index[facts]


def watched_gpus(facts: RankFacts, env: Mapping[str, str] | None = None) -> list[OwnGpu]:
    """Return the GPUs that this rank reads: its own, and on local rank 0 those of all ranks of its node.

    If each rank sees only its own (Slurm, one CUDA_VISIBLE_DEVICES each), local rank 0 sees no others.
    """
    env = os.environ if env is None else env
    own = own_gpu(facts, env)
    if own is None:
        return []
    local_ranks = whole(env.get("LOCAL_WORLD_SIZE", "")) or 1
    visible = _visible(own.library, env)
    if len(visible) < local_ranks or facts.local_rank != 0:
        return [own]
    handles = [_handle_of_place(own.library, place, env) for place in range(local_ranks)]
    return [OwnGpu(own.library, each, own.library.identity(each)) for each in handles if each is not None]


def _visible(library: NvmlLibrary, env: Mapping[str, str]) -> list[str]:
    tokens = env.get(VISIBLE_VARIABLE)
    if tokens is None:
        return [str(index) for index in range(library.count())]
    return [token.strip() for token in tokens.split(",") if token.strip()]


def _handle_of_place(library: NvmlLibrary, place: int, env: Mapping[str, str]) -> Any:
    """Return the handle of the GPU at an index of CUDA_VISIBLE_DEVICES, of the first if there are fewer.

    None: there is none, or the driver refuses it.
    """
    visible = _visible(library, env)
    if not visible:
        return None
    token = visible[place] if place < len(visible) else visible[0]
    index = whole(token)
    return library.by_uuid(token) if index is None else library.by_index(index)


def _handle_of_torch(library: NvmlLibrary, torch: Any) -> Any:
    """Return NVML's handle of the GPU that torch uses now, by the UUID that torch reports (2.3 and later).

    None: torch has not initialized CUDA, or reports no UUID.
    """
    if torch is None or not torch.cuda.is_initialized():
        return None
    uuid = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    return library.by_uuid(f"GPU-{uuid}") if uuid else None


class GpuSampler:
    """Reads GPUs at an interval in a separate thread: a driver that hangs never delays the training."""

    def __init__(
        self, gpus: Sequence[OwnGpu], interval_s: float, take: Callable[[dict[str, Any]], None]
    ) -> None:
        self._gpus = gpus
        self._interval_s = interval_s
        self._take = take
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Read now and at every interval; without GPUs, or with an interval of 0, nothing starts."""
        if self._gpus and self._interval_s > 0 and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="gpuwatch-gpus", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop reading; a thread that hangs in the driver is abandoned."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            for gpu in self._gpus:
                self._take(gpu.reading())
            self._ended.wait(self._interval_s)
