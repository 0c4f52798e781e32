"""Builds the summary of a monitored run from samples, logs, and the parts of its ranks and nodes."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gpuwatch import __version__
from gpuwatch.agent.masking.secret_masking import masked
from gpuwatch.bounded_command import OutputTooLongError, run_bounded
from gpuwatch.cli.run.monitoring.samples import NodeSamples
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.runs.sessions.model.summary import SessionSummary
from gpuwatch.runs.sessions.sources.rank_logs import read_rank_logs
from gpuwatch.telemetry.base.masks import mask_arguments
from gpuwatch.telemetry.base.ranks import stated_environment
from gpuwatch.telemetry.session.folder import SessionFolder

WRITER = f"gpuwatch run {__version__}"
MAX_EXAMPLE_CHARS = 500
MAX_PACKAGES_BYTES = 1 << 20
PACKAGES_S = 10.0
LIST_PACKAGES = (
    "import importlib.metadata as m, json, platform\n"
    "found = {'python': platform.python_version()}\n"
    "for each in m.distributions():\n"
    "    name = each.metadata['Name']\n"
    "    if name: found.setdefault(name.lower(), each.version)\n"
    "print(json.dumps(found))\n"
)
OF_LOGS = (
    "steps", "last_step", "total_steps", "steps_per_s", "steady_steps_per_s", "samples_per_s", "tokens_per_s",
    "step_time_s", "error", "final_loss", "non_finite_loss_step", "best_loss", "final_learning_rate",
    "final_grad_norm", "world_size", "warnings", "evaluation", "evaluations",
)  # fmt: skip
"""Keys of the summary whose values come from the console and the logs of the ranks."""


def facts_at_start(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary's facts that are known before the command runs; secrets are masked."""
    return {
        "writer": WRITER,
        "id": Path(config["folder"]).name,
        "run_id": config["run_id"],
        "status": "running",
        "command": mask_arguments(config["command"]),
        "forced_single_gpu": True if config.get("single_gpu") else None,
        "start": config["start"],
        "environment": {name: masked(value) for name, value in stated_environment().items()},
        "system": system_facts(),
    }


def system_facts() -> dict[str, Any]:
    """Return the summary's `system`: facts about this machine, without the driver."""
    return {
        "hostname": platform.node(),
        "kernel": platform.release(),
        "cpu_count": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    }


def facts_of_samples(samples: NodeSamples, node: str) -> dict[str, Any]:
    """Return the summary's facts about the used GPUs, the ranks and the node."""
    used = samples.used_gpus()
    index_of = {each.gpu.info.uuid: each.gpu.info.index for each in samples.gpus.values()}
    ranks = {
        one.rank: {
            "rank": one.rank,
            "local_rank": one.local_rank,
            "node": node,
            "pid": one.pid,
            "gpu_index": next((index_of.get(uuid) for uuid in samples.gpus_of.get(one.pid, ())), None),
        }
        for one in samples.ranks.values()
    }
    sizes = [one.world_size for one in samples.ranks.values() if one.world_size]
    return {
        "gpus": [each.facts() for each in used],
        "gpu_count": len(used),
        "ranks": [ranks[rank] for rank in sorted(ranks)],
        "world_size": max(sizes, default=None),
        "nodes": [
            {
                "name": node,
                "hostname": platform.node(),
                "gpu_count": len(used),
                "cpu_avg_pct": samples.cpu.mean,
                "memory_avg_pct": samples.memory.mean,
            }
        ],
    }


def facts_of_alerts(alerts: Iterable[Alert]) -> list[dict[str, Any]]:
    """Return the alerts as entries of the summary's `warnings`."""
    return [
        {
            "class": alert.code,
            "severity": alert.severity,
            "count": alert.count,
            "first": alert.first,
            "last": alert.last,
            "example": f"{alert.title}: {alert.text}"[:MAX_EXAMPLE_CHARS],
            "rank": alert.rank,
        }
        for alert in alerts
    ]


def facts_of_logs(folder: SessionFolder) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return (facts, steps) from the console and the ranks' logs in the folder; empty without logs.

    The facts are the known ones of `OF_LOGS`; the steps are rows of one writer's loss curve.
    """
    if not folder.ranks.is_dir():
        return {}, []
    session = read_rank_logs([folder.ranks], folder.path)
    facts = msgspec.to_builtins(session.summary)
    curves = session.curves.named("loss") or session.curves.named("steps_per_s")
    steps = [
        {
            "kind": "step",
            "time": point.time,
            "step": point.step,
            "total_steps": session.summary.total_steps,
            "loss": point.value if session.curves.named("loss") else None,
        }
        for point in (curves[0].points if curves else ())
    ]
    return {name: facts[name] for name in OF_LOGS if facts[name] is not None}, steps


def joined_warnings(alerts: list[dict[str, Any]], findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the alerts' entries, then findings of classes without an alert. Severity info is left out."""
    known = {each["class"] for each in alerts}
    return alerts + [each for each in findings if each["class"] not in known and each["severity"] != "info"]


def list_packages(interpreter: str | None) -> dict[str, str]:
    """Return package -> version of the command's Python, and `python` -> its version.

    Empty if the interpreter cannot be run.
    """
    if interpreter is None:
        return {}
    try:
        done = run_bounded([interpreter, "-I", "-c", LIST_PACKAGES], PACKAGES_S, MAX_PACKAGES_BYTES)
        found = json.loads(done.stdout)
    except (OSError, ValueError, RecursionError, subprocess.TimeoutExpired, OutputTooLongError):
        return {}
    return {str(name): str(version) for name, version in found.items()} if isinstance(found, dict) else {}


def with_rates(summary: dict[str, Any], duration_s: float) -> dict[str, Any]:
    """Set the duration, steps per second, world size, mode and node count in `summary`, and return it.

    The mode is "multi" for more than one rank or GPU, else "single".
    """
    summary["duration_s"] = duration_s
    if summary.get("steps") and duration_s > 0:
        summary["steps_per_s"] = summary["steps"] / duration_s
    counts = [summary.get(name) or 0 for name in ("world_size", "gpu_count")]
    summary["world_size"] = summary.get("world_size") or max(1, len(summary.get("ranks") or ()))
    summary["mode"] = "multi" if max(*counts, summary["world_size"]) > 1 else "single"
    summary["node_count"] = max(1, len({each.get("name") for each in summary.get("nodes") or ()}))
    return summary


def scale_rates(
    summary: dict[str, Any], own: Mapping[str, Any], part: Mapping[str, Any], duration_s: float
) -> None:
    """Convert the rates and the overall MFU that came from `part` to the whole run's duration.

    `part` is of the telemetry library, whose rates are over the time of its own tracker.
    """
    tracked = part.get("duration_s")
    for name in ("samples_per_s", "tokens_per_s", "mfu_overall"):
        rate = part.get(name)
        if not isinstance(tracked, (int, float)) or not isinstance(rate, (int, float)) or not duration_s > 0:
            continue
        if own.get(name) is None and summary.get(name) == rate:
            summary[name] = rate * min(1.0, tracked / duration_s)


def known_keys(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts without keys that `SessionSummary` does not have."""
    names = {each.encode_name for each in msgspec.structs.fields(SessionSummary)}
    return {name: value for name, value in facts.items() if name in names}
