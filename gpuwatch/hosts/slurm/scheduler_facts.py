"""What a scheduler reports about nodes and jobs.

States, why a node is out of service, a job's remaining time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpuwatch.hosts.plan import Allocation, NodeSpec, Plan

OUT = re.compile(r"DRAIN|DOWN|FAIL|MAINT|NOT?_RESPOND|REBOOT|\*$|SchedulingDisabled|NotReady")
"""Parts of a node's state that keep new jobs away (scontrol(1), sinfo(1), kubectl get nodes)."""
BROKEN = re.compile(r"DOWN|FAIL|NOT?_RESPOND|\*$|NotReady")
"""Those that no administrator sets; `*` is Slurm's mark of a node that does not answer."""


@dataclass(frozen=True)
class NodeStanding:
    """A node, as its scheduler reports it."""

    scheduler: Literal["Slurm", "Kubernetes"]
    state: str
    """`MIXED+DRAIN`, `DOWN*`, `NotReady`."""
    reason: str = ""
    """Why it is out of service, by whom and when, in the scheduler's words."""

    @property
    def is_out(self) -> bool:
        """True if it gets no new jobs."""
        return OUT.search(self.state) is not None

    @property
    def is_broken(self) -> bool:
        """True if it failed by itself: no administrator took it out."""
        return BROKEN.search(self.state) is not None


@dataclass(frozen=True)
class SchedulerFacts:
    """The result of one query of a scheduler."""

    nodes: Mapping[str, NodeStanding] = field(default_factory=dict)
    """By the node's name in the plan."""
    jobs: Mapping[str, Allocation] = field(default_factory=dict)
    """By the scheduler's id."""

    def allocation(self, job: str | None) -> Allocation | None:
        """The allocation of a job by the fleet's name for it (`41@gpu-003`).

        Without a name, of the only one.
        """
        if job is None:
            return next(iter(self.jobs.values())) if len(self.jobs) == 1 else None
        return self.jobs.get(job.partition("@")[0])


def standing_at_start(spec: NodeSpec) -> NodeStanding | None:
    """The standing of a node when its plan was made; None: the plan has none."""
    state = spec.labels.get("slurm_state")
    return None if state is None else NodeStanding("Slurm", state, spec.labels.get("slurm_reason", ""))


def facts_at_start(plan: Plan) -> SchedulerFacts:
    """The scheduler facts in a plan."""
    found = {spec.name: standing_at_start(spec) for spec in plan.nodes}
    known = {name: standing for name, standing in found.items() if standing is not None}
    return SchedulerFacts(known, {} if plan.allocation is None else {plan.allocation.job: plan.allocation})
