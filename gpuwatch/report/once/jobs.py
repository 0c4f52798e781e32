"""Jobs with their training metrics as data: for `once --json` and `dmon --json`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from gpuwatch.blocks.model import Line
from gpuwatch.diagnose.serving.server_facts import Latencies, server_facts
from gpuwatch.diagnose.serving.server_text import heading, numbers, trouble
from gpuwatch.diagnose.training.job_view.build import jobs_of, overview, received_from
from gpuwatch.diagnose.training.job_view.facts import JobFacts
from gpuwatch.diagnose.training.job_view.rank_placement import RankPlacement
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.plain import plain
from gpuwatch.report.incidents.json_output import Facts

MAX_JOBS_LISTED = 64
"""Maximum number of jobs listed; running and large ones first."""
WAITS = {"communication": "communication_share", "loading data": "data_share"}


def training_facts(fleet: Fleet, now: float, wall: float) -> list[dict[str, Any]]:
    """Return the jobs that run or log steps, at most `MAX_JOBS_LISTED`, as data.

    `now`: our monotonic clock, `wall`: the same moment in unix seconds.
    """
    return [job_row(made, now, wall) for made in known_jobs(fleet, now, wall)]


def known_jobs(fleet: Fleet, now: float, wall: float) -> Iterator[JobFacts]:
    """Yield the facts of at most `MAX_JOBS_LISTED` jobs, running ones first. `wall`: unix seconds."""
    placement = RankPlacement()
    placement.refresh(fleet)
    received = received_from(fleet, placement)
    for job in jobs_of(placement, received)[:MAX_JOBS_LISTED]:
        for made in overview(fleet, placement, received, job, now, wall):
            if made is not None:
                yield made


def job_row(made: JobFacts, now: float, wall: float) -> dict[str, Any]:
    """Return one job as data; all keys are always present. `wall`: unix seconds."""
    values = {name: fact.value for name, fact in made.facts.items()}
    shares = {WAITS[share.what]: share.share for share in made.shares if share.what in WAITS}
    times = made.times
    stepped = made.stepped_at
    imbalance = {name: apart.imbalance for name, apart in made.spreads.items()}
    return {
        "job": None if made.job is None else plain(made.job),
        "ranks_seen": made.ranks_seen,
        "ranks_alive": made.ranks_alive,
        "world_size": made.world,
        "nodes": made.nodes,
        "gpus": made.gpus or None,
        "gpu_name": made.gpu_name,
        "reported_by_rank": made.speaker_rank,
        "stepped_at": None if stepped is None else round(wall - (now - stepped), 3),
        "step": _whole(values.get("step")),
        "total_steps": _whole(values.get("total_steps")),
        "epoch": values.get("epoch"),
        "loss": finite(values.get("loss")),
        "learning_rate": values.get("lr"),
        "grad_norm": finite(values.get("grad_norm")),
        "tokens_per_s": values.get("tokens_per_s"),
        "job_tokens_per_s": None if made.job_tokens_per_s is None else made.job_tokens_per_s.value,
        "samples_per_s": values.get("samples_per_s"),
        "tflops": values.get("tflops"),
        "step_time_p50_s": times.p50 if times else None,
        "step_time_p95_s": times.p95 if times else None,
        "step_time_p99_s": times.p99 if times else None,
        "mfu_step": values.get("mfu"),
        "mfu_overall": values.get("mfu_overall"),
        "eta_s": values.get("eta_s"),
        **{name: shares.get(name) for name in WAITS.values()},
        "imbalance": imbalance.get("step_s"),
        "memory_imbalance": imbalance.get("memory_bytes"),
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def finite(value: float | None) -> float | None:
    """Return the value; None if it is not finite, since JSON has no NaN (an alert reports the NaN)."""
    return value if value is not None and math.isfinite(value) else None


def server_lines(fleet: Fleet, now: float) -> list[Line]:
    """Return one line per inference server. `now`: our monotonic clock."""
    lines = []
    for server in fleet.servers.servers.values():
        facts = server_facts(server, now)
        why = trouble(facts, now)
        parts = [f"server {heading(facts)}", numbers(facts), why]
        lines.append(Line(plain("  ".join(filter(None, parts))), "warning" if why else "plain", hang=2))
    return lines


def servers_as_facts(fleet: Fleet, now: float) -> list[Facts]:
    """Return the inference servers as data, as in `docs/json.md`."""
    found: list[Facts] = []
    for server in fleet.servers.servers.values():
        facts = server_facts(server, now)
        found.append(
            {
                "name": plain(facts.name),
                "engine": facts.engine,
                "source": facts.source,
                "error": None if facts.error is None else plain(facts.error),
                "age_s": None if facts.at is None else round(max(0.0, now - facts.at), 1),
                "running": facts.running,
                "waiting": facts.waiting,
                "cache_pct": facts.cache_pct,
                "tokens_per_s": facts.tokens_per_s,
                "requests_per_s": facts.requests_per_s,
                "error_pct": facts.error_pct,
                "latency_s": _latencies(facts.latency),
                "first_token_s": _latencies(facts.first_token),
            }
        )
    return found


def _latencies(found: Latencies) -> Facts:
    return {"p50": found.p50, "p95": found.p95, "p99": found.p99}
