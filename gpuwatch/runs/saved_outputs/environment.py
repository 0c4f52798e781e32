"""Dumps of environment variables (`env`, `printenv`): which rank ran on which host."""

from __future__ import annotations

import re

from gpuwatch.agent.base.rank_environment import identity, variables
from gpuwatch.runs.model.clues import RANK_ON_HOST

MIN_VARIABLES = 2
"""So many variables of a launcher in a file's first bytes make it a dump."""
_LAUNCHER = re.compile(
    rb"(?m)^(?:export |declare -x )?(?:RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|SLURM_JOB_ID"
    rb"|SLURM_PROCID|OMPI_COMM_WORLD_RANK|PMI_RANK|TORCHELASTIC_RUN_ID)=[\"']?[\w.:-]{1,200}[\"']?\r?$"
)
_LINE = re.compile(rb"(?m)^(?:export |declare -x )?([A-Za-z_]\w{0,100})=[\"']?([^\"'\r\n]{0,1000})")


def is_dump(head: bytes) -> bool:
    """Whether the first bytes of a file are those of a dump of a rank's environment."""
    return len(set(_LAUNCHER.findall(head))) >= MIN_VARIABLES


def rank_clue(head: bytes) -> dict[str, object] | None:
    """The rank and the host of a dump, as the rank map takes it; None: one of them is not in it."""
    found = dict(_LINE.findall(head))
    rank = identity(variables(b"\0".join(key + b"=" + value for key, value in found.items()))).get("rank")
    host = found.get(b"HOSTNAME") or found.get(b"SLURMD_NODENAME") or found.get(b"HOST")
    if rank is None or not host:
        return None
    fields = {"rank": rank, "host": host.decode("utf-8", "replace").partition(".")[0]}
    return {"rule": RANK_ON_HOST, "lines": [], "fields": fields}
