"""The ranks of a job, each with its logged values, its GPU, and when its log grew."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gpuwatch.diagnose.training.job_view.facts import RankRow
from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank, Writer
from gpuwatch.diagnose.training.throughput import step_s
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.fleet.nodes.readings import slowdown_pct

MIN_STEP_GAPS = 20
"""Intervals that a rank's mean step time needs, since many timestamps are whole seconds."""


def rank_rows(
    fleet: Fleet, members: Iterable[PlacedRank], writers: Sequence[Writer], now: float, wall: float
) -> list[RankRow]:
    """Return all ranks of a job that have a process or a writer, by rank.

    Args:
        fleet: All that is known.
        members: Placements of the job's ranks.
        writers: Log writers of the job, one per rank.
        now: Our monotonic clock.
        wall: The unix time of the same moment.
    """
    rows: dict[int, RankRow] = {}
    written: dict[str, dict[int | str, float]] = {}
    own: list[RankRow] = []
    for placed in members:
        row = RankRow(
            placed.rank, placed.node, alive=placed.alive, ended=not placed.alive, inferred=placed.inferred
        )
        own.append(row)
        rows[id(placed)] = row
        node = fleet.nodes.get(placed.node)
        if node is not None:
            if node.name not in written:
                written[node.name] = _written(node, now, wall)
            _place(row, placed, node, written[node.name], now)
    for writer, known in of_ranks(writers, own):
        reported = rows.get(id(known)) if known is not None else None
        if reported is None:
            reported = RankRow(writer.rank, writer.node)
            own.append(reported)
        _receive(reported, writer)
    _lags(own)
    return sorted(own, key=lambda row: (row.rank is None, row.rank or 0, row.node))


def of_ranks(writers: Sequence[Writer], rows: Iterable[RankRow] = ()) -> Sequence[Writer]:
    """Return the writers that are ranks of the job.

    A writer without a rank, such as a progress bar in a launcher's log, is left out if ranks are known, by
    `rows` or by other writers.
    """
    numbered = [each for each in writers if each[0].rank is not None or each[1] is not None]
    return numbered if numbered or any(row.rank is not None for row in rows) else writers


def _written(node: Node, now: float, wall: float) -> dict[int | str, float]:
    """Return path or pid of the writing process -> when the file last grew (monotonic)."""
    found: dict[int | str, float] = {}
    for file in node.logs:
        silent_s = node.silent_s(file, wall)
        if silent_s is None or file.source == "kernel":
            continue
        at = now - silent_s
        found[file.path] = at
        for pid in file.pids:
            found[pid] = max(at, found.get(pid, -math.inf))
    return found


def _place(row: RankRow, placed: PlacedRank, node: Node, written: dict[int | str, float], now: float) -> None:
    """Set the values of a row that are not from log lines: its GPU, and when the log grew."""
    row.file = placed.logs[0] if placed.logs else None
    grown = [written[key] for key in (placed.pid, *placed.logs) if key in written]
    row.wrote_at = max(grown, default=None)
    gpu = node.gpus.get(placed.uuid) if placed.uuid is not None else None
    if gpu is None:
        return
    row.gpu, row.uuid = gpu.info.index, gpu.info.uuid
    fast, row.gpu_at, row.gpu_state = gpu.fast, gpu.fast_at, gpu.state
    row.gpu_late = gpu.state != "ok" or gpu.fast_of_late(node.interval_s, now) is None
    if fast is None:
        return
    row.memory_bytes, row.memory_total_bytes = fast.memory_used_bytes, fast.memory_total_bytes
    row.clock_mhz, row.power_w, row.temperature_c = fast.sm_clock_mhz, fast.power_w, fast.temperature_c
    row.busy_pct, row.throttle_pct = fast.utilization_pct, slowdown_pct(fast)


def _receive(row: RankRow, writer: RankProgress) -> None:
    """Set the values of a row that its rank logs."""
    row.writer, row.file = writer, writer.file
    if math.isfinite(writer.received_at):
        row.wrote_at = max(writer.received_at, row.wrote_at or -math.inf)
    step = writer.values.get("step")
    if step is not None:
        row.step, row.reported_at = int(step.value), step.at
    tokens = writer.values.get("tokens_per_s")
    row.tokens_per_s = None if tokens is None else tokens.value
    row.step_s = writer.value("step_time_s")
    if row.step_s is None and (lately := writer.step_times(MIN_STEP_GAPS)):
        row.step_s = step_s(lately)


def _lags(rows: Sequence[RankRow]) -> None:
    """Set each row's `lag`, the number of steps behind the furthest rank.

    If steps restart each epoch, ranks in an earlier epoch get None.
    """
    reported = [
        (row, row.step, (row.writer.value("epoch") or 0.0) // 1.0 if row.writer.per_epoch else 0.0)
        for row in rows
        if row.writer is not None and row.step is not None
    ]
    if not reported:
        return
    newest = max([epoch for _, _, epoch in reported])
    furthest = max([step for _, step, epoch in reported if epoch == newest])
    for row, step, epoch in reported:
        row.lag = furthest - step if epoch == newest else None
