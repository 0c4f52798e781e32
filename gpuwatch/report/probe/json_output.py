"""A probe as plain data: the JSON of `gpuwatch probe --json`. `docs/json.md` documents every key.

Unknown is None. GB/s is 10^9 bytes per second.
"""

from __future__ import annotations

import math
from typing import Any

from gpuwatch import __version__
from gpuwatch.plain import plain
from gpuwatch.probe.protocol import NodeInventory
from gpuwatch.probe.results import GpuResult, ProbedNode, Results
from gpuwatch.report.once.json_output import Facts, as_data, values_of
from gpuwatch.report.output.renamed_keys import with_new_names
from gpuwatch.report.probe.format import backend_text, gb_per_s


def probe_facts(results: Results, source: str, *, demo: bool = False) -> Facts:
    """Return the report on a probe as data, as far as the probe got."""
    estimate, verdict = results.estimate, results.verdict
    facts = {
        "source": source,
        **({"demo": True} if demo else {}),
        "phase": results.phase,
        "reason": results.reason or None,
        "backend": results.backend or (estimate.backend if estimate else None),
        "backend_note": backend_text(results) or None,
        "world_size": len(results.slots) or (estimate.ranks if estimate else None),
        "torch": results.torch,
        "nccl": results.nccl,
        "asked": as_data(results.request),
        "estimate": None if estimate is None else as_data(estimate),
        "nodes": [node_facts(node) for node in results.nodes],
        "busy": as_data(results.busy),
        "seats": [as_data(slot) for slot in results.slots],
        "unreachable": [as_data(each) for each in results.unreachable],
        "transports": {plain(name): ranks for name, ranks in results.transports.items()},
        "collectives": [as_data(each) for each in results.collectives],
        "pairs": [as_data(each) for each in results.pairs.values()],
        "gpus": [gpu_facts(each) for each in results.gpus.values()],
        "counters": [as_data(each) for each in results.counters],
        "notes": results.notes,
        "verdict": None if verdict is None else as_data(verdict),
    }
    ended = results.ended
    head = {
        "gpuwatch": __version__,
        "time": round(results.started, 3),
        "seconds": None if ended is None else round(ended - results.started, 3),
    }
    return {**head, **clean(with_new_names(facts))}


def node_facts(node: ProbedNode) -> Facts:
    """Return the preflight's result for one node as data; all keys are present even if nothing answered."""
    inventory = node.inventory
    return {
        "name": node.node,
        "hostname": None if inventory is None else inventory.host,
        "problem": node.problem,
        **values_of(NodeInventory, inventory, without=frozenset({"host", "pid"})),
    }


def gpu_facts(result: GpuResult) -> Facts:
    """Return the single-GPU tests of one GPU as data."""
    return {
        "rank": result.rank,
        "matmul_tflop_per_s": None if result.matmul_flops is None else result.matmul_flops / 1e12,
        "copy_gb_per_s": gb_per_s(result.copy_bps),
        "h2d_gb_per_s": gb_per_s(result.h2d_bps),
        "d2h_gb_per_s": gb_per_s(result.d2h_bps),
    }


def clean(value: Any) -> Any:  # noqa: ANN401  a value of JSON
    """Return the value with strings sanitized and numbers rounded (None if not finite), at any depth."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, float):
        return digits(value)
    if isinstance(value, (list, tuple)):
        return [clean(each) for each in value]
    if isinstance(value, dict):
        return {name: clean(each) for name, each in value.items()}
    return value


def digits(value: float) -> float | None:
    """Return a number rounded to six significant digits; None if not finite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
