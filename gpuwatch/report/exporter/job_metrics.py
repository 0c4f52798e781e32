"""Metrics of jobs, training, checkpoints and ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.diagnose.training.job_view.build import jobs_of, overview, received_from
from gpuwatch.diagnose.training.job_view.facts import JobFacts, RankRow
from gpuwatch.diagnose.training.job_view.rank_placement import RankPlacement
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.link.prometheus.series import job as series
from gpuwatch.report.exporter.page import MetricsPage, label, labels
from gpuwatch.report.output.fair_order import in_turn
from gpuwatch.telemetry.training.flops import TERA

MAX_JOBS_SHOWN = 64
"""Maximum number of jobs per page: running and large ones first, the nodes of their first ranks in turn."""
MAX_RANKS_SHOWN = 16_384
"""Maximum number of ranks shown per job."""


def job_facts(fleet: Fleet, placement: RankPlacement, now: float, wall: float) -> Iterator[JobFacts]:
    """Yield up to `MAX_JOBS_SHOWN` jobs, the nodes of their first ranks in turn. `wall`: unix seconds."""
    placement.refresh(fleet)
    received = received_from(fleet, placement)

    def node_of(job: str | None) -> str | None:
        return next((placed.node for placed in placement.jobs.get(job, {}).values()), None)

    for job in islice(in_turn(jobs_of(placement, received), node_of), MAX_JOBS_SHOWN):
        for made in overview(fleet, placement, received, job, now, wall):
            if made is not None:
                yield made


def job_metrics(
    page: MetricsPage, made: JobFacts, saved: Mapping[str | None, Checkpoint], offset_s: float
) -> None:
    """Add all samples of a job except its ranks'. `offset_s`: unix seconds minus our monotonic clock."""
    own = label("job", made.job or "")
    if not page.is_new("job", own):
        return
    page.put(series.JOB_UP, own, int(made.ranks_alive > 0 or any(row.alive for row in made.rows)))
    page.put(series.WORLD, own, made.world)
    page.put(series.ALIVE, own, made.ranks_alive if made.ranks_seen else None)
    page.put(series.JOB_NODES, own, made.nodes or None)
    for column in series.PROGRESS_SERIES:
        fact = made.facts.get(column.field)
        if fact is not None:
            page.put(column.family, own, column.exported(fact.value))
    if made.job_tokens_per_s is not None:
        page.put(series.TOKENS, own, made.job_tokens_per_s.value)
    if (tflops := made.facts.get("tflops")) is not None:
        page.put(series.TFLOPS, own, tflops.value * TERA)
    for share in made.shares:
        page.put(series.WAITING, f"{own},{label('part', share.what)}", share.share)
    if made.times is not None:
        percentiles = {"50": made.times.p50, "95": made.times.p95, "99": made.times.p99}
        for percentile, seconds in percentiles.items():
            page.put(series.STEP_PERCENTILE, f'{own},percentile="{percentile}"', seconds)
    for name, apart in made.spreads.items():
        page.put(series.IMBALANCE_RATIO, f"{own},{label('column', name)}", apart.imbalance)
    if made.stepped_at is not None:
        page.put(series.STEPPED, own, round(made.stepped_at + offset_s, 3))
    checkpoint = saved.get(made.job)
    if checkpoint is not None:
        _checkpoint(page, own, checkpoint)


def _checkpoint(page: MetricsPage, own: str, checkpoint: Checkpoint) -> None:
    page.put(series.SAVED_AT, own, checkpoint.at)
    page.put(series.SAVED_STEP, own, checkpoint.step)
    page.put(series.SAVED_WHOLE, own, None if checkpoint.complete is None else int(checkpoint.complete))
    page.put(series.STEPS_LOST, own, checkpoint.steps_lost)


def rank_metrics(page: MetricsPage, made: JobFacts, offset_s: float) -> None:
    """Add the samples of a job's ranks (what they log), at most MAX_RANKS_SHOWN; GPUs have their own series.

    `offset_s`: unix seconds minus our monotonic clock.
    """
    page.dropped += max(0, len(made.rows) - MAX_RANKS_SHOWN)
    for row in made.rows[:MAX_RANKS_SHOWN]:
        own = labels({"job": made.job or "", "rank": row.rank, "node": row.node, "gpu": row.gpu})
        if page.is_new("rank", own):
            _rank(page, row, own, offset_s)


def _rank(page: MetricsPage, row: RankRow, own: str, offset_s: float) -> None:
    page.put(series.RANK_INFO, f"{own},{labels({'uuid': row.uuid})}".rstrip(","), 1)
    page.put(series.RANK_UP, own, int(row.alive) if row.alive or row.ended else None)
    page.put(series.RANK_STEP, own, row.step)
    page.put(series.RANK_LAG, own, row.lag)
    page.put(series.RANK_STEP_TIME, own, row.step_s)
    page.put(series.RANK_TOKENS, own, row.tokens_per_s)
    if row.reported_at is not None:
        page.put(series.RANK_REPORTED, own, round(row.reported_at + offset_s, 3))
    if row.wrote_at is not None:
        page.put(series.RANK_WROTE, own, round(row.wrote_at + offset_s, 3))
    for column in sorted(row.flags):
        page.put(series.RANK_OUTLIER, f"{own},{label('column', column)}", 1)
