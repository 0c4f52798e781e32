"""Builds a plan from the entries of a hosts file: resolves names and settings, and reports contradictions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from gpuwatch.hosts.keys import SETTINGS, Names
from gpuwatch.hosts.names import MAX_NODES, fold
from gpuwatch.hosts.plan import Model, NodeSpec, Plan, ServingEndpoint, Thresholds
from gpuwatch.hosts.validation.errors import Problems, TextPosition, did_you_mean, shown
from gpuwatch.hosts.validation.structures import ReadMapping

Settings: TypeAlias = dict[str, Any]
"""Fields of a `NodeSpec`, as one level of the file (defaults, a group, a host) sets them."""

MEANINGLESS = {
    "local": ("address", "port", "user", "identity_file", "jump"),
    "command": ("port", "user", "identity_file", "jump"),
}
"""Link -> settings without effect for it, because it does not use gpuwatch's own ssh."""

MAX_HINTED_PROBLEMS = 20
"""After this many problems no similar name is suggested: among 10,000 nodes that takes 0.1 s."""


def plan_from(top: ReadMapping | Sequence[Names | ReadMapping], problems: Problems) -> Plan:
    """Return the plan made from a parsed hosts file, whose top is a mapping or a list of hosts.

    Contradictions (a node listed twice, an unknown member of a group) are added to `problems`; if it holds
    any, the plan must not be used.
    """
    if not isinstance(top, ReadMapping):
        return Assembly({"hosts": top}, problems).plan()
    return Assembly(top.values, problems).plan()


_FIELDS = {"interval": "interval_s", "discover": "discover", "hang_query": "hang_query", "actions": "actions"}
"""Key of the hosts file -> field of the plan, of the settings that are taken as they are."""


class Assembly:
    """Builds one plan from the keys of a hosts file.

    A host's settings override its groups', and a later group's override an earlier group's.
    """

    def __init__(self, values: dict[str, Any], problems: Problems) -> None:
        self._values = values
        self._problems = problems
        self._hosts_complete = True  # else a node that seems unknown may be one that could not be read
        self._own: dict[str, Settings] = {}
        self._places: dict[str, TextPosition] = {}
        self._layers: dict[str, list[Settings]] = {}
        self._groups: dict[str, tuple[str, ...]] = {}

    def plan(self) -> Plan:
        """Return the plan, built from the defaults, the hosts and the groups; problems are added.

        Call it once.
        """
        defaults = self._settings(self._values.get("defaults"))
        for entry in self._values.get("hosts", ()):
            self._take_host(entry)
        for name, value in self._values.get("groups", {}).items():
            self._take_group(name, value)
        nodes = (_spec(name, [defaults, *self._layers.get(name, ()), own]) for name, own in self._own.items())
        thresholds: ReadMapping | None = self._values.get("thresholds")
        model: ReadMapping | None = self._values.get("model")
        return Plan(
            nodes=tuple(nodes),
            groups=self._groups,
            logs=tuple(self._values.get("logs", ())),
            rules=tuple(_beside(self._problems.source, path) for path in self._values.get("rules", ())),
            state=_beside(self._problems.source, state) if (state := self._values.get("state")) else None,
            thresholds=Thresholds(**thresholds.values) if thresholds else Thresholds(),
            model=Model(**model.values) if model and "params" in model.values else None,
            serving=_endpoints(self._values.get("serving", ())),
            source=self._problems.source,
            **{field: self._values[key] for key, field in _FIELDS.items() if key in self._values},
        )

    def _take_host(self, entry: Names | ReadMapping) -> None:
        if isinstance(entry, Names):
            named: Names | None = entry
            settings: Settings = {"user": entry.user} if entry.user else {}
        else:
            named, settings = entry.values.get("name"), self._settings(entry)
            self._check_address(named, entry)
        if named is None or not named.names:
            self._hosts_complete = False
            return
        known = [name for name in named.names if name in self._own]
        if known:
            first = self._places[known[0]].line
            verb = "is" if len(known) == 1 else "are"
            self._problems.add(
                named.place, f"{shown(fold(known))} {verb} listed twice, first in line {first}"
            )
        for name in named.names:
            if len(self._own) >= MAX_NODES and name not in self._own:
                self._problems.add(named.place, f"more than {MAX_NODES:,} nodes in all")
                self._hosts_complete = False
                return
            self._own.setdefault(name, settings)
            self._places.setdefault(name, named.place)

    def _take_group(self, group: str, value: Sequence[Names] | ReadMapping) -> None:
        members = value.values.get("hosts", ()) if isinstance(value, ReadMapping) else value
        settings = self._settings(value if isinstance(value, ReadMapping) else None)
        nodes: dict[str, None] = {}
        for member in members:
            nodes.update(dict.fromkeys(self._members(member)))
        self._groups[group] = tuple(nodes)
        for name in nodes if settings else ():
            self._layers.setdefault(name, []).append(settings)

    def _members(self, member: Names) -> Sequence[str]:
        if member.group is not None:
            if member.group not in self._groups:
                hint = did_you_mean(member.group, self._groups)
                self._problems.add(
                    member.place, f"no group {shown(member.group)} is defined above this one{hint}"
                )
            found = self._groups.get(member.group, ())
            if len(found) > self._problems.names_left:
                self._problems.add(member.place, "too many nodes in groups of groups")
                return ()
            self._problems.names_left -= len(found)
            return found
        unknown = [name for name in member.names if name not in self._own]
        if unknown and self._hosts_complete:
            near = len(unknown) == 1 and len(self._problems) < MAX_HINTED_PROBLEMS
            hint = did_you_mean(unknown[0], self._own) if near else ""
            verb = "is" if len(unknown) == 1 else "are"
            self._problems.add(member.place, f"{shown(fold(unknown))} {verb} not under 'hosts'{hint}")
        return member.names

    def _check_address(self, named: Names | None, entry: ReadMapping) -> None:
        address = entry.values.get("address", "{name}")
        if named and len(named.names) > 1 and "{name}" not in address:
            text = f"{len(named.names)} nodes would share the address {shown(address)}; use {{name}} in it"
            self._problems.add(entry.places["address"], text)

    def _settings(self, entry: ReadMapping | None) -> Settings:
        """Return the settings of one level (defaults, a group, a host) as fields of a `NodeSpec`.

        {} for None. Adds a problem for each contradiction within the level.
        """
        if entry is None:
            return {}
        settings = {key.name: entry.values[key.name] for key in SETTINGS if key.name in entry.values}
        link = settings.pop("link", None)
        if "command" in settings:
            if link is not None:
                self._problems.add(entry.places["link"], "'link' and 'command' exclude each other")
            link = "command"
        elif isinstance(link, ReadMapping):
            settings["command"], link = link.values.get("command", ()), "command"
        if link is not None:
            settings["link"] = link
        for key in MEANINGLESS.get(link, ()):
            if key in entry.places:
                self._problems.add(entry.places[key], f"'{key}' has no meaning for a {link} link")
        return settings


