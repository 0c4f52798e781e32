"""Checks whether the next hang will leave evidence: settings of torch and NCCL."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwatch.diagnose.preflight.check import Check, PreflightData, PreflightRank, passed, skipped
from gpuwatch.number_text import counted

RING_SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
"""Variables for the number of flight-recorder entries: new and old name."""
DUMPS = "TORCH_NCCL_DUMP_ON_TIMEOUT"
LOGGING_LEVELS = frozenset(("WARN", "INFO", "TRACE", "ABORT"))
"""Values of NCCL_DEBUG at which NCCL logs why it fails."""
REMEDY = (
    "Set NCCL_DEBUG=WARN, TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 for all ranks; "
    "while you search, TORCH_DISTRIBUTED_DEBUG=DETAIL, which costs time."
)


def hang_evidence(case: PreflightData) -> Check:
    """Return the `Check` that ranks on GPUs log NCCL's errors, and record and dump their collectives."""
    id_ = "env.hang_evidence"
    with_gpus = {node.name for node in case.nodes if node.gpus}
    reported = [
        (rank, rank.reported.variables) for rank in case.ranks if rank.reported and rank.node in with_gpus
    ]
    if not reported:
        return skipped(id_, "no rank on a node with GPUs reports its environment variables")
    lacking: dict[str, list[PreflightRank]] = {}
    for rank, variables in reported:
        for name in _lacks(variables):
            lacking.setdefault(name, []).append(rank)
    if not lacking:
        return passed(
            id_, f"NCCL's errors, the flight recorder and its dumps: {counted(len(reported), 'rank')}"
        )
    detail = "; ".join(f"{name} on {counted(len(ranks), 'rank')}" for name, ranks in lacking.items())
    nodes = tuple(dict.fromkeys(rank.node for ranks in lacking.values() for rank in ranks))
    return Check(id_, "WARN", f"a hang would leave little evidence: {detail}", nodes, REMEDY)


def _lacks(variables: Mapping[str, str]) -> list[str]:
    found = []
    if variables.get("NCCL_DEBUG", "").upper() not in LOGGING_LEVELS:
        found.append("NCCL_DEBUG is not set")
    if not any(variables.get(name, "0").strip() not in ("", "0") for name in RING_SIZES):
        found.append("the flight recorder is not set")
    if variables.get(DUMPS, "0").strip().lower() not in ("1", "true", "y", "yes", "t"):
        found.append(f"{DUMPS} is not set")
    return found
