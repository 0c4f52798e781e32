"""Decides which agent follows each file of a shared file system that several nodes see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.same_files import BY_FINGERPRINT
from gpuwatch.wire import AnyRequest, LeaveFiles, LogFile, SearchFolders

SHARING = 0
"""Request id of the messages about shared files, which have no answers."""


def followers(seen: Mapping[str, Iterable[LogFile]], before: Mapping[str, str]) -> dict[str, str]:
    """Return for each shared file (by identity) the node that follows it.

    The node that writes the file is preferred, then the node that followed it before, then the first node in
    plan order.

    Args:
        seen: The log files of every connected node, in the plan's order.
        before: The previous result.
    """
    nodes: dict[str, list[str]] = {}
    writers: dict[str, list[str]] = {}
    for name, files in seen.items():
        for file in files:
            if (
                file.identity is None
                or file.identity.startswith(BY_FINGERPRINT)
                or file.state == "unreadable"
            ):
                continue
            nodes.setdefault(file.identity, []).append(name)
            if file.pids:
                writers.setdefault(file.identity, []).append(name)
    chosen = {}
    for identity, candidates in nodes.items():
        able = writers.get(identity, candidates)
        chosen[identity] = before[identity] if before.get(identity) in able else able[0]
    return {identity: node for identity, node in chosen.items() if len(nodes[identity]) > 1}


def left_to_others(node: str, files: Iterable[LogFile], chosen: Mapping[str, str]) -> list[str]:
    """Return the paths on a node that another node's agent follows, sorted.

    A file that processes of the node write, or its ranks last wrote, is never among them.
    """
    return sorted(
        file.path
        for file in files
        if file.identity is not None and chosen.get(file.identity, node) != node and not _is_own(file)
    )


def _is_own(file: LogFile) -> bool:
    """Return True if processes of the node write the file, or its ranks last wrote it."""
    return bool(file.pids) or file.rank_from == "process"


class SharedSearches:
    """Assigns each network folder to one node's agent, which searches it for logs of ended jobs."""

    def __init__(self) -> None:
        self._chosen: dict[str, str] = {}
        """Folder identity -> node that searches it."""
        self._reported: dict[str, tuple[float, list[str]]] = {}

    def update(self, fleet: Fleet, send: Callable[[str, AnyRequest], bool]) -> None:
        """Assign folders without a connected node to the first that lists them; send each node its own."""
        live = {name: node for name, node in fleet.nodes.items() if node.link.phase == "live"}
        seen = {
            name: {each.path: fleet.identities.identity(name, each.identity) for each in node.shared_folders}
            for name, node in live.items()
        }
        listed = {identity for folders in seen.values() for identity in folders.values()}
        self._chosen = {identity: node for identity, node in self._chosen.items() if identity in listed}
        for name, folders in seen.items():
            for identity in folders.values():
                if self._chosen.get(identity) not in live:
                    self._chosen[identity] = name
        for name, node in live.items():
            if not node.shared_folders:
                continue
            own = [path for path, identity in seen[name].items() if self._chosen[identity] == name]
            reported = (node.agent_since, own)
            if self._reported.get(name) != reported and send(name, SearchFolders(id=SHARING, folders=own)):
                self._reported[name] = reported


class SharedFileOwners:
    """Sends each agent the list of files that other agents follow, whenever that list changes."""

    def __init__(self) -> None:
        self._chosen: dict[str, str] = {}
        self._reported: dict[str, tuple[float, list[str]]] = {}
        """Node -> the agent instance that was informed, and the paths."""
        self._version = -1
        self._searches = SharedSearches()

    def update(self, fleet: Fleet, send: Callable[[str, AnyRequest], bool]) -> None:
        """Recompute which node follows each shared file, and send each node the files that others follow.

        Does nothing if no file list changed.
        """
        if fleet.logs_version == self._version:
            return
        self._version = fleet.logs_version
        self._searches.update(fleet, send)
        live = {name: node for name, node in fleet.nodes.items() if node.link.phase == "live"}
        self._chosen = followers({name: node.logs for name, node in live.items()}, self._chosen)
        for name, node in live.items():
            leave = left_to_others(name, node.logs, self._chosen)
            reported = self._reported.get(name, (node.agent_since, []))
            if (node.agent_since, leave) != reported and send(name, LeaveFiles(id=SHARING, files=leave)):
                self._reported[name] = (node.agent_since, leave)
