"""Plain lists of nodes.

One name or range per line, as in an MPI or DeepSpeed hostfile (`worker-1 slots=8`).
"""

from __future__ import annotations

import re

from gpuwatch.hosts.keys import MAX_SLOTS
from gpuwatch.hosts.names import MAX_NODES, RangeError, expand_login, fold
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.hosts.validation.errors import Problems, TextPosition, did_you_mean, shown

_YAML_START = re.compile(r"---|[-?](\s|$)|[%\[{\"'!&*|>@`]|[^#]*?:(\s|$)")
_NAME_AND_SLOTS = re.compile(r"([^\s:]+):([0-9]+)")
"""MPICH's `node1:8`; an IPv6 address has more than one colon."""
_IGNORED = ("max_slots", "max-slots")
"""OpenMPI's upper limit of processes, which is not the number of GPUs."""


def is_hostfile(text: str) -> bool:
    """Return True if a text is a plain list of nodes: its first line with content is not YAML."""
    for line in text.split("\n"):
        stated = line.split("#", 1)[0].strip()
        if stated:
            return _YAML_START.match(stated) is None
    return False


def read_hostfile(text: str, problems: Problems) -> Plan:
    """Return the plan of a plain list of nodes.

    Problems are added to `problems`; if there are any, the plan must not be used.
    """
    nodes: dict[str, NodeSpec] = {}
    places: dict[str, TextPosition] = {}
    for number, line in enumerate(text.split("\n"), 1):
        stated = line.split("#", 1)[0]
        if not stated.strip():
            continue
        at = TextPosition(number, len(stated) - len(stated.lstrip()) + 1)
        specs = _line(stated.strip(), at, problems)
        twice = [spec.name for spec in specs if _differs(spec, nodes.get(spec.name))]
        if twice:
            verb = "is" if len(twice) == 1 else "are"
            first = places[twice[0]].line
            problems.add(at, f"{shown(fold(twice))} {verb} listed twice, first in line {first}")
        for spec in specs:
            nodes.setdefault(spec.name, spec)
            places.setdefault(spec.name, at)
        if len(nodes) > MAX_NODES:
            problems.add(at, f"more than {MAX_NODES:,} nodes in all")
            break
    return Plan(nodes=tuple(nodes.values()), source=problems.source)


def _differs(spec: NodeSpec, known: NodeSpec | None) -> bool:
    """Return True if a repeated node is an error: it differs from the first line, or it has slots.

    PBS node files repeat a node once per core, without slots; that is allowed.
    """
    return known is not None and (known != spec or spec.slots is not None)


def _line(stated: str, at: TextPosition, problems: Problems) -> list[NodeSpec]:
    named, *options = stated.split()
    slots = None
    with_slots = _NAME_AND_SLOTS.fullmatch(named)
    if with_slots:
        named = with_slots[1]
        options.append(f"slots={with_slots[2]}")
    for option in options:
        key, separator, value = option.partition("=")
        if key == "slots" and re.fullmatch(r"[0-9]{1,4}", value) and int(value) <= MAX_SLOTS:
            slots = int(value)
        elif key == "slots" and separator:
            problems.add(at, f"'slots' must be a whole number from 0 to {MAX_SLOTS}, not {shown(value)}")
        elif key not in _IGNORED:
            hint = (
                did_you_mean(key, ("slots", *_IGNORED))
                or "; a line is a node name, optionally followed by slots=N"
            )
            problems.add(at, f"{shown(option)} is not a known option{hint}")
    try:
        user, names = expand_login(named, min(MAX_NODES, problems.names_left))
    except RangeError as error:
        problems.add(at.right(error.offset), f"{shown(named)}: {error}")
        return []
    problems.names_left -= len(names)
    return [NodeSpec(name=name, user=user, slots=slots) for name in names]
