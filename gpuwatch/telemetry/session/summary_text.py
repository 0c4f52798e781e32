"""The summary of a session as the text of `_summary.txt`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

RULE = "=" * 60
SMALL_LOSS = 0.01
"""A smaller loss is shown with significant digits, because four decimals would show little of it."""
LARGEST_NUMBER = 1e30
"""Largest number that is shown; JSON allows numbers that no float can hold."""


def summary_text(summary: Mapping[str, Any]) -> str:
    """Return a session's summary as text; unknown values are a dash or left out."""
    lines = ["TRAINING SESSION SUMMARY", RULE, *_facts(summary)]
    for heading, section in (
        ("GPUs", _gpus(summary)),
        ("Evaluation", _evaluation(summary)),
        ("Communication", _communication(summary)),
        ("Timers", _timers(summary)),
        ("Ranks", _ranks(summary)),
        ("Warnings", _warnings(summary)),
    ):
        if section:
            lines += ["", f"{heading}:", *(f"  {line}" for line in section)]
    return "\n".join(lines) + "\n"


def shown(value: Any, form: str = "{}", scale: float = 1.0) -> str:
    """Return a number in the format `form`, times `scale`; a text as it is; a dash for everything else.

    A number that is NaN or not below `LARGEST_NUMBER` is a dash, too.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < LARGEST_NUMBER:
        return form.format(value * scale if scale != 1.0 else value)
    return str(value) if isinstance(value, str) and value else "-"


def _facts(summary: Mapping[str, Any]) -> list[str]:
    duration = summary.get("duration_s")
    minutes = f" ({shown(duration, '{:.1f}min', 1 / 60)})"
    times = summary.get("step_time_s") or {}
    model = summary.get("model") or {}
    times_text = ", ".join(f"{key} {shown(times.get(key), '{:.4g}s')}" for key in ("mean", "p50", "p99"))
    mfu = ((key, shown(summary.get(f"mfu_{key}"), "{:.1f}%", 100)) for key in ("step", "overall"))
    mfu_text = ", ".join(f"{key} {value}" for key, value in mfu)
    lost = summary.get("non_finite_loss_step")
    rows: Iterable[tuple[str, str | None]] = (
        ("Session", shown(summary.get("id"))),
        ("Run ID", shown(summary.get("run_id"))),
        ("Status", shown(summary.get("status"))),
        ("Error", shown(summary.get("error")) if summary.get("error") else None),
        ("Mode", {"multi": "MULTI-GPU", "single": "SINGLE-GPU"}.get(str(summary.get("mode")), "-")),
        ("Ranks, nodes", f"{shown(summary.get('world_size'))}, {shown(summary.get('node_count'))}"),
        ("GPUs", shown(summary.get("gpu_count"))),
        ("Model", shown(model.get("name"))),
        ("Parameters", shown(model.get("parameters"), "{:,}")),
        ("Duration", shown(duration, "{:.1f}s") + minutes),
        ("Steps", shown(summary.get("steps"))),
        ("Steps/sec", shown(summary.get("steps_per_s"), "{:.4g}")),
        ("Samples/sec", shown(summary.get("samples_per_s"), "{:.4g}")),
        ("Tokens/sec", shown(summary.get("tokens_per_s"), "{:.6g}")),
        ("Step time", times_text),
        ("MFU", mfu_text),
        ("Final loss", _loss(summary.get("final_loss"))),
        ("Loss", f"NaN or Inf since step {shown(lost)}" if lost is not None else None),
        ("Best loss", _loss(summary.get("best_loss"))),
    )  # fmt: skip
    return [f"{name + ':':<14}{value}" for name, value in rows if value is not None]


def _loss(value: Any) -> str:
    """Return a loss as text with four decimals; a small one with four significant digits."""
    is_small = isinstance(value, (int, float)) and 0 < abs(value) < SMALL_LOSS
    return shown(value, "{:.4g}" if is_small else "{:.4f}")


def _gpus(summary: Mapping[str, Any]) -> list[str]:
    return [
        f"GPU {shown(gpu.get('index'))} of {shown(gpu.get('node'))}: "
        f"{shown(gpu.get('utilization_avg_pct'), '{:.1f}%')} avg util, "
        f"{shown(gpu.get('utilization_peak_pct'), '{:.1f}%')} peak, "
        f"{shown(gpu.get('memory_avg_pct'), '{:.1f}%')} avg memory  {shown(gpu.get('name'))}"
        for gpu in summary.get("gpus") or ()
    ]


def _evaluation(summary: Mapping[str, Any]) -> list[str]:
    return [f"{name}: {shown(value, '{:.4f}')}" for name, value in (summary.get("evaluation") or {}).items()]


def _communication(summary: Mapping[str, Any]) -> list[str]:
    lines = []
    for each in summary.get("communication") or ():
        parts = [f"{each.get('operation')}: {shown(each.get('count'))} occurrences"]
        if each.get("bytes_total") is not None:
            parts.append(f"{shown(each['bytes_total'], '{:.2f}MB', 1e-6)} in total")
        if each.get("time_total_s") is not None:
            parts.append(f"{shown(each['time_total_s'], '{:.3f}s')}")
        if each.get("bandwidth_avg_bps") is not None:
            parts.append(f"{shown(each['bandwidth_avg_bps'], '{:.2f}MB/s', 1e-6)}")
        if each.get("share_of_step_time") is not None:
            parts.append(f"{shown(each['share_of_step_time'], '{:.1f}%', 100)} of step time")
        lines.append(", ".join(parts))
    return lines


def _timers(summary: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}: {shown(each.get('total'), '{:.3f}s')} in {shown(each.get('count'))}, "
        f"mean {shown(each.get('mean'), '{:.4g}s')} ({shown(each.get('kind'))})"
        for name, each in (summary.get("timers") or {}).items()
        if isinstance(each, Mapping)
    ]


def _ranks(summary: Mapping[str, Any]) -> list[str]:
    return [
        f"rank {shown(each.get('rank'))} on {shown(each.get('node'))}: {shown(each.get('steps'))} steps, "
        f"mean step {shown(each.get('step_time_mean_s'), '{:.4g}s')}"
        for each in summary.get("ranks") or ()
    ]


def _warnings(summary: Mapping[str, Any]) -> list[str]:
    return [
        f"{each.get('class')} x{shown(each.get('count'))}: {shown(each.get('example'))}"
        for each in summary.get("warnings") or ()
    ]
