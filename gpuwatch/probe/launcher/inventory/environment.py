"""Makes the environment of the ranks' interpreter: the training job's, without options that leave files.

The settings for torch and NCCL are made by the worker itself (`ranks.rank_environment`).
"""

import os

SETTINGS = {
    # nothing is written on a node
    "PYTHONDONTWRITEBYTECODE": "1",
    "CUDA_CACHE_DISABLE": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONIOENCODING": "utf-8:replace",
}
REMOVED = ("PYTHONSTARTUP", "PYTHONINSPECT", "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE")
"""Variables that are removed: they write files, or keep an interpreter from ending."""

_PLACES = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX")
_FABRIC = ("NCCL_", "FI_", "UCX_", "SHARP_")
"""Prefixes of the variables that decide how the job's ranks communicate, which the probe must measure."""


def of_process(environ: bytes, folder: "str | None") -> "dict[str, str]":
    """Return the variables of a training process that its torch and its fabric need.

    `folder` is its working folder, which relative entries of PYTHONPATH refer to.
    """
    found: dict[str, str] = {}
    for entry in environ.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        key = name.decode("utf-8", "surrogateescape")
        if equals and (key in _PLACES or key.startswith(_FABRIC)):
            found[key] = value.decode("utf-8", "surrogateescape")
    if "PYTHONPATH" in found:
        entries = [entry for entry in found["PYTHONPATH"].split(os.pathsep) if entry]
        found["PYTHONPATH"] = os.pathsep.join(os.path.join(folder or "/", entry) for entry in entries)
    return found


def like_process(found: "dict[str, str]") -> "dict[str, str]":
    """Return this process's environment with the variables of `of_process` in place of its own."""
    replaced = _PLACES[1:]
    own = {
        key: value for key, value in os.environ.items() if key not in replaced and not key.startswith(_FABRIC)
    }
    return dict(own, **found)


def without_traces(environ: "dict[str, str]") -> "dict[str, str]":
    """Return the environment without variables that a rank must not inherit, with the probe's settings."""
    return dict({key: value for key, value in environ.items() if key not in REMOVED}, **SETTINGS)
