"""Lists the artifacts beside the logs of a live job, and chooses those of a bundle. Non-blocking."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple, Protocol

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.pending_request import Asked
from gpuwatch.plain import plain
from gpuwatch.session.evidence.artifacts import WANTED, Artifact, chosen_artifacts
from gpuwatch.session.evidence.log_parts import is_of
from gpuwatch.session.evidence.subject import EvidenceSubject
from gpuwatch.wire import JobFolder, JobFolders

MAX_LOGS = 256
"""Most logs of a node whose folders are listed."""
ANSWER_S = 20.0
"""Seconds to wait for an answer; an agent lists files for at most 10 s."""


class ArtifactRequests(Protocol):
    """Interface of a session: requests for the files of a job."""

    @property
    def fleet(self) -> Fleet:
        """The nodes and the logs that they read."""
        ...

    @property
    def recorded(self) -> bool:
        """True for a replayed recording."""
        ...

    def ask_job_files(self, node: str, logs: Sequence[str], wanted: str) -> Asked:
        """Request the files in the folders of these logs; the answer is a `wire.JobFolders`."""
        ...

    def ask_job_piece(self, node: str, log: str, name: str, offset: int) -> Asked:
        """Request a piece of a file in the folder of a log; the answer is a `wire.DumpPiece`."""
        ...


class NodeArtifact(NamedTuple):
    """An artifact on a node."""

    node: str
    log: str
    """The log file through which the node finds the folder."""
    folder: str
    artifact: Artifact
    mtime: float

    @property
    def path(self) -> str:
        """Its path on the node."""
        return str(PurePosixPath(self.folder, self.artifact.path))


@dataclass(frozen=True)
class ArtifactChoice:
    """The artifacts of a bundle, and what is left out of them."""

    artifacts: tuple[NodeArtifact, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    """(what, why)."""

    @property
    def bytes(self) -> int:
        """Total size."""
        return sum(each.artifact.size for each in self.artifacts)


class ArtifactListing:
    """The requests to all nodes of a job. Poll the session until it is `over`, then take the `choice`."""

    def __init__(
        self,
        session: ArtifactRequests,
        subject: EvidenceSubject,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Send the requests for the artifacts of a subject. `clock`: monotonic seconds."""
        self._clock = clock
        self._until = clock() + ANSWER_S
        self._recorded = session.recorded
        nodes = () if session.recorded else subject.nodes
        logs = {name: logs_of(session.fleet, name, subject) for name in nodes}
        self._asked = [session.ask_job_files(node, own, WANTED) for node, own in logs.items() if own]

    @property
    def over(self) -> bool:
        """True if every node has answered, or the time is over."""
        return all(one.done for one in self._asked) or self._clock() >= self._until

    def choice(self) -> ArtifactChoice:
        """Return the artifacts to fetch, and what is left out.

        What has one path, size and time on several nodes (a shared file system) is fetched from the first.
        """
        left_out: list[tuple[str, str]] = []
        if self._recorded:
            left_out.append(("artifacts", "not in this recording"))
        elif not self._asked:
            left_out.append(("artifacts", "no log file shows in which folder the job runs"))
        chosen: list[NodeArtifact] = []
        seen: set[tuple[str, int, float]] = set()
        for one in self._asked:
            answer, why = one.read(JobFolders)
            if answer is None:
                left_out.append((f"artifacts of {one.node}", why or f"no answer in {ANSWER_S:.0f} s"))
                continue
            left_out += [(f"artifacts beside {one.node}:{each.log}", each.why) for each in answer.refused]
            for folder in answer.folders:
                own, more = _chosen(one.node, folder, chosen, seen)
                chosen += own
                left_out += more
        return ArtifactChoice(tuple(chosen), tuple((plain(what), plain(why)) for what, why in left_out))


def _chosen(
    node: str, folder: JobFolder, before: Sequence[NodeArtifact], seen: set[tuple[str, int, float]]
) -> tuple[list[NodeArtifact], list[tuple[str, str]]]:
    """Return the artifacts of one folder, and (what, why) of those left out; add their keys to `seen`."""
    times: dict[str, float] = {}
    sizes: dict[str, int] = {}
    for file in folder.files:
        key = f"{folder.folder}/{file.name}", file.size_bytes, file.mtime
        if key not in seen:
            seen.add(key)
            times[file.name], sizes[file.name] = file.mtime, file.size_bytes
    chosen, left_out = chosen_artifacts(sizes.items(), [each.artifact for each in before])
    own = [NodeArtifact(node, folder.log, folder.folder, each, times[each.path]) for each in chosen]
    missing = [(f"{node}:{folder.folder}/{path}", why) for path, why in left_out]
    if folder.cut:
        missing.append((f"further artifacts in {node}:{folder.folder}", "the folder holds too many files"))
    return own, missing


def logs_of(fleet: Fleet, name: str, subject: EvidenceSubject) -> list[str]:
    """Return one log of the subject's job from each folder that a node's agent reads, at most `MAX_LOGS`.

    Empty if the node is not live.
    """
    node = fleet.nodes[name]
    if node.link.phase != "live":
        return []
    by_folder: dict[str, str] = {}
    for file in node.logs:
        if file.state == "following" and file.source != "kernel" and is_of(file, subject):
            by_folder.setdefault(str(PurePosixPath(file.path).parent), file.path)
    return list(by_folder.values())[:MAX_LOGS]
