"""Next steps of an incident: its rule's playbook with the place filled in, and checks of the verdict."""

from __future__ import annotations

import re

from gpuwatch.diagnose.health.remedies import REMEDIES
from gpuwatch.diagnose.incidents.culprits.culprit import CulpritChoice
from gpuwatch.diagnose.incidents.culprits.suspects import Hang
from gpuwatch.diagnose.incidents.placeholders import command, filled
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import EXITS, PEER_CONNECTION_ERRORS, RulePacks
from gpuwatch.diagnose.model.incident import UNKNOWN
from gpuwatch.diagnose.model.rank_index import RankIndex

SLURM_JOB = re.compile(r"([0-9]+(?:_[0-9]+)?)(?:@.*)?")
"""Matches a Slurm job id, also one of several jobs that run under one id."""
SACCT_FORMAT = "--format=JobID,State,ExitCode,MaxRSS,NodeList"
COLLECT_DUMPS = "run again with TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and collect the dumps of all ranks"
UNKNOWN_EXPLAIN = (
    "Every line is about the consequences; what came first was not logged, or its log is not read. "
    "Where ranks waited for one that never came it is mostly slow storage or a starved data loader, rank 0 "
    "in a long checkpoint or evaluation, a branch that only some ranks take, or a GPU stuck in the driver."
)
UNKNOWN_DO = (
    "Read the ends of the logs of rank 0 and of the ranks that logged nothing, and their stacks.",
    "Read the nodes' kernel logs and the scheduler's record of the job, around the start of the hang.",
    "Only when the suspect was busy with something legitimate: raise the timeout of that process group.",
)
STOPPED_EXPLAIN = (
    "The log ends before the announced last step and states no reason. A process that SIGKILL ends (the "
    "scheduler, the OOM killer, a person) logs nothing; or its last lines are in another file."
)
STOPPED_DO = (
    "Read the scheduler's record of the job (Slurm: `sacct -j JOB`) and the launcher's log for that time.",
    "Read the kernel logs of its nodes for that time: the OOM killer, Xids, a crash or a reboot.",
    "Ask whether someone ended it.",
)
CONFIRM = (
    "Look for the line in the kernel log of {node} first (`dmesg -T`): any process can print one like it."
)


def playbook(
    code: str,
    packs: RulePacks,
    node: str | None,
    gpu: int | None,
    rank: int | None,
    *,
    unconfirmed: bool = False,
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return explanation, steps and links of a failure class.

    Without a rule, only the steps are known, from the remedy of the code; without either, all are empty.
    `unconfirmed`: only a job's log has the kernel line; a step to confirm it is then put first.
    """
    values: dict[str, object] = {"node": node, "gpu": gpu, "rank": rank}
    rule = packs.by_id.get(code)
    if rule is not None:
        steps = (CONFIRM, *rule.do) if unconfirmed else rule.do
        return filled(rule.explain, values), tuple(filled(step, values) for step in steps), rule.links
    if code == UNKNOWN:
        return UNKNOWN_EXPLAIN, UNKNOWN_DO, ()
    remedy = REMEDIES.get(code)
    return "", (remedy,) if remedy else (), ()


def settle(
    cause: Alert | None,
    culprit: CulpritChoice,
    stuck: Hang | None,
    job: str | None,
    where: RankIndex,
    *,
    ended: bool,
) -> tuple[str, ...]:
    """Return the checks that would confirm the verdict; empty at high confidence.

    Args:
        cause: The root cause; None: it is not logged.
        culprit: Rank, node and GPU, with the confidence of the verdict.
        stuck: The hang, if timeouts report one.
        job: The job of the incident.
        where: Where the ranks run.
        ended: True if no process is left to inspect.
    """
    rank, node, gpu = culprit.rank, culprit.node, culprit.gpu
    unexplained = cause is None
    if culprit.confidence == "high":
        return ()
    place = None if rank is None else where.of(rank, job)
    slurm = None if job is None else SLURM_JOB.fullmatch(job)
    values: dict[str, object] = {"node": node, "gpu": gpu, "rank": rank, "job": slurm and slurm[1]}
    values["pid"] = None if place is None else place.pid
    vanished = unexplained and stuck is None and rank is not None and node is not None

    def on_the_node(*argv: str) -> str:
        return command(argv, values, remote=True)

    if (cause in EXITS and not unexplained) or vanished:
        steps = [on_the_node('dmesg -T | grep -iE "out of memory|oom|xid|segfault"')]
        if slurm is not None:
            steps.append(command(("sacct", "-j", "{job}", SACCT_FORMAT), values))
    elif cause in PEER_CONNECTION_ERRORS and not unexplained:
        steps = [on_the_node("uptime; ibstat; dmesg -T | tail -50")]
    elif unexplained and stuck is not None and stuck.suspects and ended:
        steps = [
            on_the_node("nvidia-smi -i {gpu} -q -d ECC,PAGE_RETIREMENT; dmesg -T | tail -50"),
            COLLECT_DUMPS,
        ]
    elif unexplained and stuck is not None and stuck.suspects:
        steps = [
            on_the_node("py-spy", "dump", "--pid", "{pid}"),
            on_the_node("nvidia-smi -i {gpu} -q -d UTILIZATION,POWER,ECC; dmesg -T | tail -50"),
        ]
    else:
        steps = [COLLECT_DUMPS if unexplained else "the log lines of all ranks around that second"]
    return tuple(dict.fromkeys(steps))
