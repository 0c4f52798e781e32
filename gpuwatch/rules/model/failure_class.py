"""The statement of a rule pack about a failure class: its kinds, and the classes that follow from it."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

Kind: TypeAlias = Literal[
    "about_another",
    "blocked_task",
    "by_signal",
    "cancelled",
    "catchable",
    "caught_sigterm",
    "collective_timeout",
    "compares_replicas",
    "corrupt",
    "daemon_report",
    "device_fault",
    "disk_full",
    "ended_on_purpose",
    "ends_hang",
    "ends_quietly",
    "finished",
    "follows_interrupt",
    "generic",
    "gives_wait",
    "gpu_gone",
    "harmless",
    "in_collective",
    "interrupted",
    "killed",
    "lasting",
    "launcher_signalled",
    "memory_kill",
    "mild_end",
    "mismatch",
    "monitored_barrier",
    "names_culprit",
    "names_node",
    "new_attempt",
    "node_failure",
    "of_no_rank",
    "pairwise_mismatch",
    "peer_connection",
    "peer_unreached",
    "precursor",
    "prints_on_stop",
    "program_fault",
    "rendezvous_store",
    "rendezvous_timeout",
    "reported_end",
    "restart_heals",
    "stated_loss",
    "stays_lost",
    "stops_ranks",
    "sudden_end",
    "takes_members",
    "teardown_crash",
    "terminated",
    "time_limit",
    "transient_fault",
    "unresponsive_node",
    "unsaved",
]
"""The kinds of failure classes; docs/rules.md explains each."""
KINDS: tuple[Kind, ...] = get_args(Kind)
PREFIX = ".*"
"""The end of an effect that means all classes of a family: `gpu.*`."""


class FailureClass(msgspec.Struct, frozen=True):
    """The properties of a failure class in a pack: kinds, effects, how likely an end is a consequence."""

    kinds: tuple[Kind, ...] = ()
    end_weight: int | None = None
    """For ends of processes, 0 to 3: with a larger one, the end more likely follows from another failure."""
    explains: tuple[str, ...] = ()
    """Effects on the same rank, GPU or node within minutes: codes, `family.*`, or kinds."""
