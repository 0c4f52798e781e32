"""The bundle of an ended job's logs, as judged by `scan`."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuwatch import __version__
from gpuwatch.diagnose.incidents.markdown import as_markdown
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.plain import plain
from gpuwatch.report.evidence.artifact_entries import Piece, folder_entries
from gpuwatch.report.evidence.bundle_file import BundleEntry, BundleFile, log_name
from gpuwatch.report.evidence.contents import json_entry, text_entry
from gpuwatch.report.evidence.environment import safe
from gpuwatch.report.evidence.index import IndexHead, index_text
from gpuwatch.report.evidence.log_files import blocks_text, whole_text
from gpuwatch.report.incidents.json_output import Facts, alert_facts, incident_facts
from gpuwatch.report.scan.report import ScanReport, scan_facts, with_lines
from gpuwatch.runs.files.files import reason
from gpuwatch.runs.scan.result import LogScan
from gpuwatch.session.evidence.artifacts import Artifact, chosen_artifacts

MAX_PLACES = 24
"""Maximum number of blocks per file."""
MAX_WALKED_FILES = 200_000
"""Maximum number of files of a folder that are searched for artifacts."""


@dataclass
class FolderBundle:
    """The content of the bundle of a folder; `steps` writes it."""

    folder: Path
    report: ScanReport
    incidents: Sequence[Incident]
    whole_logs: bool = False
    artifacts: Sequence[Artifact] = ()
    missing: list[tuple[str, str]] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Total bytes of the files to read."""
        return sum(file.size for file in self.report.scan.files) + sum(each.size for each in self.artifacts)

    def steps(self, file: BundleFile) -> Iterator[int]:
        """Write the bundle into `file`; yield the bytes of content so far.

        Raises:
            OSError: the disk is full, or cannot be written.
        """
        return file.steps(self._entries(file))

    def _entries(self, file: BundleFile) -> Iterator[BundleEntry]:
        held: list[BundleEntry] = []
        for entry in self._all():
            held.append(entry)
            yield entry
        headlines = [incident.headline for incident in self.incidents] or [self.report.end.text]
        head = IndexHead(str(self.folder), headlines, str(self.folder), has_blocks=not self.whole_logs)
        yield BundleEntry("index.md", index_text(head, held, self.missing, file.masked, self.report.time), "")

    def _all(self) -> Iterator[BundleEntry]:
        if self.incidents:
            summary = "\n".join(as_markdown(incident) for incident in self.incidents)
            yield text_entry("summary.md", summary, "the incidents in Markdown, for a chat or a ticket")
        yield json_entry(
            "incident.json", self._facts(), "the incidents and alerts, as in gpuwatch scan --json"
        )
        yield json_entry("scan.json", scan_facts(self.report), "the whole report, as gpuwatch scan --json")
        yield from self._logs()
        yield from folder_entries(self.folder, self.artifacts, self._read)
        for each in self.report.scan.skipped:
            if each.unreadable:
                self.missing.append((each.name, each.why))

    def _facts(self) -> Facts:
        report = self.report
        return {
            "gpuwatch": __version__,
            "time": round(report.time, 3),
            "source": plain(str(self.folder)),
            "demo": False,
            "job": None,
            "at": self.incidents[0].first if self.incidents else None,
            "incidents": [with_lines(incident_facts(each), report.lines) for each in self.incidents],
            "alerts": [with_lines(alert_facts(alert), report.lines) for alert in report.outside],
            "conditions": [],
            "logs": [
                {
                    "node": log.node,
                    "file": plain(log.name),
                    "ranks": [] if log.rank is None else [log.rank],
                    "whole": self.whole_logs,
                    "bytes": log.size,
                    "trouble": log.trouble,
                }
                for log in report.scan.files
            ],
            "missing": [],
        }

    def _logs(self) -> Iterator[BundleEntry]:
        places = self._places()
        failed = {incident.rank for incident in self.incidents} - {None}
        taken: set[str] = set()
        for log in sorted(self.report.scan.files, key=lambda each: each.name not in places):
            if log.path.is_symlink() and not log.path.stat().st_mode & 0o004:
                self.missing.append((log.name, "a link to a file that is not world-readable"))
                continue
            offsets = sorted(places.get(log.name, ()))[:MAX_PLACES]
            what = (
                "all of" if self.whole_logs else "lines around the evidence in" if offsets else "the end of"
            )
            about = f"{what} {safe(log.name)}" if offsets or log.rank in failed else ""
            text = whole_text(log.path, log.packing) if self.whole_logs else self._blocks(log, offsets)
            name = log_name(log.node or "files", log.name, taken)
            yield BundleEntry(name, self._read(log.name, text), about)
            if log.trouble is not None:
                self.missing.append((log.name, log.trouble))

    def _blocks(self, log: LogScan, offsets: Sequence[int]) -> Iterator[str]:
        return blocks_text(log.path, log.packing, offsets)

    def _read(self, name: str, text: Iterator[Piece]) -> Iterator[Piece]:
        """Yield the pieces of a file; if it cannot be read any more, record it as missing and end."""
        while True:
            try:
                piece = next(text, None)
            except OSError as error:
                self.missing.append((name, reason(error)))
                return
            if piece is None:
                return
            yield piece

    def _places(self) -> dict[str, set[int]]:
        """Return file -> offsets of the evidence in it, the first two of each alert."""
        found: dict[str, set[int]] = {}
        for incident in self.incidents:
            for alert in incident.alerts:
                for proof in alert.proof[:2]:
                    if proof.file is not None and proof.offset is not None:
                        found.setdefault(proof.file, set()).add(proof.offset)
        return found


def folder_artifacts(folder: Path) -> tuple[list[Artifact], list[tuple[str, str]]]:
    """Return the artifacts of a folder (links excluded), and (path, reason) of those that are left out.

    Raises:
        OSError: the status of a file cannot be read.
    """
    files: list[tuple[str, int]] = []
    unread: list[tuple[str, str]] = []

    def note(error: OSError) -> None:
        unread.append((os.path.relpath(error.filename, folder), reason(error)))

    for parent, folders, names in os.walk(folder, onerror=note):  # follows no link
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                facts = path.lstat()
                if stat.S_ISREG(facts.st_mode):
                    files.append((str(path.relative_to(folder)), facts.st_size))
        if len(files) > MAX_WALKED_FILES:
            chosen, left_out = chosen_artifacts(files)
            return chosen, [
                *unread,
                *left_out,
                (".", f"more than {MAX_WALKED_FILES:,} files: the others were not read"),
            ]
    chosen, left_out = chosen_artifacts(files)
    return chosen, [*unread, *left_out]