def _beside(source: str, path: str) -> str:
    """Return the path joined to the folder of the hosts file, with `~` expanded.

    An absolute path stays as it is.
    """
    return os.path.join(os.path.dirname(source), os.path.expanduser(path))  # noqa: PTH111, PTH118, PTH120 - never raises


def _spec(name: str, layers: Sequence[Settings]) -> NodeSpec:
    merged: Settings = {}
    labels: dict[str, str] = {}
    for layer in layers:
        merged.update(layer)
        labels.update(layer.get("labels", {}))
    link = merged.get("link", "ssh")
    command = merged.get("command", ()) if link == "command" else ()
    address = merged.get("address")
    return NodeSpec(
        name=name,
        link=link,
        address=address and address.replace("{name}", name),
        port=merged.get("port"),
        user=merged.get("user"),
        identity_file=tuple(os.path.expanduser(path) for path in merged.get("identity_file", ())),  # noqa: PTH111 - never raises
        jump=merged.get("jump"),
        command=tuple(word.replace("{name}", name) for word in command),
        python=merged.get("python"),
        activate=merged.get("activate"),
        labels=labels,
        slots=merged.get("slots"),
    )


def _endpoints(values: Iterable[str | ReadMapping]) -> tuple[ServingEndpoint, ...]:
    """Return the inference servers that a hosts file lists.

    The default name is `host:port`; of two equal names the first counts.
    """
    found: dict[str, ServingEndpoint] = {}
    for value in values:
        given = {"url": value} if isinstance(value, str) else value.values
        if url := given.get("url"):
            parts = urlsplit(url)
            name = given.get("name") or f"{parts.hostname}{'' if parts.port is None else f':{parts.port}'}"
            found.setdefault(name, ServingEndpoint(name, url))
    return tuple(found.values())
