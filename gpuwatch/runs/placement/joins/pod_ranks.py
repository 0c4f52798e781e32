"""Determines the ranks of pods and instances, one process each, by the ordinals in their names. Pure.

Training operators count after a first pod of another kind: `run-master-0` is rank 0, `run-worker-0` rank 1.
So does Vertex AI with its worker pools; SageMaker numbers its instances from 1.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

_ORDINAL = re.compile(
    r"(?P<stem>[a-z0-9][a-z0-9.-]{0,200}?)-?(?P<kind>[a-z]{2,20})?-(?P<n>\d{1,5})(?:-[a-z0-9]{5})?$"
)
_FIRST_ROLES = frozenset(("master", "chief", "coordinator", "launcher"))
_POOL = re.compile(r"workerpool(?P<pool>\d)-(?P<n>\d{1,5})$")
_INSTANCE = re.compile(r"algo-(?P<n>\d{1,5})$")
MIN_PODS = 2
"""Pods that a job needs."""


def ranks_of_pods(hosts: Iterable[str], world: int | None, *, one_per_host: bool) -> Mapping[str, int]:
    """Return host -> rank if the ordinals of all hosts number the job's ranks; else an empty mapping.

    Args:
        hosts: The names of the hosts, as lines give them.
        world: Number of ranks that the job states, or None.
        one_per_host: True if each host is known to run one process.
    """
    names = sorted({host.partition(".")[0] for host in hosts})
    for found in (_of_pools(names), _of_instances(names), _of_family(names)):
        whole = len(found) >= MIN_PODS and set(found.values()) == set(range(len(found)))
        if whole and (world == len(found) or (world is None and one_per_host)):
            return {host: found[host.partition(".")[0]] for host in hosts if host.partition(".")[0] in found}
    return {}


def _of_pools(names: Iterable[str]) -> dict[str, int]:
    found = {}
    for name in names:
        pool = _POOL.match(name)
        if pool is not None:
            found[name] = int(pool["n"]) + (1 if pool["pool"] != "0" else 0)
    return found


def _of_instances(names: Iterable[str]) -> dict[str, int]:
    numbers = {name: _INSTANCE.match(name) for name in names}
    return {name: int(each["n"]) - 1 for name, each in numbers.items() if each is not None}


def _of_family(names: Iterable[str]) -> dict[str, int]:
    """Return name -> rank for the largest family of names that differ only in ordinals.

    If the family has a first pod of another kind (`master`), that is rank 0, and the ordinals count from 1.
    """
    families: dict[str, dict[str, int]] = defaultdict(dict)
    firsts: dict[str, str] = {}
    for name in names:
        found = _ORDINAL.match(name)
        if found is None:
            continue
        if found["kind"] in _FIRST_ROLES:
            firsts[found["stem"]] = name
        else:
            families[found["stem"]][name] = int(found["n"])
    if not families:
        return {}
    stem, members = max(families.items(), key=lambda family: len(family[1]))
    if stem not in firsts:
        return members
    return {firsts[stem]: 0, **{name: number + 1 for name, number in members.items()}}
