"""Creates one bundle: queries nodes, fetches logs, writes the zip. Non-blocking."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.hang.combined_verdict import HangReport
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.hosts.plan import Plan
from gpuwatch.link.recording.cut import cut_recording, cut_ring
from gpuwatch.link.recording.schema import RecordingError
from gpuwatch.number_text import mebibytes
from gpuwatch.own_folders import make_own, state_folder
from gpuwatch.probe.results import Results
from gpuwatch.report.evidence.artifact_entries import fetched_entries
from gpuwatch.report.evidence.bundle_file import BundleEntry, BundleFile
from gpuwatch.report.evidence.contents import BundleFacts, entries
from gpuwatch.report.evidence.gpu_values import (
    AFTER_S,
    BEFORE_S,
    GPU_VALUES,
    UNKNOWN,
    first_value,
    stamp_text,
)
from gpuwatch.report.evidence.index import IndexHead, index_text
from gpuwatch.session.evidence.artifact_fetch import ArtifactFetch
from gpuwatch.session.evidence.artifact_listing import ArtifactChoice, ArtifactRequests
from gpuwatch.session.evidence.log_fetch import LogFetch, TextReads
from gpuwatch.session.evidence.log_parts import select_logs
from gpuwatch.session.evidence.spool import Spool
from gpuwatch.session.evidence.subject import EvidenceSubject, of_incident, of_job
from gpuwatch.session.rank_settings import ANSWER_S, SettingsQuery, SettingsRequests
from gpuwatch.session.replay_session import ReplaySession
from gpuwatch.session.session import Session
from gpuwatch.whole_file import refuse_device

NO_ARTIFACTS = ArtifactChoice()
NAME = "gpuwatch-evidence"
RECORDING = "recording.gpuwatch"
Cut: TypeAlias = Callable[[float, float, Path], None]
"""A function that writes the recording between two times (unix seconds) into a new file.

Raises `RecordingError` on failure.
"""
UNSEEN_S = 5.0
"""Values that begin more than this many seconds after the earliest possible time count as missing.

The first samples take a moment.
"""
SLICE_S = 0.02
"""Seconds for which one update writes (at least one step); the next update continues."""


class Measured(Protocol):
    """A probe of the session, with its results."""

    @property
    def results(self) -> Results:
        """The measurements so far."""
        ...


class EvidenceSession(TextReads, SettingsRequests, ArtifactRequests, Protocol):
    """The parts of a session that a bundle needs."""

    @property
    def plan(self) -> Plan:
        """The nodes."""
        ...

    @property
    def book(self) -> AlertBook:
        """The alerts and incidents."""
        ...

    @property
    def probes(self) -> Sequence[Measured]:
        """The probes of the session."""
        ...


class BundleContents(NamedTuple):
    """The options of a bundle: its content besides the lines around the evidence."""

    whole_logs: bool = False
    """True for all lines of the job's logs instead of those around the evidence."""
    artifacts: ArtifactChoice = NO_ARTIFACTS
    """The artifacts of the job to fetch (`ArtifactListing`)."""
    hang: Callable[[], HangReport | None] = lambda: None
    """A function that returns the newest hang report, or None."""
    cut: Cut | None = None
    """A function that writes a period of the recording into a file; None: nothing was recorded."""


LINES_ONLY = BundleContents()


