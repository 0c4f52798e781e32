"""Measured traces as JSON; `docs/json.md` documents every key."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec.structs import asdict

from gpuwatch import __version__
from gpuwatch.diagnose.traces.scale_comparison import ScaleTimes
from gpuwatch.diagnose.traces.topology_verdict import judge_topology
from gpuwatch.diagnose.traces.trace_verdict import RankSpread, TraceVerdict, compare_sections
from gpuwatch.plain import plain, plain_json
from gpuwatch.report.once.json_output import Facts
from gpuwatch.report.trace.scales import scale_facts
from gpuwatch.report.trace.topology import topology_facts
from gpuwatch.runs.traces.breakdown import Breakdown, CollectiveTime
from gpuwatch.runs.traces.operators import Operator
from gpuwatch.runs.traces.rank_profile import RankProfile
from gpuwatch.runs.traces.trace_files import FoundTraces


def trace_json(found: FoundTraces, verdict: TraceVerdict, scales: Sequence[ScaleTimes] = ()) -> str:
    """Return the report on traces as JSON text. `scales`: of these traces and their baselines, or empty."""
    return plain_json(json.dumps(trace_facts(found, verdict, scales), indent=2, ensure_ascii=False))


def trace_facts(found: FoundTraces, verdict: TraceVerdict, scales: Sequence[ScaleTimes] = ()) -> Facts:
    """Return the report of `gpuwatch trace` as plain data."""
    straggler = verdict.straggler
    return {
        "gpuwatch": __version__,
        "ranks": [rank_facts(each) for each in found.profiles],
        "older_traces": [
            {
                "rank": each.trace.rank,
                "device": each.trace.device,
                "file": each.trace.file,
                "steps": len(each.steps_ms),
                **breakdown_facts(each.breakdown),
            }
            for each in found.older
        ],
        "comparison": {
            "compute_ms": spread_facts(verdict.compute),
            "communication_ms": spread_facts(verdict.communication),
            "sections": [
                {"name": each.name, **(spread_facts(each.spread) or {})}
                for each in compare_sections(found.profiles)
            ],
            "straggler": None if straggler is None else straggler.trace.rank,
            "straggler_label": None if straggler is None else straggler.label,
            "confidence": verdict.confidence,
        },
        "flags": [
            {**asdict(flag), "value": round(flag.value, 4), "actions": list(flag.actions)}
            for flag in verdict.flags
        ],
        "scales": scale_facts(scales),
        "nccl": [topology_facts(each, judge_topology(each)) for each in found.dumps],
        "skipped": [{"name": each.name, "why": plain(each.why)} for each in found.skipped],
    }


def rank_facts(profile: RankProfile) -> Facts:
    """Return one rank as data."""
    trace, parts, tables = profile.trace, profile.breakdown, profile.tables
    return {
        "rank": trace.rank,
        "device": trace.device,
        "process": trace.process,
        "file": trace.file,
        "world_size": trace.world_size,
        "backend": trace.backend,
        "host": trace.host,
        "gpu": trace.gpu,
        **breakdown_facts(parts),
        "steps": len(profile.steps_ms),
        "step_mean_ms": _ms(sum(profile.steps_ms) / len(profile.steps_ms)) if profile.steps_ms else None,
        "step_max_ms": _ms(max(profile.steps_ms)) if profile.steps_ms else None,
        "collectives": [collective_facts(each) for each in parts.collectives],
        "operators_by_self_cpu": [operator_facts(each) for each in tables.by_self_cpu],
        "operators_by_gpu": [operator_facts(each) for each in tables.by_gpu],
        "kernels": [
            {
                "name": each.name,
                "calls": each.calls,
                "total_ms": _ms(each.total_ms),
                "communication": each.is_communication,
            }
            for each in tables.kernels
        ],
        "modules": [{"name": name, "operators": count} for name, count in tables.modules],
        "sections": [
            {
                "name": each.name,
                "calls": each.calls,
                "total_ms": _ms(each.total_ms),
                "max_ms": _ms(each.longest_ms),
            }
            for each in profile.sections
        ],
        "peak_allocated_bytes": dict(trace.peak_allocated) or None,
        "peak_reserved_bytes": dict(trace.peak_reserved) or None,
        "events": profile.event_count,
        "events_unreadable": trace.unreadable,
        "cut_off": trace.cut_off,
        "notes": [plain(each) for each in trace.notes],
    }


def breakdown_facts(parts: Breakdown) -> Facts:
    """Return the times of one rank, and their shares of the span, as data."""
    ratio, exposed = parts.communication_to_compute, parts.exposed_share
    named = {
        "compute": parts.compute_ms,
        "communication": parts.communication_ms,
        "memory_copy": parts.memory_copy_ms,
        "other": parts.other_ms,
        "idle": parts.idle_ms,
    }
    return {
        "basis": parts.basis,
        "span_ms": _ms(parts.span_ms),
        **{f"{name}_ms": _ms(value) for name, value in named.items()},
        **{f"{name}_pct": _pct(parts.share(value)) for name, value in named.items()},
        "communication_busy_ms": _ms(parts.communication_busy_ms),
        "overlap_ms": _ms(parts.communication_busy_ms - parts.communication_ms),
        "overlap_pct": None if exposed is None else _pct(1.0 - exposed),
        "exposed_communication_pct": _pct(exposed),
        "communication_to_compute": None if ratio is None else round(ratio, 4),
    }


def collective_facts(each: CollectiveTime) -> Facts:
    """Return one collective of one rank as data."""
    return {
        "name": each.name,
        "calls": each.calls,
        "total_ms": _ms(each.total_ms),
        "exposed_ms": _ms(each.exposed_ms),
        "bytes": None if each.bytes is None else round(each.bytes),
    }


def operator_facts(each: Operator) -> Facts:
    """Return one operator of one rank as data."""
    return {
        "name": each.name,
        "calls": each.calls,
        "self_cpu_ms": _ms(each.self_cpu_ms),
        "total_cpu_ms": _ms(each.total_cpu_ms),
        "self_cuda_ms": _ms(each.self_gpu_ms),
        "total_cuda_ms": _ms(each.total_gpu_ms),
        "flops": each.flops,
        "shapes": list(each.shapes),
    }


def spread_facts(spread: RankSpread | None) -> Facts | None:
    """Return the spread of one quantity over the ranks as data; None stays None."""
    if spread is None:
        return None
    imbalance = spread.imbalance
    return {
        "mean": _ms(spread.mean),
        "std": _ms(spread.std),
        "min": _ms(spread.least),
        "max": _ms(spread.most),
        "min_label": spread.least_label,
        "max_label": spread.most_label,
        "imbalance": None if imbalance is None else round(imbalance, 4),
    }


def _ms(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _pct(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 3)
