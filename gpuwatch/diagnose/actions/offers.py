"""The actions that are possible on a node, GPU, rank or job. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuwatch.diagnose.actions.action import Action, ActionKind, ActionTarget, SignalledProcess, safe_reason
from gpuwatch.diagnose.actions.hits import gpu_hits, is_of_user, job_hits, node_hits, rank_hits, slurm_words
from gpuwatch.diagnose.hang.remedies import on_node, slurm_job
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.shell_command import command_line, value
from gpuwatch.wire import Process

MAX_RANKS = 8
"""Most ranks that get actions of their own, if a node is selected without a GPU or a rank."""
ALL_NODES = ("all", "default")
"""Node names that scontrol takes for several nodes."""
JOB_COMMANDS: tuple[tuple[ActionKind, tuple[str, ...], str], ...] = (
    ("requeue", ("scontrol", "requeue"), "the job ends and waits to be restarted"),
    ("cancel", ("scancel",), "the job ends"),
)
SIGNALS: tuple[tuple[ActionKind, str, tuple[str, ...]], ...] = (
    ("end_rank", "SIGTERM", ()),
    ("kill_rank", "SIGKILL", ("-KILL",)),
)


def possible_actions(target: ActionTarget, fleet: Fleet) -> list[Action]:
    """Return the actions for a target, in the order node, jobs, ranks, GPU.

    An action is left out if one of its values is malformed. A rank that saves or evaluates is not ended.
    """
    node = fleet.nodes.get(target.node or "")
    chosen = _ranks(target, fleet, node)
    found: list[Action] = []
    if node is not None:
        found += _pod(node, fleet) if "kube_node" in node.spec.labels else _slurm_node(node, target)
    jobs = {target.job} if target.job is not None else {process.job for _, process in chosen}
    if not jobs and node is not None:
        jobs = {process.job for process in node.processes if process.rank is not None}
    for job in sorted(jobs, key=str):
        found += _slurm_job_actions(fleet, job)
    for place, process in chosen:
        if process.rank in target.pausing and target.job in (None, process.job):
            continue  # it saves or evaluates for all, and comes back
        found += _end_rank(place, process, fleet, also_kill=len(chosen) <= 1 or target.rank is not None)
    if node is not None and target.gpu is not None:
        found += _reset(node, target.gpu)
    return found


def _ranks(target: ActionTarget, fleet: Fleet, node: Node | None) -> list[tuple[Node, Process]]:
    """Return the node and process of each rank of the target, ordered by rank number.

    At most MAX_RANKS, without zombie processes; none if the target has neither a known node nor a rank.
    """
    nodes = [node] if node is not None else list(fleet.nodes.values()) if target.rank is not None else []
    uuids = {gpu.info.uuid for each in nodes for gpu in each.gpu_list() if gpu.info.index == target.gpu}
    found = [
        (each, process)
        for each in nodes
        for process in each.processes
        if process.rank is not None
        and process.state != "Z"
        and target.rank in (None, process.rank)
        and target.job in (None, process.job)
        and (target.rank is not None or target.gpu is None or uuids & {gpu.uuid for gpu in process.gpus})
    ]
    found.sort(key=lambda pair: (pair[1].rank or 0, pair[0].name, pair[1].pid))
    return found[:MAX_RANKS]


def _slurm_node(node: Node, target: ActionTarget) -> Iterator[Action]:
    """Yield the action that drains a node, if its labels or one of its processes show that Slurm runs it.

    A name in the hosts file can be another machine's in Slurm: the name that the ranks or the node itself
    report must then be the same. Nothing for a node with a name that Slurm reads as all nodes.
    """
    name = value("node", node.name)
    by_plan = {"slurm_job", "slurm_state"} & node.spec.labels.keys()
    if name is None or name.lower() in ALL_NODES:
        return
    stated = {
        each.variables["SLURMD_NODENAME"] for each in node.processes if "SLURMD_NODENAME" in each.variables
    }
    if not stated and node.hello is not None and node.hello.host:
        stated = {node.hello.host, node.hello.host.partition(".")[0]}
    by_rank = any("SLURM_JOB_ID" in each.variables for each in node.processes)
    if not (by_plan or (by_rank and (not stated or name in stated))):
        return
    argv = ("scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={safe_reason(target.about)}")
    yield Action(
        "drain", f"drain {name} in Slurm", argv, command_line(argv), name, "node",
        hits=("Slurm starts no new job there; running jobs continue", *node_hits(node)),
        undo=command_line(["scontrol", "update", f"NodeName={name}", "State=RESUME"]),
    )  # fmt: skip


def _pod(node: Node, fleet: Fleet) -> Iterator[Action]:
    """Yield the actions that cordon the machine of a pod, and that delete the pod.

    Either is left out if its name is malformed. The pod's controller, if it has one, starts a new one.
    """
    labels: Mapping[str, str] = node.spec.labels
    machine, pod = value("object", labels["kube_node"]), value("object", node.name)
    space = value("object", labels.get("kube_namespace"))
    if machine is not None:
        argv: tuple[str, ...] = ("kubectl", "cordon", machine)
        pods = [each for each in fleet.nodes.values() if each.spec.labels.get("kube_node") == machine]
        listed = ", ".join(sorted(each.name for each in pods))
        yield Action(
            "cordon", f"cordon {machine} in Kubernetes", argv, command_line(argv), machine, "node",
            hits=("Kubernetes starts no new pod there; running pods continue", f"pods there: {listed}"),
            undo=command_line(["kubectl", "uncordon", machine]),
        )  # fmt: skip
    if pod is not None and space is not None:
        argv = ("kubectl", "delete", "pod", "--namespace", space, "--wait=false", pod)
        yield Action(
            "delete_pod", f"delete pod {pod}", argv, command_line(argv), pod, "pod",
            hits=("the pod ends; its controller, if it has one, starts a new one", *node_hits(node)),
        )  # fmt: skip


def _slurm_job_actions(fleet: Fleet, job: str | None) -> Iterator[Action]:
    carried, allocation = slurm_job(fleet, job), fleet.plan.allocation
    ident = carried if allocation is None else value("job", allocation.job)
    if ident is None or carried not in (None, ident):
        return
    stated = fleet.scheduler.jobs.get(ident, allocation)
    if stated is None or not is_of_user(fleet, job, stated.user):
        return  # ranks have an id that Slurm does not know, was not queried for, or gives to another user
    hits = (*job_hits(fleet, job), *slurm_words(stated))
    for kind, program, first in JOB_COMMANDS:
        argv = (*program, ident)
        yield Action(kind, f"{kind} job {ident}", argv, command_line(argv), ident, "job", hits=(first, *hits))


def _end_rank(node: Node, process: Process, fleet: Fleet, *, also_kill: bool) -> Iterator[Action]:
    """Yield the actions that end a rank by SIGTERM and, with `also_kill`, by SIGKILL.

    Nothing if commands cannot be run on the node, or the pid or rank is not valid.
    """
    pid, rank = value("pid", process.pid), value("rank", process.rank)
    if pid is None or rank is None or not _carries_commands(node):
        return
    same = SignalledProcess(node.name, process.pid, process.start)
    hits = rank_hits(node, process, fleet)
    for kind, signal, options in SIGNALS if also_kill else SIGNALS[:1]:
        argv = ("kill", *options, pid)
        yield Action(
            kind, f"end rank {rank} by {signal}", argv, on_node(node.spec, argv), rank, "rank", node.name,
            hits, process=same,
        )  # fmt: skip


def _carries_commands(node: Node) -> bool:
    """Return True if commands can be run on the node; one known from Prometheus must be reachable by ssh."""
    if node.spec.link == "prometheus":
        return node.link.login is not None
    return node.spec.link != "logs"


def _reset(node: Node, gpu: int) -> Iterator[Action]:
    """Yield the action that resets a known GPU, unless the node is a pod or runs no commands.

    The driver refuses the reset while a process holds the GPU.
    """
    name = value("node", node.name)
    known = next((each for each in node.gpu_list() if each.info.index == gpu), None)
    uuid = None if known is None else value("gpu_uuid", known.info.uuid)
    if known is None or uuid is None or name is None or not _carries_commands(node):
        return
    if "kube_node" in node.spec.labels:
        return  # a container cannot reset a GPU
    argv = ("nvidia-smi", "--gpu-reset", "-i", uuid)  # the index may belong to another GPU by then
    yield Action(
        "reset_gpu", f"reset GPU {gpu} of {name}", argv, on_node(node.spec, argv), name, "node", node.name,
        hits=gpu_hits(node, known),
    )  # fmt: skip
