"""Determines the rank of this process: from torch.distributed if initialised, else from the launcher.

torch is never imported here: a script that uses it has done so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from .records import record

RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
WORLD_SIZE_VARIABLES = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""Variables with the world size; torchrun's comes first.

Under srun with one task per node, Slurm counts nodes instead of ranks.
"""

MAX_DIGITS = 7
"""Maximum number of digits of a rank or world size; a longer number is a mistake."""


@record(frozen=True)
class RankFacts:
    """The place of this process in its job."""

    rank: int
    local_rank: int
    world_size: int
    host: str
    pid: int


@record(frozen=True)
class ProcessGroupFacts:
    """The default process group of torch.distributed."""

    backend: str
    rank: int
    world_size: int
    master: str | None
    """Address and port of the rendezvous; None: the environment does not contain it."""


def loaded_torch() -> Any:
    """Return the module torch if the script has imported it, else None."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "Tensor") else None  # a module that is being imported has none yet


def distributed() -> Any:
    """Return torch.distributed if it has a default process group, else None."""
    dist = getattr(loaded_torch(), "distributed", None)
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist


def host_name() -> str:
    """Return the host name as `hostname` prints it."""
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "unknown")


def _number(env: Mapping[str, str], names: tuple[str, ...], default: int) -> int:
    for name in names:
        number = whole(env.get(name, ""))
        if number is not None:
            return number
    return default


def whole(text: str) -> int | None:
    """Return the number in a variable's text; None if it is none, or larger than a rank can be."""
    text = text.strip()
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= MAX_DIGITS else None


def identify(env: Mapping[str, str] | None = None) -> RankFacts:
    """Return rank, local rank, world size, host and pid of this process.

    Rank 0 of 1 if neither torch nor a launcher names one.
    """
    env = os.environ if env is None else env
    dist = distributed()
    rank = dist.get_rank() if dist else _number(env, RANK_VARIABLES, 0)
    world_size = dist.get_world_size() if dist else _number(env, WORLD_SIZE_VARIABLES, 1)
    local_rank = _number(env, LOCAL_RANK_VARIABLES, rank if dist else 0)
    return RankFacts(rank, local_rank, max(world_size, rank + 1), host_name(), os.getpid())


def process_group(env: Mapping[str, str] | None = None) -> ProcessGroupFacts | None:
    """Return the default process group, or None before `init_process_group`."""
    dist = distributed()
    if dist is None:
        return None
    env = os.environ if env is None else env
    address, port = env.get("MASTER_ADDR"), env.get("MASTER_PORT")
    master = f"{address}:{port}" if address and port else None
    return ProcessGroupFacts(str(dist.get_backend()), dist.get_rank(), dist.get_world_size(), master)


def all_gather(value: Any) -> list[Any]:
    """Return the values of all ranks, by rank; a list of one without a process group.

    This is a collective: all ranks must call it.
    """
    dist = distributed()
    if dist is None or dist.get_world_size() == 1:
        return [value]
    if not _has_numpy():
        return _gather_pickles(dist, value)
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def _has_numpy() -> bool:
    """Return True if torch can use numpy, on which `all_gather_object` depends although torch does not."""
    try:
        loaded_torch().empty(0).numpy()
    except RuntimeError:
        return False
    return True


def _gather_pickles(dist: Any, value: Any) -> list[Any]:
    """Return the values of all ranks as `all_gather_object` does, with tensors of bytes and without numpy."""
    import pickle  # noqa: PLC0415 - loaded when it is needed

    torch = loaded_torch()
    functions = dist.distributed_c10d  # not those of `dist`, which a `CommunicationProfiler` measures
    on_gpu = "nccl" in str(dist.get_backend()) and torch.cuda.is_available()
    device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
    data = bytearray(pickle.dumps(value))
    size = torch.tensor([len(data)], dtype=torch.int64, device=device)
    sizes = [torch.zeros_like(size) for _ in range(dist.get_world_size())]
    functions.all_gather(sizes, size)
    lengths = [int(each.item()) for each in sizes]
    data.extend(bytes(max(lengths) - len(data)))
    own = torch.frombuffer(data, dtype=torch.uint8).to(device)
    parts = [torch.empty_like(own) for _ in lengths]
    functions.all_gather(parts, own)
    return [
        pickle.loads(bytes(part[:length].tolist()))  # noqa: S301 - from the ranks of this job, as torch does it
        for part, length in zip(parts, lengths)
    ]


STATED_PREFIXES = (
    "CUDA_", "NCCL_", "TORCH_", "PYTORCH_", "TORCHELASTIC_", "SLURM_", "OMP_", "GLOO_", "OMPI_", "GPUWATCH_",
    "ACCELERATE_", "HSA_", "ROCR_",
)  # fmt: skip
STATED_VARIABLES = frozenset((
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
    "HF_HOME", "WANDB_MODE", "WANDB_PROJECT", "WANDB_NAME", "WANDB_RUN_GROUP", "MKL_NUM_THREADS",
    "TRAINING_LOG_LEVEL",
    "MULTIGPU_LOG_LEVEL",
))  # fmt: skip
"""Variables that logs and summaries contain; all others are left out."""


def stated_environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that control a training, sorted by name; only those of an allow-list."""
    env = os.environ if env is None else env
    return {
        name: env[name]
        for name in sorted(env)
        if name in STATED_VARIABLES or name.startswith(STATED_PREFIXES)
    }
