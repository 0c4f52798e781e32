"""Determines the rank of a process from the environment it was started with.

Only the variables listed here are ever read; all others are ignored.
"""

from ..base.procfs import clean
from ..masking.secret_masking import masked

VARIABLES = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "SLURM_JOB_ID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NTASKS",
    "SLURM_STEP_ID",
    "SLURM_NODEID",
    "SLURMD_NODENAME",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMIX_RANK",
    "PMIX_NAMESPACE",
    "MV2_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_SIZE",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "CUDA_VISIBLE_DEVICES",
)
MAX_VALUE = 200
MAX_RANKS = 1000000
"""Larger world sizes, and ranks from here on, are not accepted; the cockpit would refuse them."""

_TORCH = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
_FAMILIES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMI_RANK", "", "PMI_SIZE"),
    ("PMIX_RANK", "", ""),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
)
"""(rank, local rank, world size) variables of the launchers, most reliable first."""
LAUNCHER_RANKS = tuple(family[0] for family in _FAMILIES)

_WANTED = {name.encode("ascii"): name for name in VARIABLES}


def variables(environ: bytes) -> "dict[str, str]":
    """Return the whitelisted variables of a NUL-separated environment, secrets masked."""
    found: dict[str, str] = {}
    for entry in environ.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name in _WANTED:
            found[_WANTED[name]] = clean(masked(value.decode("utf-8", "replace")), MAX_VALUE)
    return found


def identity(found: "dict[str, str]") -> "dict[str, object]":
    """Return `rank`, `local_rank`, `world_size`, `master` and `job` of `wire.Process`, as far as known."""
    rank, local_rank, world_size = _place(found)
    facts = {
        "rank": rank,
        "local_rank": local_rank,
        "world_size": world_size,
        "master": _master(found),
        "job": _job(found),
    }
    return {key: value for key, value in facts.items() if value is not None}


def is_rank(value: object) -> bool:
    """Return True if a value from a line can be a rank number."""
    return isinstance(value, int) and 0 <= value < MAX_RANKS


def _place(found: "dict[str, str]") -> "tuple[int | None, int | None, int | None]":
    rank, local_rank = (number(found, name) for name in _TORCH[:2])
    world_size = number(found, _TORCH[2], MAX_RANKS)
    if rank is not None:
        return rank, local_rank, world_size
    for rank_name, local_name, size_name in _FAMILIES:
        family_rank, family_local = number(found, rank_name), number(found, local_name)
        family_size = number(found, size_name, MAX_RANKS)
        if family_rank is None:
            continue
        if local_rank is not None and local_rank != family_local:
            continue  # a launcher below this one has numbered the processes again
        if rank_name == "SLURM_PROCID" and family_size == 1:
            continue  # a single task or the batch script, not one of several ranks
        return family_rank, family_local, family_size if family_size is not None else world_size
    return None, local_rank, world_size


def _master(found: "dict[str, str]") -> "str | None":
    address, port = found.get("MASTER_ADDR"), found.get("MASTER_PORT")
    if not address:
        return None
    host = "[" + address + "]" if ":" in address else address
    return host + ":" + port if port else host


def _job(found: "dict[str, str]") -> "str | None":
    """Return the job's id by its variables, or None; torchrun's "none" for a missing id is ignored."""
    run = found.get("TORCHELASTIC_RUN_ID")
    named = found.get("SLURM_JOB_ID") or (run if run != "none" else None)
    return named or found.get("PMIX_NAMESPACE") or None


def number(found: "dict[str, str]", name: str, most: int = MAX_RANKS - 1) -> "int | None":
    """Return the value of a variable as a whole number of at most `most`; None: it is none."""
    text = found.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 and int(text) <= most else None
