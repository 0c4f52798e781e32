"""One job as screen 6 shows it, from what its logs tell, where its ranks run and what their GPUs do.

Pure functions; the caller says how often. Values that are too old to be of now are never compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, pairwise
from operator import attrgetter
from statistics import median
from typing import TypeAlias

from gpuwatch.diagnose.training.facts import (
    COLUMNS,
    Column,
    Fact,
    JobFacts,
    RankRow,
    Share,
    spread,
    step_times,
)
from gpuwatch.diagnose.training.mfu import TFLOPS_PER_GPU, mfu, scope_of
from gpuwatch.diagnose.training.pace import COMMUNICATION, LOADING, SHARE, share_of, step_s
from gpuwatch.diagnose.training.peaks import TERA, peak_flops
from gpuwatch.diagnose.training.seats import Job, Seat, Seats
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.node import STALE_TICKS, Node
from gpuwatch.fleet.progress import RankProgress
from gpuwatch.fleet.readings import slowdown_pct
from gpuwatch.hosts.plan import Model

Voice: TypeAlias = "tuple[RankProgress, Seat | None]"
"""Who speaks, and where that one sits."""
Heard: TypeAlias = dict[Job, list[Voice]]

ROUNDED = 20
"""Times between told steps that a rank's own is a mean of: stamps of whole seconds round each."""
RECENT = 50
"""Told steps that a pace, a gap and an ETA are worked out from."""
PERCENTILES_OF = 500
LATE_GAPS, LATE_S, LATE_UNKNOWN_S = 3.0, 10.0, 120.0
"""Told values are late after so many usual gaps, and at least so long; where no gap is known, the last."""
SILENT_S, SILENT_GAPS = 10.0, 5.0
"""A rank that used to write stands out when its log is older than the median by so much."""
THROTTLED_PCT = 10.0


def heard_of(fleet: Fleet, seats: Seats) -> Heard:
    """What all logs tell, by the job that they speak of."""
    heard: Heard = {}
    for voice in fleet.progress.voices.values():
        job, seat = seats.of(voice)
        heard.setdefault(job, []).append((voice, seat))
    return heard


def jobs_of(seats: Seats, heard: Heard) -> list[Job]:
    """All jobs: those that run and tell steps first, the largest first."""
    told = {job for job, voices in heard.items() if any(v.stepped_at is not None for v, _ in voices)}

    def order(job: Job) -> tuple[bool, bool, int, str]:
        here = seats.jobs.get(job, {})
        alive = sum([seat.alive for seat in here.values()])
        return not alive, job not in told, -alive, job or ""

    return sorted({**dict.fromkeys(seats.jobs), **dict.fromkeys(heard)}, key=order)


def overview(
    fleet: Fleet, seats: Seats, heard: Heard, job: Job, now: float, wall: float
) -> Iterator[JobFacts | None]:
    """All that is known of a job, worked out in parts: of 1,024 ranks all at once would hold up a frame.

    Args:
        fleet: What is known.
        seats: Refreshed with that fleet.
        heard: `heard_of` both.
        job: One of `jobs_of`.
        now: Our monotonic clock, as the fleet's.
        wall: The unix time of the same moment; log files name the second in which they grew.

    Yields:
        None where the next frame may go on; what is known at last.
    """
    here = seats.jobs.get(job, {})
    voices = _voices(heard.get(job, ()))
    made = JobFacts(job, now, speaking=sum(voice.stepped_at is not None for voice, _ in voices))
    made.speaker = _speaker([voice for voice, _ in voices])
    _pace(made)
    yield None
    made.rows = _rows(fleet, here.values(), voices, now, wall)
    yield None
    _size(made, fleet, here.values())
    _tell(made, voices, fleet.plan.model, now)
    _compare(made, now)
    yield made


# --------------------------------------------------------------------------- who speaks


def _voices(told: Iterable[Voice]) -> list[Voice]:
    """The voices of a job, the freshest of each rank."""
    found: dict[object, Voice] = {}
    for voice, seat in told:
        rank = voice.rank if seat is None else seat.rank
        who: object = id(voice) if rank is None else ("rank", rank)
        known = found.get(who)
        if known is None or _freshness(known[0]) < _freshness(voice):
            found[who] = voice, seat
    return list(found.values())


def _freshness(voice: RankProgress) -> tuple[float, float]:
    return voice.stepped_at or -math.inf, voice.heard_at


