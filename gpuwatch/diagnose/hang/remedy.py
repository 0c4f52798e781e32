"""What to do about the rank that everyone waits for, as commands to copy."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace

from gpuwatch.diagnose.incidents.placeholders import slurm_job
from gpuwatch.diagnose.stacks import RankStack, held_children, kernel_thread
from gpuwatch.diagnose.waiting import Hearing
from gpuwatch.diagnose.waits import STOPPED
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.command import command_argv
from gpuwatch.wire import Process


def advised(heard: Hearing, fleet: Fleet) -> Hearing:
    """What was heard, with the commands about the ranks that it names."""
    accused = heard.accused
    if accused is None:
        return heard
    job, ranks = accused
    stacks = {
        (each.node, each.pid): each
        for one in heard.jobs
        if job in (None, one.job)
        for spot in one.spots
        for each in spot.ranks
    }
    return replace(heard, do=tuple(commands(fleet, ranks, job, stacks)))


def commands(
    fleet: Fleet, ranks: tuple[int, ...], job: str | None, stacks: Mapping[tuple[str, int], RankStack]
) -> list[tuple[str, str]]:
    """(what it does, the command), for the culprits of one job; the gentlest first.

    `stacks`: what was heard of each rank, by node and pid.
    """
    places = [
        (node.spec, process)
        for node in fleet.nodes.values()
        for process in sorted(node.processes, key=lambda process: process.pid)
        if process.rank in ranks and job in (None, process.job)
    ]
    if not places:
        return []
    first: dict[int | None, tuple[NodeSpec, Process]] = {}
    for spec, process in places:
        first.setdefault(process.rank, (spec, process))
    nodes = sorted({spec.name for spec, _ in first.values()})
    told = [
        step
        for spec, process in first.values()
        for step in _look(spec, process, stacks.get((spec.name, process.pid)))
    ]
    slurm = next(filter(None, (slurm_job(p.variables.get("SLURM_JOB_ID")) for _, p in places)), None)
    if slurm is not None:
        listed = ",".join(nodes)
        reason = f"rank {','.join(map(str, sorted(ranks)))} hangs"
        drain = ["scontrol", "update", f"NodeName={listed}", "State=DRAIN", f"Reason={reason}"]
        told.append(("keep new jobs away", shlex.join(drain)))
        told.append(("end the job", shlex.join(["scancel", slurm])))
        told.append(("start it again elsewhere", shlex.join(["sbatch", f"--exclude={listed}", "JOB.sh"])))
    else:
        told += [("end that rank", on_node(spec, f"kill {process.pid}")) for spec, process in first.values()]
    return told[:8]


def _look(spec: NodeSpec, process: Process, heard: RankStack | None) -> list[tuple[str, str]]:
    """What does no harm: let go on what somebody stopped, else look."""
    main = None if heard is None else kernel_thread(heard)
    stopped = [] if main is None or main.state not in STOPPED else [process.pid]
    below = [] if heard is None else held_children(heard)
    stopped += [child.tid for child in below if child.state in STOPPED]
    if stopped:
        return [("let it go on", on_node(spec, f"kill -CONT {' '.join(map(str, stopped))}"))]
    with_children = (
        "--subprocesses " if heard is not None and heard.stack is not None and heard.stack.children else ""
    )
    return [("see what it does", on_node(spec, f"py-spy dump {with_children}--pid {process.pid}"))]


def on_node(spec: NodeSpec, command: str) -> str:
    """The command as it is typed here: over the node's own way, and as it is on this machine."""
    if spec.link == "local":
        return command
    if spec.link == "command":
        return shlex.join(command_argv(spec, command))
    port = ["-p", str(spec.port)] if spec.port is not None else []
    jump = ["-J", spec.jump] if spec.jump is not None else []
    host = spec.address or spec.name
    return shlex.join(["ssh", *port, *jump, f"{spec.user}@{host}" if spec.user else host]) + f" {command}"
