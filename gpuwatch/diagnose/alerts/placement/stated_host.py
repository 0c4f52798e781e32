"""The host that the lines of a finding state as their own or as at fault. Pure."""

from __future__ import annotations

import re

from gpuwatch.diagnose.model.failure_classes import NODE_NAMING, of_kinds
from gpuwatch.diagnose.sources.failure_table import table_entry
from gpuwatch.rules.model.failure_class import FailureClass
from gpuwatch.wire import Finding

PROCESS_BELOW = of_kinds("process_below")
"""Classes of errors below which Ray states the address and pid of the process at fault."""
_RAY_TASK = re.compile(r"ray::[^\s(]{1,200}\(\)?(?:\x1b?\[\d{1,2}m)? ?\(?pid=(\d{1,10}), ip=([\d.]{7,15})")
"""Matches the `ray::task()` line in a Ray driver's traceback: pid and address; the last one raised."""
_RAY_NODE = re.compile(r"\bMemory on the node \(IP: ([\d.]{7,15})")
"""Matches the node on which Ray's memory monitor killed a task, as the driver's exception states it."""
_LEAD = r"^(?:\([^()\n]{1,120}\) |[^\n]{0,80}?(?:[|\]>FP][ \t]|\t))?\s+"
"""Pattern of what a driver, a container runtime or a collector puts before a line, and its indentation."""
_RAY_ACTOR = re.compile(_LEAD + r"ip: ([\d.]{7,15})\s*$", re.MULTILINE)
"""Matches the node of an actor (`ip:`), in the lines below a Ray actor error."""


_RAY_PID = re.compile(_LEAD + r"pid: (\d{1,10})\s*$", re.MULTILINE)


def stated_host(finding: Finding, stated: FailureClass | None) -> str | None:
    """Return the host that a finding's lines name as their own or as at fault; None: they name none."""
    entry = table_entry(finding, stated)
    at_fault = finding.fields.get("node") if NODE_NAMING.has(finding.rule, stated) else None
    return (
        (entry and entry[1])
        or finding.host
        or ray_host(finding, stated)
        or (None if at_fault is None else str(at_fault))
    )


def ray_pid(finding: Finding, stated: FailureClass | None) -> int | None:
    """Return the pid of the actor or task of a Ray error, which its driver logs; else None."""
    pid = _RAY_PID.search(_below(finding, stated))
    task = _task_that_raised(finding) if pid is None else None
    return int(pid[1]) if pid is not None else None if task is None else int(task[0])


def ray_host(finding: Finding, stated: FailureClass | None) -> str | None:
    """Return the address that the lines of a Ray error state for the node of its task; else None."""
    below = _below(finding, stated)
    host = _RAY_ACTOR.search(below) or _RAY_NODE.search(below)
    if host is not None:
        return host[1]
    task = _task_that_raised(finding)
    return None if task is None else task[1]


def _below(finding: Finding, stated: FailureClass | None) -> str:
    """Return the lines of a finding from its key line on, if they may state the process at fault; else ""."""
    states = PROCESS_BELOW.has(finding.rule, stated)
    return "\n".join(finding.lines[finding.key :]) if states else ""


def _task_that_raised(finding: Finding) -> tuple[str, str] | None:
    """Return pid and address of the last Ray task that the lines up to the error name; else None."""
    above = "\n".join(finding.lines[: finding.key + 1])
    tasks: list[tuple[str, str]] = _RAY_TASK.findall(above) if "ray::" in above else []
    return tasks[-1] if tasks else None
