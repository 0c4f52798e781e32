"""The place of this node in a run: the run's id, the node's index, and whether there are other nodes."""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Mapping, Sequence

from msgspec import Struct

from gpuwatch.telemetry.session.folder import RUN_VARIABLE, SessionFolder

RUN_ID = re.compile(r"[0-9a-f]{32}")
OPTIONS = {
    "node": ("--node-rank", "--node_rank", "--machine_rank"),
    "id": ("--rdzv-id", "--rdzv_id"),
    "address": ("--rdzv-endpoint", "--rdzv_endpoint", "--master-addr", "--master_addr", "--main_process_ip"),
    "port": ("--master-port", "--master_port", "--main_process_port"),
    "nodes": ("--nnodes", "--num_machines"),
}
"""Options of torchrun, accelerate and DeepSpeed that name a node or a rendezvous, by kind."""
VARIABLES = {
    "node": ("NODE_RANK", "PET_NODE_RANK", "GROUP_RANK", "MACHINE_RANK"),
    "id": ("PET_RDZV_ID",),
    "address": ("PET_RDZV_ENDPOINT", "PET_MASTER_ADDR", "MASTER_ADDR"),
    "port": ("PET_MASTER_PORT", "MASTER_PORT"),
    "nodes": ("PET_NNODES",),
}
DEVICE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
NODE_COUNT = re.compile(r"(?:[0-9]{1,6}:)?([0-9]{1,6})")
"""Matches a number of nodes: `4`, or torchrun's `2:4`, whose second number is the maximum."""


class RunPlace(Struct, frozen=True):
    """The id of a run, and this node's index in it."""

    run_id: str
    """The id of the run, 32 hexadecimal digits, the same on all nodes."""
    part: int
    """The index of this node: 0 writes the session, the others write `parts/node_<part>.json`."""
    is_shared: bool = False
    """True if other nodes take part in the run, or may."""
    unnumbered_nodes: int = 0
    """Number of nodes, if the launcher numbers them after the start: `part` is then the first free index."""


def identify_run(argv: Sequence[str], env: Mapping[str, str]) -> RunPlace:
    """Return the run id and this node's index.

    They come from Slurm's variables, else from the launcher's options and variables. Outside of Slurm a run
    on a single node gets a new id and the index 0, as does one without anything that its nodes have in
    common. An id in GPUWATCH_RUN_ID is kept.
    """
    known = env.get(RUN_VARIABLE, "")
    known = known if RUN_ID.fullmatch(known) else ""
    slurm = env.get("SLURM_PROCID", "")
    if slurm.isdecimal() and env.get("SLURM_STEP_ID"):
        words = [env.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")]
        is_alone = env.get("SLURM_STEP_NUM_TASKS") == "1"
        return RunPlace(known or digest("slurm", *words), int(slurm), is_shared=not is_alone)
    node = launcher_value("node", argv, env)
    part = int(node) if node.isdecimal() else 0
    rendezvous = [launcher_value(kind, argv, env) for kind in ("id", "address", "port")]
    count = NODE_COUNT.fullmatch(launcher_value("nodes", argv, env))
    nodes = int(count[1]) if count else 1
    if node.isdecimal():
        is_shared = bool(part or known or any(rendezvous)) and (part > 0 or count is None or nodes > 1)
        run_id = known or (digest("rendezvous", *rendezvous) if is_shared else uuid.uuid4().hex)
        return RunPlace(run_id, part, is_shared)
    if nodes > 1 and (known or any(rendezvous)):
        return RunPlace(known or digest("rendezvous", *rendezvous), 0, is_shared=True, unnumbered_nodes=nodes)
    return RunPlace(known or uuid.uuid4().hex, 0)


def launcher_value(kind: str, argv: Sequence[str], env: Mapping[str, str]) -> str:
    """Return the value of the launcher's option of this kind, else of its variable; "" for neither."""
    for number, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name in OPTIONS[kind]:
            return value if equals else argv[number + 1] if number + 1 < len(argv) else ""
    return next((env[name] for name in VARIABLES[kind] if env.get(name)), "")


def digest(*words: str) -> str:
    """Return the first 32 hexadecimal digits of the SHA-256 of some words."""
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:32]


def run_environment(folder: SessionFolder, place: RunPlace) -> dict[str, str]:
    """Return the environment of the command: ours, with the session folder and the run id."""
    return {**os.environ, "GPUWATCH_RUN_DIR": str(folder.path), RUN_VARIABLE: place.run_id}


def one_gpu(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which CUDA and ROCm show a process only the first of its GPUs."""
    named = {name: env[name].split(",")[0].strip() for name in DEVICE_VARIABLES if env.get(name, "").strip()}
    return named or dict.fromkeys(DEVICE_VARIABLES[:2], "0")