class EvidenceRun:
    """The creation of one bundle. Call `update` after every poll until it is `over`; then `close`."""

    def __init__(
        self,
        session: EvidenceSession,
        subject: EvidenceSubject,
        out: Path,
        contents: BundleContents = LINES_ONLY,
    ) -> None:
        """Select the logs and query the nodes.

        Args:
            session: A started session whose nodes have sent their first reports.
            subject: The incident or job.
            out: The final name of the bundle; its folder exists.
            contents: What the bundle holds besides the lines around the evidence.

        Raises:
            OSError: nothing can be written beside `out`.
        """
        self.subject = subject
        refuse_device(out)
        self.out = out
        self._session = session
        self._clock, self._wall = session.clock.monotonic, session.clock.wall
        self._hang, self._cut = contents.hang, contents.cut
        self.selection = select_logs(subject, session.fleet, whole=contents.whole_logs)
        self._spool = Spool(out.with_name(f"{out.name}.part"), f"{session.plan.source}\n{subject.job}")
        self.resumed_bytes = self._spool.resumed_bytes
        self.fetch = LogFetch(session, self.selection.parts, self._spool)
        self._chosen = contents.artifacts
        self.artifacts = ArtifactFetch(session, contents.artifacts.artifacts, self._spool)
        self._settings = SettingsQuery(session, subject.nodes)
        self._settings_until = time.monotonic() + ANSWER_S
        self._file: BundleFile | None = None
        self._steps: Iterator[int] | None = None
        self.written_bytes = 0
        """Bytes of text written to the zip; 0: not started."""
        self.over = False

    @property
    def bytes(self) -> int:
        """Size of the whole logs and artifacts to be fetched; 0: only blocks of logs are."""
        return self.fetch.bytes + self.artifacts.bytes

    @property
    def fetched_bytes(self) -> int:
        """Number of bytes of the whole logs and artifacts that were fetched so far."""
        return self.fetch.fetched_bytes + self.artifacts.fetched_bytes

    @property
    def progress(self) -> str:
        """The current activity as text."""
        if self._file is not None:
            return f"writing {self.out.name}, {mebibytes(self.written_bytes)}"
        fetched = f"{self.fetch.done} of {len(self.fetch.logs)} logs"
        if self.artifacts.files:
            fetched += f" and {self.artifacts.done} of {len(self.artifacts.files)} artifacts"
        if self.fetch.over and self.artifacts.over:
            return "waiting for the settings of the ranks"
        return f"fetching {fetched}" + (
            f", {mebibytes(self.fetched_bytes)} of {mebibytes(self.bytes)}" if self.bytes else ""
        )

    def update(self) -> None:
        """Process what arrived and request more; once everything is here, write the zip for a time slice.

        Raises:
            OSError: the disk is full, or cannot be written.
        """
        if self.over:
            return
        if self._steps is None:
            self.fetch.update()
            self.artifacts.update()
            waits = not self._settings.over and time.monotonic() < self._settings_until
            if waits or not self.fetch.over or not self.artifacts.over:
                return
            self._file = BundleFile(self.out)
            self._steps = self._file.steps(self._entries(self._file))
        until = time.perf_counter() + SLICE_S
        for written in self._steps:
            self.written_bytes = written
            if time.perf_counter() > until:
                return
        self.over = True
        self._file = None
        self._spool.remove()

    def close(self, *, keep: bool = False) -> None:
        """Stop. A file under the final name exists only if it is complete.

        Args:
            keep: Keep what was fetched beside `out`, so that a later run of the same bundle continues with
                it.
        """
        if self._file is not None:
            self._file.discard()
        if not keep:
            self._spool.remove()

    @property
    def troubles(self) -> list[tuple[str, str]]:
        """Return (what, why) of everything that the bundle lacks."""
        fleet, now = self._session.fleet, self._clock()
        found = [(f"{node}:{file}", why) for node, file, why in self.selection.left_out]
        found += [
            (f"{log.part.node}:{log.part.file}", log.trouble)
            for log in self.fetch.logs
            if log.trouble is not None
        ]
        found += self._chosen.left_out
        found += [
            (f"{each.found.node}:{each.found.path}", each.trouble)
            for each in self.artifacts.files
            if each.trouble is not None
        ]
        states = {name: fleet.nodes[name].state(now) for name in self.subject.nodes}
        found += [
            (f"present values and settings of {name}", f"the node is {state}")
            for name, state in states.items()
            if state != "live"
        ]
        silent = [one.node for one in self._settings.asked if not one.done or one.error is not None]
        return found + [(f"settings of the ranks on {name}", "the node has not answered") for name in silent]

    def _recording(self, missing: list[tuple[str, str]]) -> BundleEntry | None:
        """Return the entry of the recording around the moment, written to the spool first.

        None, with the reason added to `missing`, if there is none.
        """
        what, path = "the recording", self._spool.folder / RECORDING
        if self._cut is None:
            missing.append((what, "nothing was recorded in this session"))
            return None
        path.unlink(missing_ok=True)  # of a run that was ended
        try:
            self._cut(self.subject.at - BEFORE_S, self.subject.at + AFTER_S, path)
        except RecordingError as error:
            missing.append((what, str(error).removeprefix(f"{path}: ")))
            return None
        return BundleEntry(RECORDING, path, f"{what}, for gpuwatch open {RECORDING}")

    def _unknown_values(self) -> Iterator[tuple[str, str]]:
        """Yield (what, why) of missing GPU values: all, or (after a seek) those before the first one."""
        subject, session = self.subject, self._session
        first = first_value(session.fleet, subject.nodes, subject.at, self._clock(), self._wall())
        if first is None:
            yield GPU_VALUES, UNKNOWN
        elif isinstance(session, ReplaySession):
            since = max(subject.at - BEFORE_S, session.extent[0]) + UNSEEN_S
            if first > stamp_text(since):
                yield f"{GPU_VALUES} before {first}", UNKNOWN

    def _entries(self, file: BundleFile) -> Iterator[BundleEntry]:
        session = self._session
        probes = [each.results for each in session.probes]
        missing = self.troubles
        hang = self._hang()
        if hang is None:
            missing.append(("stacks, NCCL RAS and flight-recorder dumps", "the ranks were not queried"))
        if not probes:
            missing.append(("a probe of the links", "none was run in this session"))
        found = BundleFacts(
            self.subject,
            session.fleet,
            session.book,
            self.fetch.logs,
            self._settings.answers,
            hang,
            probes,
            missing,
            recorded=session.recorded,
        )
        missing += self._unknown_values()
        held = []
        for entry in chain(
            entries(found, self._clock(), self._wall()), fetched_entries(self.artifacts.files)
        ):
            held.append(entry)
            yield entry
        if (recorded := self._recording(missing)) is not None:
            held.append(recorded)
            yield recorded
        subject = self.subject
        headlines = [incident.headline for incident in subject.incidents]
        has_blocks = any(not log.part.whole for log in found.logs)
        head = IndexHead(subject.name, headlines, session.plan.source, found.is_demo, has_blocks)
        yield BundleEntry("index.md", index_text(head, held, missing, file.masked, self._wall()), "")


