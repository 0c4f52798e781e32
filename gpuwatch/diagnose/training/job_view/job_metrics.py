"""Metrics of a whole job: size, throughput, GPU utilisation and ETA."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from gpuwatch.diagnose.training.job_view.facts import RECENT_STEPS, Fact, JobFacts, Share
from gpuwatch.diagnose.training.job_view.mfu import mfu, scope_of
from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank, Writer
from gpuwatch.diagnose.training.throughput import WAITING_SHARE, step_s
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.fleet.logs.step_timers import COMMUNICATION, LOADING, longest_timer
from gpuwatch.hosts.plan import Model
from gpuwatch.rules.model.dialect import Dialect
from gpuwatch.telemetry.training.flops import TERA, peak_flops


def fill_size(made: JobFacts, fleet: Fleet, members: Iterable[PlacedRank]) -> None:
    """Set the job's numbers of ranks, nodes and GPUs (0: unknown), and its GPU model if it has only one."""
    ranked = [placed for placed in members if placed.rank is not None]
    made.ranks_seen = len({row.rank for row in made.rows if row.rank is not None})
    made.ranks_alive = len({row.rank for row in made.rows if row.alive and row.rank is not None})
    made.world = max((placed.world for placed in ranked if placed.world), default=None)
    made.nodes = len({row.node for row in made.rows})
    uuids = {row.uuid: row for row in made.rows if row.uuid is not None}
    placed_ranks = {row.rank for row in made.rows if row.rank is not None and (row.alive or row.ended)}
    if uuids and len(uuids) == len(placed_ranks):  # one GPU per rank, including ranks that only a log reports
        made.gpus = max(made.world or 0, made.ranks_seen)
    else:
        made.gpus = len(uuids) if len(placed_ranks) == made.ranks_seen else 0
    names = {fleet.nodes[row.node].gpus[uuid].info.name for uuid, row in uuids.items()}
    made.gpu_name = next(iter(names)) if len(names) == 1 else None


def fill_numbers(made: JobFacts, fleet: Fleet, writers: Sequence[Writer], now: float) -> None:
    """Set the metrics that the job's writer reports, and compute the others if possible."""
    writer, model = made.speaker, fleet.plan.model
    if writer is None:
        return
    dialect = fleet.dialects.get(writer.dialect)
    placed = next((placed for each, placed in writers if each is writer), None)
    made.speaker_rank = writer.rank if placed is None else placed.rank
    made.facts = {name: Fact(value.value, value.at) for name, value in writer.values.items()}
    _throughput(made, dialect, model)
    _utilisation(made, dialect, model)
    _eta(made, writer, now)
    made.shares = tuple(
        _shares(writer, writer.value("step_time_s") or (made.times.p50 if made.times else 0.0))
    )


def _throughput(made: JobFacts, dialect: Dialect | None, model: Model | None) -> None:
    """Set the tokens per second of the whole job, if the scope of the logged value is known."""
    facts = made.facts
    if "tokens_per_s" not in facts and "samples_per_s" in facts and model is not None and model.seq_len:
        samples = facts["samples_per_s"]
        facts["tokens_per_s"] = Fact(samples.value * model.seq_len, samples.at, computed=True)
    reported = facts.get("tokens_per_s")
    if reported is None:
        return
    own = [row.tokens_per_s for row in made.rows if row.tokens_per_s is not None]
    made.scope = scope_of(dialect, len(own), model)
    if made.scope == "job":
        made.job_tokens_per_s = reported
    elif made.scope == "gpu" and made.gpus:
        mean = math.fsum(own) / len(own) if own else reported.value
        made.job_tokens_per_s = Fact(mean * made.gpus, reported.at, computed=True)


def _utilisation(made: JobFacts, dialect: Dialect | None, model: Model | None) -> None:
    """Set the MFU from tokens and model, else from the logged TFLOP/s per GPU; or why there is none."""
    if "mfu" in made.facts:
        return
    peak = None if made.gpu_name is None else peak_flops(made.gpu_name)
    if model is not None and model.peak_tflops is not None:
        peak = model.peak_tflops * TERA
    tflops, tokens = made.facts.get("tflops"), made.job_tokens_per_s
    if not made.gpus:
        seen = any(row.uuid is not None for row in made.rows)
        made.why_no_mfu = "not all of its GPUs are seen" if seen else "none of its GPUs is known"
    elif peak is None:
        made.why_no_mfu = "set `peak_tflops:` of these GPUs under `model:`"
    elif model is not None and tokens is not None:
        _work_out(made, mfu(tokens.value, made.gpus, model, peak), tokens.at, "model:")
    elif tflops is not None and dialect is not None and dialect.tflops_of is not None:
        gpus = made.gpus if dialect.tflops_of == "job" else 1
        _work_out(made, tflops.value * TERA / (gpus * peak), tflops.at, "the logged TFLOP/s")
    elif model is None:
        made.why_no_mfu = "set `model:` in the hosts file"
    elif "tokens_per_s" in made.facts:
        made.why_no_mfu = "set `tokens_per_s:` under `model:` to gpu or job"
    else:
        made.why_no_mfu = "no tokens/s logged"


def _work_out(made: JobFacts, value: float, at: float, by: str) -> None:
    """Set a computed MFU. A value above the peak means a wrong model or peak size and is not shown."""
    if value <= 1.0:
        made.facts["mfu"] = Fact(value, at, computed=True)
    else:
        made.why_no_mfu = f"over 100 % of the bf16 peak by {by}"


def _eta(made: JobFacts, writer: RankProgress, now: float) -> None:
    """Set the seconds to the end, from the logged steps and their duration; not for a stalled run."""
    step, total = made.facts.get("step"), made.facts.get("total_steps")
    recent = writer.step_times(RECENT_STEPS)
    if "eta_s" in made.facts or step is None or total is None or not recent or made.late(step.at, now):
        return
    if total.value > step.value and not writer.per_epoch:
        left = (total.value - step.value) * step_s(recent) - (now - step.at)
        made.facts["eta_s"] = Fact(max(0.0, left), now, computed=True)


def _shares(writer: RankProgress, whole_s: float) -> Iterator[Share]:
    """Yield the shares of a step that the rank waits, by its logged timers. `whole_s`: seconds of a step."""
    phases = {name: value.value for name, value in writer.phases.items()}
    for what, words in (("communication", COMMUNICATION), ("loading data", LOADING)):
        part = longest_timer(phases, words) / whole_s if whole_s else 0.0
        if 0.0 < part <= 1.0:
            yield Share(what, part, part > WAITING_SHARE)
