"""The facts that a scheduler reports: states of nodes, why they are out of service, allocations of jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from gpuwatch.hosts.plan import Allocation, NodeSpec, Plan

OUT = re.compile(r"DRAIN|DOWN|FAIL|MAINT|NOT?_RESPOND|REBOOT|\*$|SchedulingDisabled|NotReady")
"""Parts of a node's state that keep new jobs away (scontrol(1), sinfo(1), kubectl get nodes)."""
BROKEN = re.compile(r"DOWN|FAIL|NOT?_RESPOND|\*$|NotReady")
"""Parts of a state that no administrator sets; `*` is Slurm's mark of a node that does not answer."""


class NodeStanding(Struct, frozen=True):
    """The state of a node, as its scheduler reports it."""

    scheduler: Literal["Slurm", "Kubernetes"]
    state: str
    """The scheduler's state of the node: `MIXED+DRAIN`, `DOWN*`, `NotReady`."""
    reason: str = ""
    """Why the node is out of service, by whom and when, in the scheduler's words."""

    @property
    def is_out(self) -> bool:
        """Return True if the scheduler gives the node no new jobs."""
        return OUT.search(self.state) is not None

    @property
    def is_broken(self) -> bool:
        """Return True if the node failed by itself; False if only an administrator took it out of service."""
        return BROKEN.search(self.state) is not None


class SchedulerFacts(Struct, frozen=True):
    """The states of nodes and the allocations of jobs that one query of a scheduler returned."""

    nodes: Mapping[str, NodeStanding] = field(default_factory=dict)
    """Node's name in the plan -> its state."""
    jobs: Mapping[str, Allocation] = field(default_factory=dict)
    """Scheduler's id -> the job's allocation."""

    def allocation(self, job: str | None) -> Allocation | None:
        """Return the allocation of a job by its name in the fleet (`41@gpu-003`), or None if it is unknown.

        If `job` is None, the only allocation; None if there are several.
        """
        if job is None:
            return next(iter(self.jobs.values())) if len(self.jobs) == 1 else None
        return self.jobs.get(job.partition("@")[0])


def standing_at_start(spec: NodeSpec) -> NodeStanding | None:
    """Return the state of a node when its plan was made, from its labels; None if it has no `slurm_state`."""
    state = spec.labels.get("slurm_state")
    return None if state is None else NodeStanding("Slurm", state, spec.labels.get("slurm_reason", ""))


def facts_at_start(plan: Plan) -> SchedulerFacts:
    """Return the scheduler's facts in the plan: the states of its nodes and its allocation."""
    found = {spec.name: standing_at_start(spec) for spec in plan.nodes}
    known = {name: standing for name, standing in found.items() if standing is not None}
    return SchedulerFacts(known, {} if plan.allocation is None else {plan.allocation.job: plan.allocation})
