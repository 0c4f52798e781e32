"""Profiles of running ranks as JSON; `docs/json.md` documents every key."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gpuwatch import __version__
from gpuwatch.diagnose.profiles.call_tree import CodeLine, ThreadTree
from gpuwatch.diagnose.profiles.cost import ProfileOptions, cost_pct
from gpuwatch.diagnose.profiles.hot_frames import differences, hot_frames
from gpuwatch.diagnose.profiles.profiled_rank import ProfiledRank
from gpuwatch.plain import plain_json
from gpuwatch.report.once.json_output import Facts
from gpuwatch.wire import ProcessKernels

MAX_FRAMES = 200
MAX_STACKS = 5000


def profiles_json(profiles: Sequence[ProfiledRank], options: ProfileOptions) -> str:
    """Return the profiles, the differences of the first two, and the options of the run as JSON text."""
    sampled = [each for each in profiles if each.main is not None]
    facts: Facts = {
        "gpuwatch": __version__,
        "seconds": options.seconds,
        "rate_hz": options.rate,
        "blocking": options.blocking,
        "ranks": [rank_facts(each, cost_pct(options, each.frames)) for each in profiles],
        "differences": difference_facts(sampled[0], sampled[1]) if len(sampled) > 1 else [],
    }
    return plain_json(json.dumps(facts, indent=2, ensure_ascii=False))


def rank_facts(profile: ProfiledRank, estimate_pct: float) -> Facts:
    """Return one rank with its cost and threads, as data."""
    each = profile.measured
    return {
        "rank": profile.rank,
        "node": profile.node,
        "gpu": profile.gpu,
        "pid": profile.pid,
        "job": profile.job,
        "error": profile.why,
        "seconds": None if each is None else each.seconds,
        "errors": None if each is None else each.errors,
        "left_out": None if each is None else each.left_out,
        "cost": {
            "estimated_cpu_pct": round(estimate_pct, 1),
            "py_spy_cpu_s": None if each is None else each.py_spy_cpu_s,
            "py_spy_cpu_pct": _rounded(profile.py_spy_cpu_pct, 2),
            "rank_cpu_before_pct": profile.before.cpu_pct,
            "rank_cpu_pct": profile.during.cpu_pct,
            "step_before_s": profile.before.step_s,
            "step_s": profile.during.step_s,
        },
        "threads": [thread_facts(thread) for thread in profile.threads],
        "kernels": None if profile.kernels is None else kernel_facts(profile.kernels),
    }


def kernel_facts(kernels: ProcessKernels) -> Facts:
    """Return the times of a rank's GPU kernels as data; all are `null` or empty if they are unknown."""
    whole = kernels.span_s
    return {
        "error": kernels.why,
        "span_s": whole,
        "busy_s": kernels.busy_s,
        "left_out": None if kernels.why else kernels.left_out,
        "trace_bytes": None if kernels.why else kernels.trace_bytes,
        "totals": [
            {"category": each.category, "count": each.count, "seconds": each.seconds}
            for each in kernels.totals
        ],
        "work": [
            {
                "category": each.category,
                "name": each.name,
                "count": each.count,
                "seconds": each.seconds,
                "span_pct": round(100.0 * each.seconds / whole, 2) if whole else None,
            }
            for each in kernels.work
        ],
    }


def thread_facts(tree: ThreadTree) -> Facts:
    """Return one thread as data: MAX_FRAMES frames by own time, and MAX_STACKS stacks by samples, at most."""
    stacks = sorted(
        ((call.own_samples, (*above, call.code)) for call, above in tree.walk() if call.own_samples),
        key=lambda each: -each[0],
    )
    return {
        "name": tree.name,
        "samples": tree.samples,
        "frames": [
            {
                **code_facts(each.code),
                "own_pct": round(each.own_pct, 2),
                "total_pct": round(each.total_pct, 2),
                "called_by": None if each.caller is None else code_facts(each.caller),
            }
            for each in hot_frames(tree)[:MAX_FRAMES]
        ],
        "stacks": [
            {"samples": count, "frames": [code.short for code in codes]}
            for count, codes in stacks[:MAX_STACKS]
        ],
    }


def difference_facts(mine: ProfiledRank, other: ProfiledRank) -> list[Facts]:
    """Return the frames in which the main threads differ, largest difference first, as data."""
    if mine.main is None or other.main is None:
        return []
    return [
        {
            **code_facts(each.code),
            "called_by": None if each.caller is None else code_facts(each.caller),
            "points": round(each.points, 2),
            "own_pct": round(each.own_pct, 2),
            "against_pct": round(each.other_pct, 2),
        }
        for each in differences(hot_frames(mine.main), hot_frames(other.main))
    ]


def code_facts(code: CodeLine) -> Facts:
    """Return a code line as data: its function, file and line number."""
    return {"function": code.function, "file": code.file, "line": code.line}


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
