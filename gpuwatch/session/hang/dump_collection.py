"""Collects flight-recorder dumps from all nodes and analyzes them here. Non-blocking.

Existing dumps are only read. The ranks write fresh ones, at the location their job configured, only when
`write` is called.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec.structs import replace

from gpuwatch.diagnose.hang.flight_recorder.isolated import (
    DUMPS,
    AnalysisRequest,
    AnalysisResult,
    IsolatedAnalysis,
)
from gpuwatch.diagnose.hang.flight_recorder.job_dumps import DumpRead, FlightEvidence, JobDumps, with_age
from gpuwatch.fleet.pending_request import Asked
from gpuwatch.number_text import scaled_text
from gpuwatch.plain import plain
from gpuwatch.session.hang.dump_selection import DumpTargets, Key, Listed, RankTarget, chosen
from gpuwatch.session.hang.dump_transfer import DumpFileTransfer, DumpTransfer
from gpuwatch.session.hang.dump_trigger import WRITE_S, Writing
from gpuwatch.session.hang.node_requests import NodeRequests
from gpuwatch.wire import DumpPlaces

Phase: TypeAlias = Literal["listing", "writing", "fetching", "judging", "over"]
FETCH_S = 120.0
NOT_WRITTEN = f"no dump was written within {WRITE_S:.0f} s of the request"


class DumpCollection:
    """Lists, fetches and analyzes the dumps of the given ranks; `hang_check` holds the verdict.

    Create it, poll the session, and call `update` after every poll until it is `over`; then `write` is
    possible.
    """

    def __init__(
        self,
        session: NodeRequests,
        targets: Mapping[Key, RankTarget],
        *,
        whole: bool,
        longest_s: float,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Request the lists of existing dumps.

        Args:
            session: A started session.
            targets: The ranks' processes.
            whole: True if every node of the session is queried, and its processes are known.
            longest_s: Seconds after which a node that has not listed its dumps is given up.
            clock: Monotonic seconds.
            wall: Unix seconds.
        """
        self.phase: Phase = "listing"
        self.hang_check: FlightEvidence | None = None
        """The latest verdicts of the dumps; None: none yet."""
        self._session, self._targets, self._whole = session, dict(targets), whole
        self._clock, self._wall = clock, wall
        self._longest_s = longest_s
        self._deadline = clock() + longest_s
        self._places: dict[str, DumpPlaces] = {}
        self._silent: dict[str, str] = {}
        """Node -> why it listed no dumps."""
        self._writing: Writing | None = None
        self._transfers: list[DumpTransfer] = []
        self._cases: list[DumpTargets] = []
        self._judges: list[IsolatedAnalysis | None] = []
        """The running analyses, one per job; None: it has ended."""
        self._spool: tempfile.TemporaryDirectory[str] | None = None
        by_node: dict[str, list[int]] = {}
        for node, pid in sorted(self._targets):
            by_node.setdefault(node, []).append(pid)
        self._asked: list[Asked] = [session.ask_dump_files(node, pids) for node, pids in by_node.items()]

    # ---- public state

    @property
    def over(self) -> bool:
        """True if nothing more will arrive."""
        return self.phase == "over"

    @property
    def waiting(self) -> list[str]:
        """Nodes with outstanding answers or transfers."""
        nodes = {each.node for each in self._asked} | {each.node for each in self._transfers if not each.over}
        return sorted(nodes.union(self._writing.waiting if self.phase == "writing" and self._writing else ()))

    @property
    def progress(self) -> str:
        """The current activity as text; empty if there is none."""
        if self.phase == "fetching":
            transfers = [each for case in self._cases for each in case.transfers.values()]
            taken, total = sum(each.taken for each in transfers), sum(each.size for each in transfers)
            return f"dumps: {scaled_text(taken, 1000)}B of {scaled_text(total, 1000)}B fetched"
        words = {
            "listing": "looking for dumps",
            "writing": "dumps are written",
            "judging": "dumps are judged",
        }
        return words.get(self.phase, "")

    def update(self) -> bool:
        """Process what has arrived; return True if the collection went on to another phase."""
        before = self.phase
        if self.phase == "listing":
            self._take_lists()
        elif self.phase == "writing":
            self._watch_writing()
        elif self.phase == "fetching":
            self._fetch()
        elif self.phase == "judging":
            self._judge()
        return self.phase != before

    def write(self) -> bool:
        """Make all ranks with a dump pipe write fresh dumps, which replace older ones.

        Return False if that is not possible: the collection is not over, or no rank has a pipe.
        """
        pids = self._writers()
        if not self.over or not pids:
            return False
        before = {node: self._places[node] for node in pids}
        self._writing = Writing(self._session, self._targets, pids, before, self._clock)
        self.phase = "writing"
        return True

    def close(self) -> None:
        """Stop the analysis processes and delete all temporary files."""
        for judge in self._judges:
            if judge is not None:
                judge.close()
        if self._spool is not None:
            self._spool.cleanup()
            self._spool = None

    # ---- one phase after the other

    def _take_lists(self) -> None:
        late = self._clock() >= self._deadline
        for asked in [each for each in self._asked if each.done or late]:
            self._asked.remove(asked)
            reported, why = asked.read(DumpPlaces)
            if reported is not None:
                self._places[asked.node] = reported
            else:
                self._silent[asked.node] = plain(why or f"no answer in {self._longest_s:.0f} s")
        if not self._asked:
            self._begin(Listed(self._targets, self._places, self._silent, self._whole, self._wall()))

    def _watch_writing(self) -> None:
        writing = self._writing
        assert writing is not None  # noqa: S101 - set in this phase
        writing.update()
        if not writing.over:
            return
        self._places.update(writing.places)
        reported = Listed(
            self._targets,
            self._places,
            self._silent,
            self._whole,
            self._wall(),
            only=writing.written,
            refused=writing.refused,
            late=NOT_WRITTEN,
        )
        self._begin(reported)

    def _begin(self, listed: Listed) -> None:
        """Start the transfer of the selected dumps."""
        self.close()
        self._cases = chosen(listed)
        self._judges = [None] * len(self._cases)
        folders = self._folders()
        by_node: dict[str, list[DumpFileTransfer]] = {}
        for case in self._cases:
            for transfer in case.transfers.values():
                by_node.setdefault(transfer.node, []).append(transfer)
        self._transfers = [
            DumpTransfer(self._session, node, transfers, lambda transfer: folders[transfer.job], self._clock)
            for node, transfers in by_node.items()
        ]
        self._deadline = self._clock() + FETCH_S
        self.phase = "fetching"

    def _folders(self) -> dict[str | None, Path]:
        """Create the folders for the dumps; return job -> folder. If that fails, no dump is fetched."""
        folders = {}
        try:
            self._spool = tempfile.TemporaryDirectory(prefix="gpuwatch-dumps-")
            for number, case in enumerate(self._cases):
                folders[case.job] = Path(self._spool.name) / f"job{number}" / DUMPS
                folders[case.job].mkdir(parents=True)
        except OSError as error:
            why = f"no dump can be kept here: {(error.strerror or str(error)).lower()}"
            for case in self._cases:
                case.unread.update(dict.fromkeys(case.transfers, why))
                case.transfers.clear()
        return folders

    def _fetch(self) -> None:
        late = self._clock() >= self._deadline
        for node_transfer in self._transfers:
            if late and not node_transfer.over:
                node_transfer.give_up(f"it did not arrive within {FETCH_S:.0f} s")
            node_transfer.update()
        if all(node_transfer.over for node_transfer in self._transfers):
            self._transfers = []
            self._judges = [self._start_judge(number, case) for number, case in enumerate(self._cases)]
            self.phase = "judging"

    def _start_judge(self, number: int, case: DumpTargets) -> IsolatedAnalysis | None:
        for rank, transfer in case.transfers.items():
            if transfer.why is not None:
                case.unread[rank] = f"{transfer.node}: {transfer.path}: {transfer.why}"
        if self._spool is None or all(transfer.why is not None for transfer in case.transfers.values()):
            return None
        order = AnalysisRequest(case.world or None, sorted(case.unread))
        return IsolatedAnalysis(Path(self._spool.name) / f"job{number}", order, clock=self._clock)

    def _judge(self) -> None:
        judged = [None if judge is None else judge.take() for judge in self._judges]
        if any(judge is not None and each is None for judge, each in zip(self._judges, judged, strict=True)):
            return
        stated = [self._stated(case, each) for case, each in zip(self._cases, judged, strict=True)]
        self.close()
        stated.sort(key=lambda each: not (each.verdict is not None and each.verdict.wrong))
        places = {
            place.prefix for reported in self._places.values() for place in reported.places if place.named
        }
        writers = {self._targets[node, pid].rank for node, pids in self._writers().items() for pid in pids}
        self.hang_check = FlightEvidence(tuple(stated), tuple(sorted(writers)), tuple(sorted(places)))
        self.phase = "over"

    def _stated(self, case: DumpTargets, judged: AnalysisResult | str | None) -> JobDumps:
        unread = dict(case.unread)
        brought: Sequence[int] = ()
        if isinstance(judged, AnalysisResult):
            brought = judged.ranks
            unread.update(
                (rank, f"{case.transfers[rank].node}: {case.transfers[rank].path}: {why}")
                for rank, why in judged.unread.items()
                if rank in case.transfers
            )
        elif judged is not None:
            unread.update((rank, judged) for rank, transfer in case.transfers.items() if transfer.why is None)
        read = [case.transfers[rank] for rank in sorted(brought)]
        job = JobDumps(
            job=case.job,
            ranks=case.world or len({*brought, *case.none, *unread}),
            read=tuple(DumpRead(each.rank, each.node, each.path, each.size, each.at) for each in read),
            without=dict(sorted({**case.none, **unread}.items())),
            asked=self._writing is not None,
        )
        if not isinstance(judged, AnalysisResult) or judged.verdict is None:
            return job
        return replace(job, verdict=with_age(judged.verdict, job))

    def _writers(self) -> dict[str, list[int]]:
        """Return node -> pids of the queried ranks that have a dump pipe."""
        found = {
            node: [pipe.pid for pipe in reported.pipes if pipe.there and (node, pipe.pid) in self._targets]
            for node, reported in self._places.items()
        }
        return {node: pids for node, pids in found.items() if pids}
