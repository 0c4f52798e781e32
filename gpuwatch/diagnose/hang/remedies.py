"""Next steps for the rank that the others wait for, as commands to copy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from gpuwatch.diagnose.hang.combined_verdict import HangReport
from gpuwatch.diagnose.hang.stacks.compare import held_children
from gpuwatch.diagnose.hang.stacks.groups import RankStack, kernel_thread
from gpuwatch.diagnose.hang.stacks.kernel_waits import STOPPED
from gpuwatch.diagnose.hang.stacks.pausing import pauses
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.command import command_argv
from gpuwatch.shell_command import command_line, over_ssh, value
from gpuwatch.wire import Process


def advised(received: HangReport, fleet: Fleet) -> HangReport:
    """Return the report with commands (`do`) for the ranks that it names; unchanged if it names none."""
    named_ranks = received.named_ranks
    if named_ranks is None:
        return received
    job, ranks = named_ranks
    stacks = {
        (each.node, each.pid): each
        for one in received.jobs
        if job in (None, one.job)
        for spot in one.spots
        for each in spot.ranks
    }
    return replace(received, do=tuple(commands(fleet, ranks, job, stacks, received.pausing)))


def commands(
    fleet: Fleet,
    ranks: tuple[int, ...],
    job: str | None,
    stacks: Mapping[tuple[str, int], RankStack],
    pausing: Collection[int] = (),
) -> list[tuple[str, str]]:
    """Return at most 8 (description, command) pairs for the culprits of one job, least disruptive first.

    Only commands that inspect if a culprit saves or evaluates, because it continues by itself.
    `stacks`: the answer of each rank, by node and pid. `pausing`: ranks that save or evaluate by their lines.
    """
    places = [
        (node.spec, process)
        for node in fleet.nodes.values()
        for process in sorted(node.processes, key=lambda process: process.pid)
        if process.rank in ranks and job in (None, process.job) and value("pid", process.pid)
    ]
    if not places:
        return []
    first: dict[int | None, tuple[NodeSpec, Process]] = {}
    for spec, process in places:
        first.setdefault(process.rank, (spec, process))
    nodes = sorted({spec.name for spec, _ in first.values()})
    reported = [
        step
        for spec, process in first.values()
        for step in _inspection(spec, process, stacks.get((spec.name, process.pid)))
    ]
    received = [stacks.get((spec.name, process.pid)) for spec, process in first.values()]
    if set(pausing) & set(ranks) or any(each is not None and pauses(each) for each in received):
        return reported[:8]  # the rank saves or evaluates for all and will continue: end nothing
    slurm = slurm_job(fleet, job)
    if slurm is not None:
        listed = ",".join(nodes)
        reason = f"rank {','.join(map(str, sorted(ranks)))} hangs"
        drain = ["scontrol", "update", f"NodeName={listed}", "State=DRAIN", f"Reason={reason}"]
        reported.append(("keep new jobs away", command_line(drain)))
        reported.append(("end the job", command_line(["scancel", slurm])))
        reported.append(
            ("start it again elsewhere", command_line(["sbatch", f"--exclude={listed}", "JOB.sh"]))
        )
    else:
        for spec, process in first.values():
            reported.append(("end that rank", on_node(spec, ["kill", str(process.pid)])))
    return reported[:8]


def slurm_job(fleet: Fleet, job: str | None) -> str | None:
    """Return the Slurm job id that all ranks of the job have in their environment.

    None if they differ or have none, or if Slurm gives the id to another user than theirs.
    """
    ranks = [
        process
        for node in fleet.nodes.values()
        for process in node.processes
        if process.rank is not None and job in (None, process.job)
    ]
    carried = {process.variables.get("SLURM_JOB_ID") for process in ranks}
    ident = value("job", carried.pop()) if len(carried) == 1 else None
    stated = fleet.scheduler.jobs.get(ident or "")
    users = {process.user for process in ranks if process.user}
    return None if stated is not None and stated.user and users - {stated.user} else ident


def _inspection(spec: NodeSpec, process: Process, received: RankStack | None) -> list[tuple[str, str]]:
    """Return a command with its purpose: SIGCONT for a rank's stopped processes, else a stack dump."""
    main = None if received is None else kernel_thread(received)
    stopped = [] if main is None or main.state not in STOPPED else [process.pid]
    below = [] if received is None else held_children(received)
    stopped += [child.tid for child in below if child.state in STOPPED and value("pid", child.tid)]
    if stopped:
        return [("resume it", on_node(spec, ["kill", "-CONT", *map(str, stopped)]))]
    children = received is not None and received.stack is not None and received.stack.children
    with_children = ["--subprocesses"] if children else []
    dump = ["py-spy", "dump", *with_children, "--pid", str(process.pid)]
    return [("see what it executes", on_node(spec, dump))]


def on_node(spec: NodeSpec, argv: Sequence[str]) -> str:
    """Return the command line to type on this machine: over the node's link, or directly for a local node."""
    if spec.link == "local":
        return command_line(argv)
    if spec.link == "command":
        return command_line(command_argv(spec, command_line(argv)))
    port = ["-p", str(spec.port)] if spec.port is not None else []
    jump = ["-J", spec.jump] if spec.jump is not None else []
    host = spec.address or spec.name
    return over_ssh([*port, *jump], f"{spec.user}@{host}" if spec.user else host, argv)
