"""The statement of a rule pack about a failure class: its kinds, and the classes that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

Kind: TypeAlias = Literal[
    "about_another",
    "any_bus",
    "any_process",
    "blocked_task",
    "by_signal",
    "by_steps",
    "cancelled",
    "catchable",
    "caught_sigterm",
    "collective_timeout",
    "communication",
    "compares_replicas",
    "corrected",
    "corrected_if_stated",
    "corrupt",
    "daemon_report",
    "device_fault",
    "disk_full",
    "distributed",
    "ended_on_purpose",
    "ends_after_steps",
    "ends_hang",
    "ends_in_turn",
    "ends_quietly",
    "exit_code",
    "file_system",
    "finished",
    "follows_interrupt",
    "generic",
    "gives_wait",
    "gpu_fault",
    "gpu_gone",
    "hardware",
    "harmless",
    "in_collective",
    "interrupted",
    "kernel_line",
    "killed",
    "lasting",
    "launcher_signalled",
    "launches_ranks",
    "lost_state",
    "machine_part",
    "may_state_loss",
    "memory_kill",
    "mild_end",
    "mismatch",
    "monitored_barrier",
    "names_address",
    "names_culprit",
    "names_node",
    "names_pod",
    "nan_gradient",
    "nan_loss",
    "never_started",
    "new_attempt",
    "no_rank_logs",
    "node_failure",
    "of_no_rank",
    "of_training",
    "pairwise_mismatch",
    "peer_connection",
    "peer_unreached",
    "pod_state",
    "port",
    "precursor",
    "prints_on_stop",
    "process_below",
    "program_fault",
    "provoked_by_tests",
    "rank_end",
    "rendezvous_store",
    "rendezvous_timeout",
    "reported_end",
    "restart_heals",
    "scheduler_line",
    "scheduling",
    "slow_steps",
    "speed",
    "stated_loss",
    "stays_lost",
    "stays_warning",
    "stops_ranks",
    "sudden_end",
    "survived",
    "takes_members",
    "teardown_crash",
    "terminated",
    "time_limit",
    "transient_fault",
    "unexplained",
    "unresponsive_node",
    "unsaved",
    "values",
]
"""The kinds of failure classes; docs/rules.md explains each."""
KINDS: tuple[Kind, ...] = get_args(Kind)
Families: TypeAlias = Mapping[str, tuple[Kind, ...]]
"""Family (the beginning of an id, up to a dot: `gpu`, `gpu.xid`) -> the kinds of all its classes."""
PREFIX = ".*"
"""The end of an effect that means all classes of a family: `gpu.*`."""


class FailureClass(msgspec.Struct, frozen=True):
    """The properties of a failure class in a pack: kinds, effects, how likely an end is a consequence."""

    kinds: tuple[Kind, ...] = ()
    end_weight: int | None = None
    """For ends of processes, 0 to 3: with a larger one, the end more likely follows from another failure."""
    explains: tuple[str, ...] = ()
    """Effects on the same rank, GPU or node within minutes: codes, `family.*`, or kinds."""

    def with_families(self, code: str, families: Families) -> FailureClass:
        """Return the class with the kinds of the families of its code."""
        inherited = [kind for family in families_of(code) for kind in families.get(family, ())]
        return self if not inherited else replace(self, kinds=tuple(dict.fromkeys((*self.kinds, *inherited))))


def families_of(code: str) -> list[str]:
    """Return the families of a code, the widest first (`gpu`, `gpu.xid`); the code itself is none of them."""
    return [code[:at] for at, letter in enumerate(code) if letter == "."]
