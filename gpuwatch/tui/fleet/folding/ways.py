"""The ways to fold the nodes of a plan into groups."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from gpuwatch.hosts.names import fold
from gpuwatch.hosts.plan import Plan

RUN_NODES = 32
"""Number of nodes per group if only names can group them: about a rack, one line of a wide heat map."""
MAX_PREFIX_NODES = 2 * RUN_NODES
"""Nodes whose names have the same beginning are one group up to this number; more are cut into runs."""
NO_GROUP = "other"
"""The name of the group of nodes that have no such label or are in no group."""
FIRST_LABELS = ("rack", "pod", "row", "block", "switch")
"""Labels that are offered first, in this order; then come the hosts file's groups, then other labels."""
NOT_FOLDED = "kube_"
"""Labels with this beginning are never used for folding: they describe single pods."""

_LAST_NUMBER = re.compile(r"\d+(?=\D*$)")


class Folding(Struct, frozen=True):
    """One way to fold."""

    name: str
    """The origin of the groups' names: the name of a label, `group` or `name`."""
    group_of: Mapping[str, str]
    """Name of a node -> its group."""


def foldings(plan: Plan) -> tuple[Folding, ...]:
    """Return the ways that make fewer groups than there are nodes, and more than one; the best first."""
    names = [spec.name for spec in plan.nodes]
    labels = dict.fromkeys(
        key for spec in plan.nodes for key in spec.labels if not key.startswith(NOT_FOLDED)
    )
    first = [label for label in FIRST_LABELS if label in labels]
    ways = [_by_label(plan, label) for label in first]
    ways.append(_by_group(plan))
    ways += [_by_label(plan, label) for label in labels if label not in first]
    ways.append(Folding("name", _runs(names)))
    return tuple(way for way in ways if 1 < len(set(way.group_of.values())) < len(names))


def _by_label(plan: Plan, label: str) -> Folding:
    return Folding(label, {spec.name: spec.labels.get(label, NO_GROUP) for spec in plan.nodes})


def _by_group(plan: Plan) -> Folding:
    """Return the folding by the hosts file's groups; a node in several counts to the smallest."""
    found: dict[str, str] = {}
    for group, members in sorted(plan.groups.items(), key=lambda item: len(item[1])):
        for name in members:
            found.setdefault(name, group)
    return Folding("group", {spec.name: found.get(spec.name, NO_GROUP) for spec in plan.nodes})


def _runs(names: Sequence[str]) -> dict[str, str]:
    """Return node -> the name of its group, a range of names such as `gpu-[001-032]`.

    Names that differ only in their last number are one range, or several if they are many.
    """
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(_LAST_NUMBER.sub("#", name), []).append(name)
    found: dict[str, str] = {}
    for members in alike.values():
        size = len(members) if len(members) <= MAX_PREFIX_NODES else RUN_NODES
        for start in range(0, len(members), size):
            run = members[start : start + size]
            found |= dict.fromkeys(run, fold(run))
    return found