def _speaker(voices: Sequence[RankProgress]) -> RankProgress | None:
    """Who says most of those that are about as far as the furthest; of equals the lowest rank."""
    stepped = [voice for voice in voices if voice.stepped_at is not None]
    if not stepped:
        return max(voices, key=_freshness, default=None)
    gap = max(_gap(max(stepped, key=_freshness)) or 0.0, LATE_S)
    newest = max(voice.stepped_at or 0.0 for voice in stepped)
    current = [voice for voice in stepped if newest - (voice.stepped_at or 0.0) <= gap]
    return max(current, key=lambda v: ("loss" in v.values, len(v.values), len(v.steps), -(v.rank or 0)))


def _gap(voice: RankProgress) -> float | None:
    """Usual seconds between two told steps."""
    times = [step.at for step in list(voice.steps)[-RECENT:]]
    gaps = [later - before for before, later in pairwise(times) if later > before]
    return median(gaps) if gaps else None


def _pace(made: JobFacts) -> None:
    voice = made.speaker
    if voice is None:
        return
    made.gap_s = _gap(voice)
    made.late_s = LATE_UNKNOWN_S if made.gap_s is None else max(LATE_S, LATE_GAPS * made.gap_s)
    made.times = step_times(voice.step_times(PERCENTILES_OF))


# --------------------------------------------------------------------------- ranks


def _rows(
    fleet: Fleet,
    seats: Iterable[Seat],
    voices: Sequence[Voice],
    now: float,
    wall: float,
) -> list[RankRow]:
    rows: dict[int, RankRow] = {}
    written: dict[str, dict[int | str, float]] = {}
    own: list[RankRow] = []
    for seat in seats:
        row = RankRow(seat.rank, seat.node, alive=seat.alive)
        own.append(row)
        rows[id(seat)] = row
        node = fleet.nodes.get(seat.node)
        if node is not None:
            if node.name not in written:
                written[node.name] = _written(node, now, wall)
            _place(row, seat, node, written[node.name], now)
    for voice, known in voices:
        told = rows.get(id(known)) if known is not None else None
        if told is None:
            told = RankRow(voice.rank, voice.node)
            own.append(told)
        _hear(told, voice)
    _lags(own)
    return sorted(own, key=lambda row: (row.rank is None, row.rank or 0, row.node))


def _written(node: Node, now: float, wall: float) -> dict[int | str, float]:
    """When (monotonic) a file last grew, by its path and by the processes that write it."""
    offset = node.clock.offset_s if node.clock else 0.0
    found: dict[int | str, float] = {}
    for file in node.logs:
        if file.grown_at is None or file.source == "kernel":
            continue
        at = now - max(0.0, wall - (file.grown_at - offset))
        found[file.path] = at
        for pid in file.pids:
            found[pid] = max(at, found.get(pid, -math.inf))
    return found


def _place(row: RankRow, seat: Seat, node: Node, written: dict[int | str, float], now: float) -> None:
    """What is known of a rank from outside: its GPU, and when its log grew."""
    row.file = seat.logs[0] if seat.logs else None
    grown = [written[key] for key in (seat.pid, *seat.logs) if key in written]
    row.wrote_at = max(grown, default=None)
    gpu = node.gpus.get(seat.uuid) if seat.uuid is not None else None
    if gpu is None:
        return
    row.gpu, row.uuid = gpu.info.index, gpu.info.uuid
    fast, row.gpu_at = gpu.fast, gpu.fast_at
    row.gpu_late = (
        gpu.state != "ok" or gpu.fast_at is None or now - gpu.fast_at > STALE_TICKS * node.interval_s
    )
    if fast is None:
        return
    row.memory_bytes, row.memory_total_bytes = fast.memory_used_bytes, fast.memory_total_bytes
    row.clock_mhz, row.power_w, row.temperature_c = fast.sm_clock_mhz, fast.power_w, fast.temperature_c
    row.busy_pct, row.throttle_pct = fast.utilization_pct, slowdown_pct(fast)


def _hear(row: RankRow, voice: RankProgress) -> None:
    """What a rank tells of itself."""
    row.voice, row.file = voice, voice.file
    if math.isfinite(voice.heard_at):
        row.wrote_at = max(voice.heard_at, row.wrote_at or -math.inf)
    step = voice.values.get("step")
    if step is not None:
        row.step, row.told_at = int(step.value), step.at
    tokens = voice.values.get("tokens_per_s")
    row.tokens_per_s = None if tokens is None else tokens.value
    row.step_s = voice.value("step_time_s")
    if row.step_s is None and (lately := voice.step_times(ROUNDED)):
        row.step_s = step_s(lately)


