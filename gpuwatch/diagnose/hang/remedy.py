"""What to do about the rank that everyone waits for, as commands to copy."""

from __future__ import annotations

import shlex
from dataclasses import replace

from gpuwatch.diagnose.waiting import Hearing
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.command import command_argv
from gpuwatch.wire import Process


def advised(heard: Hearing, fleet: Fleet) -> Hearing:
    """What was heard, with the commands about the ranks that it names."""
    accused = heard.accused
    return heard if accused is None else replace(heard, do=tuple(commands(fleet, accused[1], accused[0])))


def commands(fleet: Fleet, ranks: tuple[int, ...], job: str | None) -> list[tuple[str, str]]:
    """(what it does, the command), for the culprits of one job; the gentlest first."""
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
        ("see what it does", on_node(spec, f"py-spy dump --pid {process.pid}"))
        for spec, process in first.values()
    ]
    slurm = next((p.variables["SLURM_JOB_ID"] for _, p in places if "SLURM_JOB_ID" in p.variables), None)
    if slurm is not None:
        listed = ",".join(nodes)
        reason = f"rank {','.join(map(str, sorted(ranks)))} hangs"
        told.append(
            ("keep new jobs away", f'scontrol update NodeName={listed} State=DRAIN Reason="{reason}"')
        )
        told.append(("end the job", f"scancel {slurm}"))
        told.append(("start it again elsewhere", f"sbatch --exclude={listed} JOB.sh"))
    else:
        told += [("end that rank", on_node(spec, f"kill {process.pid}")) for spec, process in first.values()]
    return told[:8]


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
