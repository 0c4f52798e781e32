"""The place of a run's session: its id, this node's index, and the folder that all nodes share."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuwatch.runs.files.opening import open_below
from gpuwatch.telemetry.session.folder import (
    RUN_VARIABLE,
    SessionFolder,
    create_session_folder,
    is_own_folder,
)

RUN_ID = re.compile(r"[0-9a-f]{32}")
OPTIONS = {
    "node": ("--node-rank", "--node_rank", "--machine_rank"),
    "id": ("--rdzv-id", "--rdzv_id"),
    "address": ("--rdzv-endpoint", "--rdzv_endpoint", "--master-addr", "--master_addr", "--main_process_ip"),
    "port": ("--master-port", "--master_port", "--main_process_port"),
}
"""Options of torchrun, accelerate and DeepSpeed that name a node and a rendezvous."""
VARIABLES = {
    "node": ("NODE_RANK", "PET_NODE_RANK", "GROUP_RANK", "MACHINE_RANK"),
    "id": ("PET_RDZV_ID",),
    "address": ("PET_RDZV_ENDPOINT", "PET_MASTER_ADDR", "MASTER_ADDR"),
    "port": ("PET_MASTER_PORT", "MASTER_PORT"),
}
WAIT_FOR_FOLDER_S = 5.0
"""Seconds to wait for the folder of node rank 0; without a shared file system it never appears."""
MAX_SUMMARY_BYTES = 1 << 20
RECENT_S = 900.0
"""A folder that began more seconds ago belongs to another run with the same rendezvous."""


@dataclass(frozen=True)
class RunPlace:
    """The id of a run, and this node's index in it."""

    run_id: str
    """32 hexadecimal digits, the same on all nodes."""
    part: int
    """0 writes the session; the others write `parts/node_<part>.json`."""


def identify_run(argv: Sequence[str], env: Mapping[str, str]) -> RunPlace:
    """Return the run id and this node's index.

    They come from Slurm's variables, else from the launcher's options and variables. A run on a single node
    gets a new id and the index 0. An id in GPUWATCH_RUN_ID is kept.
    """
    known = env.get(RUN_VARIABLE, "")
    slurm = env.get("SLURM_PROCID", "")
    if slurm.isdecimal() and env.get("SLURM_STEP_ID"):
        words = [env.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")]
        run_id = known if RUN_ID.fullmatch(known) else digest("slurm", *words)
        return RunPlace(run_id, int(slurm))
    node = launcher_value("node", argv, env)
    part = int(node) if node.isdecimal() else 0
    rendezvous = [launcher_value(kind, argv, env) for kind in ("id", "address", "port")]
    if RUN_ID.fullmatch(known):
        return RunPlace(known, part)
    if part or (node and any(rendezvous)):
        return RunPlace(digest("rendezvous", *rendezvous), part)
    return RunPlace(uuid.uuid4().hex, 0)


def launcher_value(kind: str, argv: Sequence[str], env: Mapping[str, str]) -> str:
    """Return the value of the launcher's option of this kind, else of its variable; "" for neither."""
    for number, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name in OPTIONS[kind]:
            return value if equals else argv[number + 1] if number + 1 < len(argv) else ""
    return next((env[name] for name in VARIABLES[kind] if env.get(name)), "")


def digest(*words: str) -> str:
    """Return the first 32 hexadecimal digits of the SHA-256 of the words."""
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:32]


def open_folder(place: RunPlace, logs: Path, start: float) -> tuple[SessionFolder, RunPlace]:
    """Return the session folder and the node's place: node rank 0 makes the folder, the others wait for it.

    A node that does not find it within 5 s makes a folder of its own.

    Raises:
        OSError: The folder cannot be made.
    """
    if place.part == 0:
        return create_session_folder(logs, start), place
    until = time.monotonic() + WAIT_FOR_FOLDER_S
    while True:
        found = find_folder(place.run_id, logs, start)
        if found is not None:
            return SessionFolder.existing(found), place
        if time.monotonic() > until:
            return create_session_folder(logs, start), place
        time.sleep(0.1)


def find_folder(run_id: str, logs: Path, start: float) -> Path | None:
    """Return the session folder with this run id that began within 900 s of `start`; None if there is none.

    Only the newest 100 folders of this user are read.
    """
    try:
        folders = sorted((each for each in logs.iterdir() if each.name.startswith("training_")), reverse=True)
    except OSError:
        return None
    for folder in [each for each in folders if is_own_folder(each)][:100]:
        try:
            facts = json.loads(_summary(folder))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(facts, dict) and facts.get("run_id") == run_id:
            began = facts.get("start")
            if isinstance(began, (int, float)) and abs(start - began) < RECENT_S:
                return folder
    return None


def _summary(folder: Path) -> bytes:
    with os.fdopen(open_below(folder, f"{folder.name}_summary.json"), "rb") as file:
        return file.read(MAX_SUMMARY_BYTES)


def run_environment(folder: SessionFolder, place: RunPlace) -> dict[str, str]:
    """Return the environment of the command: ours, with the session folder and the run id."""
    return {**os.environ, "GPUWATCH_RUN_DIR": str(folder.path), RUN_VARIABLE: place.run_id}
