"""The environment of the ranks: the training job's where there is one, fail-fast, and without traces."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - used in type comments

SETTINGS = {
    # one thread a rank: the ranks of a node share its cores
    "OMP_NUM_THREADS": "1",
    # a failed collective ends its rank; torch before 2.2 knows the name without TORCH_
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    "NCCL_ASYNC_ERROR_HANDLING": "1",
    "TORCH_NCCL_ENABLE_MONITORING": "1",
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "60",
    # the flight recorder writes its dumps to files on the node
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_FR_DUMP_ON_TIMEOUT": "0",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "0",
    "TORCH_FR_BUFFER_SIZE": "0",
    # the port of NCCL's RAS belongs to the training job
    "NCCL_RAS_ENABLE": "0",
    "NCCL_DEBUG": "WARN",
    # nothing is written on a node
    "PYTHONDONTWRITEBYTECODE": "1",
    "CUDA_CACHE_DISABLE": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONIOENCODING": "utf-8:replace",
}
REMOVED = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_RUN_ID",
    "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_NCCL_BLOCKING_WAIT",
    "NCCL_BLOCKING_WAIT",
    "NCCL_DEBUG_FILE",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_COMM_ID",
    "PYTHONSTARTUP",
    "PYTHONINSPECT",
)
"""A rank's place in another job, what changes timings, and what writes files."""

_PLACES = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX")
_FABRIC = ("NCCL_", "FI_", "UCX_", "SHARP_")
"""How the job's ranks reach each other: that is what is to be measured."""


def of_process(environ, folder):
    # type: (bytes, str | None) -> dict[str, str]
    """The part of a training process's environment that its torch and its fabric need.

    `folder` is its working folder, from which relative entries of PYTHONPATH are seen.
    """
    found = {}  # type: dict[str, str]
    for entry in environ.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        key = name.decode("utf-8", "surrogateescape")
        if equals and (key in _PLACES or key.startswith(_FABRIC)):
            found[key] = value.decode("utf-8", "surrogateescape")
    if "PYTHONPATH" in found:
        entries = [entry for entry in found["PYTHONPATH"].split(os.pathsep) if entry]
        found["PYTHONPATH"] = os.pathsep.join(os.path.join(folder or "/", entry) for entry in entries)
    return found


def like_process(found):
    # type: (dict[str, str]) -> dict[str, str]
    """Our own environment with that of a training process in its place (`of_process`)."""
    own = {
        key: value
        for key, value in os.environ.items()
        if key not in _PLACES[1:] and not key.startswith(_FABRIC)
    }
    return dict(own, **found)


def without_traces(environ):
    # type: (dict[str, str]) -> dict[str, str]
    """The same without what a rank of ours must not inherit."""
    return {key: value for key, value in environ.items() if key not in REMOVED}


def settings(iface):
    # type: (str | None) -> dict[str, str]
    """What is set for the ranks, over everything else. `iface`: the only network interface to use."""
    if iface is None:
        return dict(SETTINGS)
    # with `=` NCCL takes the name as it is, not as the beginning of names
    return dict(SETTINGS, NCCL_SOCKET_IFNAME="=" + iface, GLOO_SOCKET_IFNAME=iface)
