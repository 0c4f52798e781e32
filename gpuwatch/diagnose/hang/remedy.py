"""What to do about the rank that everyone waits for, as commands to copy."""

from __future__ import annotations

from dataclasses import replace

from gpuwatch.diagnose.waiting import Hearing
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.wire import Process


def advised(heard: Hearing, fleet: Fleet) -> Hearing:
    """What was heard, with the commands about the ranks that it names."""
    accused = heard.accused
    return heard if accused is None else replace(heard, do=tuple(commands(fleet, accused[1], accused[0])))


def commands(fleet: Fleet, ranks: tuple[int, ...], job: str | None) -> list[tuple[str, str]]:
    """(what it does, the command), for the culprits of one job; the gentlest first."""
    places = [
        (node.name, process)
        for node in fleet.nodes.values()
        for process in sorted(node.processes, key=lambda process: process.pid)
        if process.rank in ranks and job in (None, process.job)
    ]
    if not places:
        return []
    first: dict[int | None, tuple[str, Process]] = {}
    for name, process in places:
        first.setdefault(process.rank, (name, process))
    nodes = sorted({name for name, _ in first.values()})
    told = [
        ("see what it does", f"ssh {name} py-spy dump --pid {process.pid}")
        for name, process in first.values()
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
        told += [("end that rank", f"ssh {name} kill {process.pid}") for name, process in first.values()]
    return told[:8]
