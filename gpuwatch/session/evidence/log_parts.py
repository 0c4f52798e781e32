"""Selects the parts of log files for a bundle. Pure."""

from __future__ import annotations

from msgspec import Struct

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.session.evidence.subject import EvidenceSubject
from gpuwatch.session.line_queries import is_readable
from gpuwatch.wire import KERNEL_LOG, LogFile

MAX_PLACES = 24
"""Most blocks per file."""
MAX_PARTS = 2048
"""Most files per bundle."""


class LogPart(Struct, frozen=True):
    """A log file on a node, and which of its lines to fetch."""

    node: str
    file: str
    size: int
    """Size in bytes (records for the kernel log) when the bundle was started, if the file grows."""
    identity: str | None = None
    """Identity of the file, if the node reports it; a changed identity means another file of that name."""
    whole: bool = False
    places: tuple[int, ...] = ()
    """Offsets of lines of evidence whose surroundings are fetched."""
    at: float | None = None
    """Time whose surroundings are fetched (unix seconds, node's clock); None: none."""
    ranks: tuple[int, ...] = ()
    rank_log: bool = False
    """True for a log of the job, False for one of the node."""

    @property
    def is_kernel(self) -> bool:
        """True for the kernel log, whose offsets count records."""
        return self.file == KERNEL_LOG


class LogSelection(Struct, frozen=True):
    """The parts of logs to fetch, and the files that are left out."""

    parts: tuple[LogPart, ...]
    left_out: tuple[tuple[str, str, str], ...] = ()
    """Node, file and reason of each file that is not fetched."""

    @property
    def bytes(self) -> int:
        """Total size in bytes of the files to be fetched whole, without the kernel log."""
        return sum(part.size for part in self.parts if part.whole and not part.is_kernel)


def select_logs(subject: EvidenceSubject, fleet: Fleet, *, whole: bool) -> LogSelection:
    """Return which logs of the subject's job and nodes to fetch, and which parts; those with evidence first.

    Args:
        subject: The incident or job.
        fleet: The nodes, with the files that each one reads.
        whole: True: all lines of the job's logs; False: those around the evidence, and around the subject's
            time in files without evidence (a rank that logged no error is a suspect).
    """
    places = _places(subject)
    parts: list[LogPart] = []
    left_out: list[tuple[str, str, str]] = []
    for name in subject.nodes:
        node = fleet.nodes[name]
        for file in node.logs:
            offsets = places.get((name, file.path), ())
            if file.source != "kernel" and not offsets and not is_of(file, subject):
                continue
            if file.state == "elsewhere" and not offsets:
                continue  # another node's agent reads it
            if node.link.phase != "live":
                left_out.append((name, file.path, f"the node is {node.link.phase}"))
            elif file.source != "kernel" and not is_readable(file):
                left_out.append((name, file.path, file.reason or file.state))
            elif len(parts) >= MAX_PARTS:
                left_out.append((name, file.path, f"a bundle holds {MAX_PARTS} logs"))
            else:
                parts.append(_part(file, node, subject, offsets, whole=whole))
    parts.sort(key=lambda part: not part.places)
    return LogSelection(tuple(parts), tuple(left_out))


def _part(
    file: LogFile, node: Node, subject: EvidenceSubject, offsets: tuple[int, ...], *, whole: bool
) -> LogPart:
    clock_s = node.clock.offset_s if node.clock is not None else 0.0
    return LogPart(
        node.name,
        file.path,
        file.size or 0,
        file.identity,
        whole=whole,
        places=offsets,
        at=None if offsets and file.source != "kernel" else subject.at + clock_s,
        ranks=tuple(file.ranks),
        rank_log=file.source != "kernel",
    )


def is_of(file: LogFile, subject: EvidenceSubject) -> bool:
    """Return True if a file is a log of the subject's job.

    If the subject has no job, return True if the file has none either, and the user named the file.
    """
    named = file.source in ("option", "glob") and subject.job is None
    return file.job == subject.job and (file.job is not None or named)


def _places(subject: EvidenceSubject) -> dict[tuple[str, str], tuple[int, ...]]:
    """Return (node, file) -> sorted offsets of evidence: two proofs per alert, `MAX_PLACES` per file."""
    found: dict[tuple[str, str], dict[int, None]] = {}
    for incident in subject.incidents:
        for alert in incident.alerts:
            for proof in alert.proof[:2]:
                if proof.node is not None and proof.file is not None and proof.offset is not None:
                    found.setdefault((proof.node, proof.file), {})[proof.offset] = None
    return {place: tuple(sorted(list(offsets)[:MAX_PLACES])) for place, offsets in found.items()}
