"""Determines the ranks of pods and instances, one process each, by the ordinals in their names. Pure.

Training operators count after a first pod of another kind: `run-master-0` is rank 0, `run-worker-0` rank 1.
So does Vertex AI with its worker pools; SageMaker numbers its instances from 1.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

_ORDINAL = re.compile(
    r"(?P<stem>[a-z0-9][a-z0-9.-]{0,200}?)-?(?P<kind>[a-z]{2,20})?-(?P<n>\d{1,5})(?:-[a-z0-9]{5})?$"
)
_FIRST_ROLES = frozenset(("master", "chief", "coordinator", "launcher"))
_POOL = re.compile(r"workerpool(?P<pool>\d)-(?P<n>\d{1,5})$")
_INSTANCE = re.compile(r"algo-(?P<n>\d{1,5})$")
MIN_PODS = 2
"""Pods that a job needs."""
_PYTORCH_JOB = re.compile(
    rb"PyTorchJob(?:=| [\w.-]{1,63}/)(?P<name>[a-z0-9][a-z0-9.-]{0,62})(?![\w/.-])"
    rb"|kind\W{1,5}PyTorchJob\b[^\n]{0,200}?\"name\": ?\"(?P<field>[a-z0-9][a-z0-9.-]{0,62})\""
    rb"|kind: PyTorchJob\s{1,40}metadata:\s(?:[ \t]{1,20}(?!name:)[^\n]{0,200}\n){0,8}"
    rb"[ \t]{1,20}name: (?P<key>[a-z0-9][a-z0-9.-]{0,62})\s"
)
"""Matches the name of a PyTorchJob in its manifest, in lines of its operator, or in an event."""
_WORKERS = re.compile(
    rb"ReplicaType=Worker expected=(?P<stated>\d{1,5})|Worker: ?\{[^}\n]{0,100}?replicas: (?P<inline>\d{1,5})"
    rb"|Worker:\s(?:[ \t]{1,20}(?!replicas:)[^\n]{0,200}\n){0,4}[ \t]{1,20}replicas: (?P<key>\d{1,5})"
)
"""Matches how many workers it has."""
MAX_SEARCHED = 200_000
"""Bytes of a file that are searched for a PyTorchJob."""


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


def ranks_of_pytorch_job(samples: Iterable[tuple[str, Sequence[bytes]]], world: int | None) -> dict[str, int]:
    """Return pod -> rank for the only PyTorchJob that (file, sample lines) name; else {}.

    Its master is rank 0, its workers follow. The job must have as many ranks as pods, one process each.
    """
    names: set[str] = set()
    workers: set[int] = set()
    for _, lines in samples:
        text = b"\n".join(lines)[:MAX_SEARCHED] if any(b"PyTorchJob" in line for line in lines) else b""
        names |= {next(filter(None, each.groups())).decode() for each in _PYTORCH_JOB.finditer(text)}
        workers |= {int(next(filter(None, each.groups()))) for each in _WORKERS.finditer(text)}
    if len(names) != 1 or len(workers) != 1 or world != next(iter(workers)) + 1:
        return {}
    job = names.pop()
    return {f"{job}-master-0": 0, **{f"{job}-worker-{number}": number + 1 for number in range(world - 1)}}