def recording_cut(session: Session) -> Cut | None:
    """Return the function that writes a period of a replay, or of a session's recent past, into a file.

    None if the session keeps no past.
    """
    if isinstance(session, ReplaySession):
        return partial(cut_recording, session.recording)
    return None if session.tee is None else partial(cut_ring, session.tee, session.plan)


def begin_bundle(
    session: EvidenceSession,
    incident: Incident | None,
    job: str | None,
    hang: HangReport | None,
    cut: Cut | None = None,
    wall: Callable[[], float] = time.time,
) -> EvidenceRun:
    """Start a bundle of the incident, if given, else of the job, and return it.

    It is written into the working folder or, if that is not writable, into the state folder.

    Raises:
        OSError: neither folder can be written.
        UnknownSubjectError: the job is unknown.
    """
    fleet = session.fleet
    if incident is not None:
        subject = of_incident(incident, fleet)
    else:
        subject = of_job(job or "", session.book.incidents, fleet, wall())
    try:
        return _begin(session, subject, Path.cwd(), hang, cut, wall)
    except OSError:
        folder = state_folder()
        make_own(folder)
        return _begin(session, subject, folder, hang, cut, wall)


def _begin(
    session: EvidenceSession,
    subject: EvidenceSubject,
    folder: Path,
    hang: HangReport | None,
    cut: Cut | None,
    wall: Callable[[], float],
) -> EvidenceRun:
    stem = f"{NAME}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(wall()))}"
    name, count = stem, 1
    while (folder / f"{name}.zip").exists() or (folder / f"{name}.zip.part").exists():
        count += 1
        name = f"{stem}-{count}"
    contents = BundleContents(hang=lambda: hang, cut=cut)
    return EvidenceRun(session, subject, folder / f"{name}.zip", contents)
