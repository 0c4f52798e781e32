"""What a rule pack states about the class of a rule: its kinds, and which other classes follow from it."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

Kind: TypeAlias = Literal[
    "about_another",
    "catchable",
    "collective_timeout",
    "daemon_report",
    "ended_on_purpose",
    "ends_quietly",
    "follows_interrupt",
    "generic",
    "gives_wait",
    "gpu_gone",
    "harmless",
    "in_collective",
    "lasting",
    "mild_end",
    "names_culprit",
    "names_node",
    "node_failure",
    "peer_connection",
    "peer_unreached",
    "precursor",
    "prints_on_stop",
    "rendezvous_timeout",
    "reported_end",
    "sudden_end",
    "unresponsive_node",
]
"""What each means stands in docs/rules.md."""
KINDS: tuple[Kind, ...] = get_args(Kind)
PREFIX = ".*"
"""Ends the effects that are meant by the family of their id."""


class FailureClass(msgspec.Struct, frozen=True):
    """What a pack states about one class: its kinds, how likely an end follows from others, its effects."""

    kinds: tuple[Kind, ...] = ()
    end_weight: int | None = None
    """For ends of processes, 0 to 3: with a larger one, the end more likely follows from another failure."""
    explains: tuple[str, ...] = ()
    """Effects on the same rank, GPU or node within minutes: codes, `family.*`, or kinds."""
