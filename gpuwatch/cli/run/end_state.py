"""Describes how a command ended, and writes a minimal summary with it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuwatch.telemetry.base.masks import mask_arguments
from gpuwatch.telemetry.session.folder import SessionFolder
from gpuwatch.telemetry.session.summary import empty_summary, write_part, write_summary

BY_REQUEST = {int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGHUP)}


def end_state(wait_status: int | None, interrupted_by: int | None) -> dict[str, Any]:
    """Return `status`, `exit_code` and `exit_signal` for the summary.

    A command that a signal of `BY_REQUEST` ended is interrupted, too.

    Args:
        wait_status: The status from `os.waitpid`; None: unknown, reported as failed.
        interrupted_by: The signal sent to us, if any; the status is then "interrupted" unless the command
            exited with 0.
    """
    if wait_status is None:
        return {"status": "failed", "exit_code": None, "exit_signal": None}
    number = os.WTERMSIG(wait_status) if os.WIFSIGNALED(wait_status) else None
    code = None if number is not None else os.WEXITSTATUS(wait_status)
    if code == 0:
        status = "completed"
    elif interrupted_by is not None or number in BY_REQUEST:
        status = "interrupted"
    else:
        status = "failed"
    name = None if number is None else _name(number)
    return {"status": status, "exit_code": code, "exit_signal": name}


def _name(number: int) -> str:
    """Return the name of a signal; `SIG35` for one without a name (real-time signals)."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def write_bare_summary(config: Mapping[str, Any], end: Mapping[str, Any]) -> None:
    """Write a summary (on further nodes, a part of one) without samples, because the monitor wrote none.

    Raises:
        OSError: The file cannot be written.
    """
    folder = SessionFolder.existing(Path(config["folder"]))
    now = time.time()
    facts = {
        "run_id": config["run_id"],
        "id": folder.id,
        "command": mask_arguments(config["command"]),
        "start": config["start"],
        "end": now,
        "duration_s": now - config["start"],
        **end,
    }
    if config["part"]:
        write_part(folder.node_part(config["part"]), {**facts, "node_rank": config["part"], "final": True})
    else:
        write_summary(folder, {**empty_summary(), **facts})


def final_text(summary: dict[str, Any], end: dict[str, Any]) -> str:
    """Return the last line: `completed after 12.3 s, 100 steps, 8.1 steps/s, final loss 1.234`."""
    how = {"completed": "completed", "failed": "failed", "interrupted": "interrupted"}[end["status"]]
    if end.get("exit_signal"):
        how += f" by {end['exit_signal']}"
    elif end.get("exit_code"):
        how += f" with exit code {end['exit_code']}"
    parts = [f"{how} after {summary['duration_s']:.1f} s"]
    if summary.get("steps"):
        parts.append(f"{summary['steps']} steps, {summary.get('steps_per_s') or 0:.4g} steps/s")
    if summary.get("non_finite_loss_step") is not None:
        parts.append(f"the loss is NaN or Inf since step {summary['non_finite_loss_step']}")
    elif isinstance(summary.get("final_loss"), float):
        parts.append(f"final loss {summary['final_loss']:.4g}")
    if summary.get("warnings"):
        parts.append(f"{len(summary['warnings'])} kinds of warnings")
    return ", ".join(parts)