def _lags(rows: Sequence[RankRow]) -> None:
    """Steps behind the furthest; where steps begin anew with each epoch, only within the furthest's epoch."""
    told = [
        (row, row.step, (row.voice.value("epoch") or 0.0) // 1.0 if row.voice.per_epoch else 0.0)
        for row in rows
        if row.voice is not None and row.step is not None
    ]
    if not told:
        return
    newest = max([epoch for _, _, epoch in told])
    furthest = max([step for _, step, epoch in told if epoch == newest])
    for row, step, epoch in told:
        row.lag = furthest - step if epoch == newest else None


# --------------------------------------------------------------------------- the job


def _size(made: JobFacts, fleet: Fleet, seats: Iterable[Seat]) -> None:
    ranked = [seat for seat in seats if seat.rank is not None]
    made.ranks_seen = len({row.rank for row in made.rows if row.rank is not None})
    made.world = max((seat.world for seat in ranked if seat.world), default=None)
    made.nodes = len({row.node for row in made.rows})
    uuids = {row.uuid: row for row in made.rows if row.uuid is not None}
    made.gpus = len(uuids)
    if made.world and made.ranks_seen and len(uuids) == made.ranks_seen < made.world:
        made.gpus = made.world  # a rank a GPU, and nodes that nobody watches
    names = {fleet.nodes[row.node].gpus[uuid].info.name for uuid, row in uuids.items()}
    made.gpu_name = next(iter(names)) if len(names) == 1 else None


def _tell(made: JobFacts, voices: Sequence[Voice], model: Model | None, now: float) -> None:
    """The numbers of the header: told ones as they are, else worked out where that is possible."""
    voice = made.speaker
    if voice is None:
        return
    seat = next((seat for each, seat in voices if each is voice), None)
    made.speaker_rank = voice.rank if seat is None else seat.rank
    made.facts = {name: Fact(value.value, value.at) for name, value in voice.values.items()}
    _throughput(made, voice, model)
    _utilisation(made, voice, model)
    _eta(made, voice, now)
    step_s = voice.value("step_time_s") or (made.times.p50 if made.times else 0.0)
    phases = {name: value.value for name, value in voice.phases.items()}
    shares = []
    for what, words in (("communication", COMMUNICATION), ("loading data", LOADING)):
        part = share_of(phases, words) / step_s if step_s else 0.0
        if 0.0 < part <= 1.0:
            shares.append(Share(what, part, part > SHARE))
    made.shares = tuple(shares)


def _throughput(made: JobFacts, voice: RankProgress, model: Model | None) -> None:
    """Tokens a second of the whole job, where it is known whose the told ones are."""
    facts = made.facts
    if "tokens_per_s" not in facts and "samples_per_s" in facts and model is not None and model.seq_len:
        samples = facts["samples_per_s"]
        facts["tokens_per_s"] = Fact(samples.value * model.seq_len, samples.at, computed=True)
    told = facts.get("tokens_per_s")
    if told is None:
        return
    own = [row.tokens_per_s for row in made.rows if row.tokens_per_s is not None]
    made.scope = scope_of(voice.dialect, len(own), model)
    if made.scope == "job":
        made.job_tokens_per_s = told
    elif made.scope == "gpu" and made.gpus:
        mean = math.fsum(own) / len(own) if own else told.value
        made.job_tokens_per_s = Fact(mean * made.gpus, told.at, computed=True)


def _utilisation(made: JobFacts, voice: RankProgress, model: Model | None) -> None:
    """MFU from tokens and the model, else from the told TFLOP/s of a GPU; or why there is none."""
    if "mfu" in made.facts:
        return
    peak = None if made.gpu_name is None else peak_flops(made.gpu_name)
    if model is not None and model.peak_tflops is not None:
        peak = model.peak_tflops * TERA
    tflops, tokens = made.facts.get("tflops"), made.job_tokens_per_s
    if not made.gpus:
        made.why_no_mfu = "no GPU of it is seen"
    elif peak is None:
        made.why_no_mfu = "needs model: peak_tflops: for these GPUs"
    elif model is not None and tokens is not None:
        _work_out(made, mfu(tokens.value, made.gpus, model, peak), tokens.at, "model:")
    elif tflops is not None and voice.dialect in TFLOPS_PER_GPU:
        _work_out(made, tflops.value * TERA / peak, tflops.at, "the told TFLOP/s")
    elif model is None:
        made.why_no_mfu = "needs model: in the hosts file"
    elif "tokens_per_s" in made.facts:
        made.why_no_mfu = "needs model: tokens_per_s: gpu or job"
    else:
        made.why_no_mfu = "no tokens/s told"


def _work_out(made: JobFacts, value: float, at: float, by: str) -> None:
    """More than the peak is a wrong size of the model, or of the peak: such a number helps nobody."""
    if value <= 1.0:
        made.facts["mfu"] = Fact(value, at, computed=True)
    else:
        made.why_no_mfu = f"over 100 % of the bf16 peak by {by}"


def _eta(made: JobFacts, voice: RankProgress, now: float) -> None:
    """Seconds to the end, from the told steps and how long one takes; nothing of a run that stands still."""
    step, total = made.facts.get("step"), made.facts.get("total_steps")
    recent = voice.step_times(RECENT)
    if "eta_s" in made.facts or step is None or total is None or not recent or made.late(step.at, now):
        return
    if total.value > step.value and not voice.per_epoch:
        left = (total.value - step.value) * step_s(recent) - (now - step.at)
        made.facts["eta_s"] = Fact(max(0.0, left), now, computed=True)


# --------------------------------------------------------------------------- comparing


def _compare(made: JobFacts, now: float) -> None:
    """How far the ranks lie apart, and which of them stand out."""
    rows = made.rows
    newest = max([row.told_at for row in rows if row.told_at is not None], default=math.inf)
    for row in rows:
        row.told_late = made.late(row.told_at, now)
    # a GPU's value counts while it is fresh, a told one when it is of about the newest told step
    fresh = {
        "gpu": [not row.gpu_late for row in rows],
        "log": [row.told_at is not None and newest - row.told_at <= made.late_s for row in rows],
    }
    stands: dict[int, set[str]] = {}
    for column in COLUMNS:
        of_now = compress(enumerate(map(attrgetter(column.name), rows)), fresh[column.source])
        values = {index: value for index, value in of_now if value is not None}
        apart = spread(list(values.values()), column.limit)
        if apart is None:
            continue
        made.spreads[column.name] = apart
        for index, value in values.items() if apart.flagged else ():
            if _stands_out(value, apart.middle, column):
                stands.setdefault(index, set()).add(column.name)
    _flag(made, stands)


def _flag(made: JobFacts, stands: dict[int, set[str]]) -> None:
    """Mark the ranks that stand out, those by their lag, slowdowns and silence, too."""
    silent = _silent_from(made)
    every = _told_every(made)
    for index, row in enumerate(made.rows):
        if row.lag is not None and row.lag > every:
            stands.setdefault(index, set()).add("lag")
        if row.throttle_pct is not None and not row.gpu_late and row.throttle_pct > THROTTLED_PCT:
            stands.setdefault(index, set()).add("throttle")
        if silent is not None and row.step is not None and row.wrote_at is not None and row.wrote_at < silent:
            stands.setdefault(index, set()).add("log")
    for index, names in stands.items():
        made.rows[index].flags = frozenset(names)


def _stands_out(value: float, middle: float, column: Column) -> bool:
    limit = (column.limit or 0.0) * middle
    high, low = value > middle + limit, value < middle - limit
    return (high and column.bad != "low") or (low and column.bad != "high")


def _told_every(made: JobFacts) -> int:
    """Steps between two told ones: a rank that is so far behind has only not told its newest yet."""
    steps = [] if made.speaker is None else [step.step for step in list(made.speaker.steps)[-RECENT:]]
    gaps = [later - before for before, later in pairwise(steps) if later > before]
    return int(median(gaps)) if gaps else 1


def _silent_from(made: JobFacts) -> float | None:
    """A log that has not grown since then is silent among others that have; None: too few to tell."""
    wrote = [row.wrote_at for row in made.rows if row.wrote_at is not None and row.step is not None]
    if len(wrote) < 3:
        return None
    return median(wrote) - max(SILENT_S, SILENT_GAPS * (made.gap_s or 0.0))
