"""A comparison of sessions as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gpuwatch.blocks.model import Line
from gpuwatch.number_text import plural
from gpuwatch.report.sessions.numbers import DASH, duration, fixed, loss_cell, loss_words, significant, whole
from gpuwatch.runs.comparison.compare import (
    ScalingPoint,
    SessionComparison,
    SessionGroup,
    mode_of,
    steady_samples_per_s,
    steps_per_s,
)
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import SessionGpu

TITLE = "SINGLE GPU vs MULTI-GPU COMPARISON"
RULE = "=" * 60


def comparison_lines(found: SessionComparison) -> Iterator[Line]:
    """Yield the lines of the report: differences in settings, sessions by group, averages."""
    yield Line(TITLE)
    yield Line(RULE)
    for each in found.differences:
        values = "; ".join(f"{session}: {value}" for session, value in each.values.items())
        yield Line(f"Not alike: {each.what.replace('_', ' ')} ({values})", "warning", hang=11)
    for title, group in (
        ("SINGLE GPU SESSIONS", found.single),
        ("MULTI-GPU SESSIONS", found.multi),
        ("SESSIONS OF UNKNOWN MODE", found.unknown),
    ):
        if group.sessions or group is not found.unknown:
            yield Line("")
            yield Line(f"{title} ({len(group.sessions)}):")
        for number, session in enumerate(group.sessions):
            if number:
                yield Line("")
            yield from session_lines(session, with_name=True)
    yield Line("")
    yield from configuration_lines(found)
    yield from performance_lines(found)


def configuration_lines(found: SessionComparison) -> Iterator[Line]:
    """Yield a line for each setting in which the sessions differ; nothing if they do not."""
    if not found.configuration:
        return
    yield Line("CONFIGURATION DIFFERENCES:")
    for each in found.configuration:
        values = "; ".join(f"{session}: {value}" for session, value in each.values.items())
        yield Line(f"  {each.what}: {values}", hang=4)
    yield Line("")


def session_lines(session: TrainingSession, *, with_name: bool = False) -> Iterator[Line]:
    """Yield lines with the figures of one session. `with_name`: also the name of the run."""
    one = session.summary
    yield Line(f"  Session: {session.name}")
    if with_name and one.name:
        yield Line(f"  Name: {one.name}")
    if one.status not in (None, "completed"):
        yield Line(f"  Status: {one.status}", "warning")
    yield Line(f"  Duration: {duration(one.duration_s)}")
    ranks = (
        f" ({one.world_size} CPU rank{'s' * (one.world_size > 1)})"
        if one.world_size and not one.gpu_count
        else ""
    )
    yield Line(f"  GPUs: {whole(one.gpu_count)}{ranks}")
    yield Line(f"  Steps: {whole(one.steps)}")
    yield Line(f"  Final Loss: {loss_words(one)}")
    yield Line(f"  Steps/sec: {rate_of_steps(steps_per_s(one))}")
    if one.steady_steps_per_s is not None:
        samples = steady_samples_per_s(one)
        more = "" if samples is None else f", {significant(samples)} samples/sec"
        yield Line(f"  By the median step: {rate_of_steps(one.steady_steps_per_s)} steps/sec{more}")
    for gpu in one.gpus or ():
        yield Line(f"  {gpu_line(gpu)}")
    for problem in session.problems:
        yield Line(f"  Note: {problem}", "muted", hang=8)


def rate_of_steps(value: float | None) -> str:
    """Return steps per second as text with two decimals, small values with more digits; a dash for None."""
    return DASH if value is None else f"{value:.2f}" if value >= 0.1 else significant(value, 3)


def gpu_line(gpu: SessionGpu) -> str:
    """Return `GPU 0: 85.2% avg util, 98.1% peak, 78.3% avg memory`."""
    where = f"{gpu.node} " if gpu.node else ""
    return (
        f"{where}GPU {whole(gpu.index)}: {fixed(gpu.utilization_avg_pct, 1, '%')} avg util, "
        f"{fixed(gpu.utilization_peak_pct, 1, '%')} peak, {fixed(gpu.memory_avg_pct, 1, '%')} avg memory"
    )


def performance_lines(found: SessionComparison) -> Iterator[Line]:
    """Yield lines with averages, speed-up and efficiency, by GPU count if there are several."""
    yield Line("PERFORMANCE COMPARISON:")
    yield from average_lines("Single GPU Average", found.single)
    if len(found.multi.counts) < 2:
        yield Line("")
        yield from average_lines("Multi-GPU Average", found.multi)
    yield Line("")
    if found.speedup is not None:
        point = found.scaling[-1]
        yield Line(f"Multi-GPU Speedup: {found.speedup:.2f}x")
        yield Line(f"GPU Efficiency: {100 * (found.efficiency or 0):.1f}%")
        for title, value in (
            ("Speedup in samples/s", point.throughput_speedup),
            ("Speedup by the median step", point.steady_speedup),
            ("Speedup in samples/s by the median step", point.steady_throughput_speedup),
        ):
            if value is not None:
                yield Line(f"{title}: {value:.2f}x")
    elif len(found.scaling) > 1:
        yield Line("SCALING:")
        yield Line("  GPUs  Sessions  Steps/sec  Speedup  Efficiency  Samples/s speedup  Median-step speedup")
        yield from map(scaling_line, found.scaling)
    else:
        yield Line("Speedup: unknown; it requires sessions of different GPU counts with steps and durations")


def average_lines(title: str, group: SessionGroup) -> Iterator[Line]:
    """Yield the report lines with the averages of a group of sessions."""
    yield Line(f"{title}:")
    yield Line(f"  Steps/sec: {rate_of_steps(group.steps_per_s)}")
    yield Line(f"  GPU utilization: {fixed(group.utilization_avg_pct, 1, '%')}")


def scaling_line(point: ScalingPoint) -> Line:
    """Return a row of the scaling table."""
    return Line(
        f"  {point.workers:>4}  {len(point.group.sessions):>8}  {rate_of_steps(point.group.steps_per_s):>9}  "
        f"{fixed(point.speedup, 2, 'x'):>7}  "
        f"{fixed(None if point.efficiency is None else 100 * point.efficiency, 1, '%'):>10}  "
        f"{fixed(point.throughput_speedup, 2, 'x'):>17}  {fixed(point.steady_speedup, 2, 'x'):>19}"
    )


def comparison_facts(found: SessionComparison) -> dict[str, Any]:
    """Return the JSON data of `gpuwatch runs compare --json`."""
    return {
        "sessions": [session_facts(each) for each in found.sessions],
        "groups": {"single": group_facts(found.single), "multi": group_facts(found.multi)},
        "speedup": found.speedup,
        "efficiency": found.efficiency,
        "scaling": [
            {
                "gpu_count": point.workers,
                "sessions": [each.name for each in point.group.sessions],
                "steps_per_s": point.group.steps_per_s,
                "samples_per_s": point.group.samples_per_s,
                "baseline_gpu_count": point.baseline_workers,
                "speedup": point.speedup,
                "efficiency": point.efficiency,
                "throughput_speedup": point.throughput_speedup,
                "steady_speedup": point.steady_speedup,
                "steady_throughput_speedup": point.steady_throughput_speedup,
            }
            for point in found.scaling
        ],
        "differences": [{"what": each.what, "values": each.values} for each in found.differences],
        "configuration_differences": [
            {"name": each.what, "values": each.values} for each in found.configuration
        ],
    }


def session_facts(session: TrainingSession) -> dict[str, Any]:
    """Return a session of a comparison or list as data."""
    one = session.summary
    return {
        "id": session.name,
        "path": str(session.path) if session.path.is_absolute() else str(Path.cwd() / session.path),
        "source": session.source,
        "status": one.status,
        "mode": mode_of(one),
        "gpu_count": one.gpu_count,
        "world_size": one.world_size,
        "model": one.model.name if one.model else None,
        "global_batch_size": one.batch.global_size if one.batch else None,
        "start": one.start,
        "duration_s": one.duration_s,
        "steps": one.steps,
        "steps_per_s": steps_per_s(one),
        "steady_steps_per_s": one.steady_steps_per_s,
        "samples_per_s": one.samples_per_s,
        "tokens_per_s": one.tokens_per_s,
        "final_loss": one.final_loss,
        "non_finite_loss_step": one.non_finite_loss_step,
        "gpus": [
            {
                "node": gpu.node,
                "index": gpu.index,
                "name": gpu.name,
                "utilization_avg_pct": gpu.utilization_avg_pct,
                "utilization_peak_pct": gpu.utilization_peak_pct,
                "memory_avg_pct": gpu.memory_avg_pct,
            }
            for gpu in one.gpus or ()
        ],
        "problems": session.problems,
    }


def group_facts(group: SessionGroup) -> dict[str, Any]:
    """Return a group as data; averages are null if its sessions have several GPU counts."""
    return {
        "sessions": [each.name for each in group.sessions],
        "gpu_counts": group.counts,
        "steps_per_s": group.steps_per_s,
        "samples_per_s": group.samples_per_s,
        "duration_s": group.duration_s,
        "final_loss": group.final_loss,
        "utilization_avg_pct": group.utilization_avg_pct,
        "memory_avg_pct": group.memory_avg_pct,
    }


def list_lines(sessions: Sequence[TrainingSession]) -> Iterator[Line]:
    """Yield a table with a line per session."""
    width = max((len(each.name) for each in sessions), default=7)
    yield Line(f"{'SESSION':<{width}}  {'MODE':<6}  GPUS     STEPS   DURATION  STEPS/S  FINAL LOSS  STATUS")
    for each in sessions:
        one = each.summary
        rate = rate_of_steps(steps_per_s(one))
        yield Line(
            f"{each.name:<{width}}  {mode_of(one) or DASH:<6}  {whole(one.gpu_count):>4}  "
            f"{whole(one.steps):>8}  {fixed(one.duration_s, 1, 's'):>9}  {rate:>7}  "
            f"{loss_cell(one):>10}  {one.status or DASH}"
            + (f"  ({plural(len(each.problems), 'problem')})" if each.problems else "")
        )
