"""Queries all nodes for evidence of a hang (stacks, RAS, dumps) and merges the answers. Non-blocking."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs
from msgspec.structs import replace

from gpuwatch.clock import SYSTEM, SessionClock
from gpuwatch.diagnose.hang.combined_verdict import HangReport, analyze, with_pauses
from gpuwatch.diagnose.hang.flight_recorder.job_dumps import outlived
from gpuwatch.diagnose.hang.ras.model import Ras, RasError
from gpuwatch.diagnose.hang.ras.reader import read_ras
from gpuwatch.diagnose.hang.remedies import advised
from gpuwatch.diagnose.hang.stacks.groups import RankStack
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.jobs.rank_places import places_of
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.fleet.pending_request import Asked
from gpuwatch.number_text import plural, size_text
from gpuwatch.session.hang.dump_collection import DumpCollection
from gpuwatch.session.hang.dump_selection import Key, RankTarget
from gpuwatch.session.hang.node_requests import NodeRequests
from gpuwatch.session.hang.py_spy_upload import PySpyUpload
from gpuwatch.session.hang.rank_lines import RankLines
from gpuwatch.wire import RasAnswer, RasAnswers, Stacks

MAX_QUERY_S = 20.0
"""Seconds after which a node is given up; the node has 12 s of these for its py-spy runs."""
PY_SPY_SHARE = 0.6
"""Share of a node's time for py-spy; the rest is for kernel stacks and the transfer."""
MAX_QUERIED_PROCESSES = 64
"""Most processes per node that are queried; an agent accepts no more."""
TOO_MANY = f"only {MAX_QUERIED_PROCESSES} processes of a node are queried"
RAS_NODES = 2
"""Number of nodes per job that are queried for RAS: one answer suffices, but a node may be faulty."""


class HangSources(NamedTuple):
    """The evidence that a query collects besides kernel stacks."""

    py_spy: str | None = ""
    """The path of py-spy on the nodes; empty: search for it there; None: do not use it."""
    ras: bool = True
    """NCCL's RAS."""
    dumps: bool = True
    """Whether existing flight-recorder dumps are collected; no new dump is written."""


ALL_SOURCES = HangSources()


class HangQuery:
    """One query of ranks for hang evidence.

    Poll the session and call `update` after every poll until it is `over`.
    """

    def __init__(
        self,
        session: NodeRequests,
        *,
        nodes: Collection[str] | None = None,
        sources: HangSources = ALL_SOURCES,
        silent_job: str | None = None,
        longest_s: float = MAX_QUERY_S,
        clock: SessionClock = SYSTEM,
    ) -> None:
        """Send the requests.

        Args:
            session: A started session whose processes are known.
            nodes: The nodes to query; None: all.
            sources: The evidence to collect besides kernel stacks.
            silent_job: For an automatic query: only the ranks of this job, no dumps, no upload of py-spy, no
                debug sockets. None: the ranks of all jobs.
            longest_s: Seconds after which a node that has not answered is given up.
            clock: The clock of the session.
        """
        self._clock, self._wall = clock.monotonic, clock.wall
        self._deadline = self._clock() + longest_s
        self._longest_s = longest_s
        self.stacks: dict[tuple[str, int], RankStack] = {}
        """(node, pid) -> stack; `missing` gives the reason while there is none."""
        self.ras: list[Ras] = []
        self.ras_trouble: dict[str, str] = {}
        """Node -> why RAS gave no answer there."""
        self.version = 0
        self._stacks: list[Asked] = []
        self._ras: list[Asked] = []
        self._py_spy = sources.py_spy
        self._silent_job = silent_job
        self._session = session
        self._uploads: dict[str, PySpyUpload] = {}
        """Node -> upload of py-spy to it."""
        chosen = [n for n in session.fleet.nodes.values() if nodes is None or n.name in nodes]
        self._whole = len(chosen) == len(session.fleet.nodes)
        for node in chosen:
            self._begin(node)
        for name, pids in self._ras_targets().items() if sources.ras else ():
            self._ras.append(session.ask_ras(name, pids))
        self._lines = None if silent_job is None else RankLines(session, chosen, silent_job)
        known = self._whole and all(node.processes_at is not None for node in chosen)
        self.dumps = (
            DumpCollection(
                session,
                self._targets(chosen),
                whole=known,
                longest_s=longest_s,
                clock=clock.monotonic,
                wall=clock.wall,
            )
            if sources.dumps and silent_job is None
            else None
        )

    @property
    def asked(self) -> int:
        """Number of queried ranks."""
        return len(self.stacks)

    @property
    def waiting(self) -> list[str]:
        """Nodes with outstanding answers."""
        collecting = self.dumps.waiting if self.dumps is not None else ()
        return sorted({*(asked.node for asked in (*self._stacks, *self._ras)), *self._uploading, *collecting})

    @property
    def over(self) -> bool:
        """True if nothing more will arrive."""
        asked = self._stacks or self._ras or self._uploading
        read = self._lines is None or self._lines.over
        return not asked and read and (self.dumps is None or self.dumps.over)

    @property
    def progress(self) -> str:
        """The current activity (upload of py-spy, dumps) as text; empty if there is none."""
        if self._uploading:
            least = min(self._uploads[node].share for node in self._uploading)
            return f"uploading py-spy to {plural(len(self._uploading), 'node')}, {100 * least:.0f} %"
        return self.dumps.progress if self.dumps is not None else ""

    def write_dumps(self) -> bool:
        """Make the ranks with a dump pipe write fresh dumps; return False if that is not possible now."""
        if self.dumps is None or not self.dumps.write():
            return False
        self.version += 1
        return True

    def update(self) -> bool:
        """Process what the nodes have answered; return True if they have answered anything."""
        late = self._clock() >= self._deadline
        before = self.version
        for node in self._uploading:
            self._continue(self._uploads[node])
        for asked in [each for each in self._stacks if each.done or late]:
            self._stacks.remove(asked)
            self._take_stacks(asked)
            self.version += 1
        for asked in [each for each in self._ras if each.done or late]:
            self._ras.remove(asked)
            self._take_ras(asked)
            self.version += 1
        if self.dumps is not None and self.dumps.update():
            self.version += 1
        if self._lines is not None and late and not self._lines.over:
            self._lines.close()
        return self.version != before

    def hang_report(self, fleet: Fleet) -> HangReport:
        """Return the report of the hang query from what has arrived so far."""
        addresses = places_of(fleet.nodes.values()).addresses
        answering = sorted({ras.node for ras in self.ras})

        def locate(host: str | None, pid: int | None) -> int | None:
            listed = self._listed(host, pid, addresses, answering)
            return None if listed is None else listed.rank

        dumps = self.dumps.hang_check if self.dumps is not None else None
        if dumps is not None:
            dumps = outlived(dumps, self._stepped(fleet))
        hang_check = analyze(list(self.stacks.values()), self.ras, self.ras_trouble, locate, dumps, addresses)
        doing = {} if self._lines is None else self._lines.doing
        hang_check = with_pauses(hang_check, doing, self._writing(hang_check))
        return advised(hang_check, fleet)

    def _writing(self, hang_check: HangReport) -> dict[int, str]:
        """Return rank -> text with the file that it writes and by how much that grew.

        Only the ranks of the verdict's job; all ranks if that is unknown.
        """
        job = None if hang_check.verdict is None else hang_check.verdict.job
        return {
            each.rank: f"{each.stack.writes} ({size_text(each.stack.written_bytes)} between two readings)"
            for each in self.stacks.values()
            if each.stack is not None and each.stack.writes and job in (None, each.job)
        }

    def _listed(
        self, host: str | None, pid: int | None, addresses: Mapping[str, str], answering: Sequence[str]
    ) -> RankStack | None:
        """Return the listed process (host, pid) that RAS on the `answering` nodes reports, or None."""
        if host is None or pid is None:
            return None
        is_local = host.startswith("127.") or host == "::1"
        nodes = answering if is_local else (addresses.get(host, host),)
        return next((self.stacks[node, pid] for node in nodes if (node, pid) in self.stacks), None)

    @property
    def _uploading(self) -> list[str]:
        return [node for node, upload in self._uploads.items() if not upload.over]

    def _continue(self, upload: PySpyUpload) -> None:
        """Continue an upload of py-spy; when it is complete, request the stacks of the node's ranks again.

        If it has failed, the reason is added to theirs.
        """
        upload.update()
        if upload.ready:
            self._deadline = self._clock() + self._longest_s
            self._ask_stacks(upload.node)
        elif upload.over:
            self.version += 1
            for key, each in self.stacks.items():
                if each.node == upload.node and each.stack is not None and each.stack.why:
                    why = f"{each.stack.why}, and could not be uploaded: {upload.why}"
                    self.stacks[key] = replace(each, stack=structs.replace(each.stack, why=why))

    def _begin(self, node: Node) -> None:
        gpus = {gpu.info.uuid: gpu.info.index for gpu in node.gpus.values()}
        for process in node.processes:
            if process.rank is not None and self._silent_job in (None, process.job):
                self.stacks[node.name, process.pid] = RankStack(
                    rank=process.rank,
                    node=node.name,
                    pid=process.pid,
                    job=process.job,
                    gpu=gpus.get(process.gpus[0].uuid) if process.gpus else None,
                    world=process.world_size if self._whole else None,
                    missing="no answer yet",
                    inferred=process.inferred,
                )
        pids = self._ask_stacks(node.name)
        for pid in pids[MAX_QUERIED_PROCESSES:]:
            self.stacks[node.name, pid] = replace(self.stacks[node.name, pid], missing=TOO_MANY)

    def _ask_stacks(self, node: str) -> list[int]:
        pids = [pid for name, pid in self.stacks if name == node]
        if pids:
            seconds = PY_SPY_SHARE * self._longest_s
            asked = self._session.ask_stacks(
                node, pids[:MAX_QUERIED_PROCESSES], self._py_spy, seconds, sockets=self._silent_job is None
            )
            self._stacks.append(asked)
        return pids

    def _stepped(self, fleet: Fleet) -> dict[str | None, float]:
        """Return job -> time of its last logged step (unix seconds), where it is exact."""
        by_node: dict[str, list[RankStack]] = {}
        for each in self.stacks.values():
            by_node.setdefault(each.node, []).append(each)
        found: dict[str | None, float] = {}
        for writer in fleet.progress.writers.values():
            step = writer.values.get("step")
            own = by_node.get(writer.node, ())
            jobs = {each.job for each in own if writer.rank in (None, each.rank)}
            if step is None or not step.sure or len(jobs) != 1:
                continue
            at = self._wall() - (self._clock() - step.at)
            (job,) = jobs
            found[job] = max(found.get(job, at), at)
        return found

    def _targets(self, chosen: Collection[Node]) -> dict[Key, RankTarget]:
        """Return (node, pid) -> rank, for the ranks whose dumps are collected."""
        return {
            (node.name, each.pid): RankTarget(each.rank, each.job or each.master, each.world_size)
            for node in chosen
            for each in node.processes
            if each.rank is not None and self.stacks[node.name, each.pid].missing != TOO_MANY
        }

    def _ras_targets(self) -> dict[str, list[int]]:
        """Return node -> pids of the ranks that are queried for RAS.

        These are a job's ranks on the nodes of its lowest and its highest rank.
        """
        jobs: dict[str | None, list[RankStack]] = {}
        for each in self.stacks.values():
            jobs.setdefault(each.job, []).append(each)
        found: dict[str, list[int]] = {}
        for ranks in jobs.values():
            ranks.sort(key=lambda each: each.rank)
            for node in list(dict.fromkeys((ranks[0].node, ranks[-1].node)))[:RAS_NODES]:
                found.setdefault(node, []).extend(each.pid for each in ranks if each.node == node)
        return found

    def _take_stacks(self, asked: Asked) -> None:
        reported, why = asked.read(Stacks)
        program = self._session.py_spy if self._silent_job is None else None
        if (
            reported is not None
            and reported.lacks_py_spy
            and program is not None
            and asked.node not in self._uploads
        ):
            self._uploads[asked.node] = PySpyUpload(self._session, asked.node, program, self._clock)
        by_pid = {stack.pid: stack for stack in reported.processes} if reported is not None else {}
        gone = why or ("the process has ended" if asked.done else self._no_answer())
        for key, each in self.stacks.items():
            if each.node == asked.node and each.missing != TOO_MANY:
                stack = by_pid.get(each.pid) if reported is not None else each.stack
                self.stacks[key] = replace(each, stack=stack, missing=None if stack is not None else gone)

    def _take_ras(self, asked: Asked) -> None:
        reported, why = asked.read(RasAnswers)
        if reported is None:
            self.ras_trouble[asked.node] = why or self._no_answer()
            return
        for answer in reported.answers:
            self._read_ras(answer, asked.node)

    def _read_ras(self, answer: RasAnswer, node: str) -> None:
        addresses = places_of(self._session.fleet.nodes.values()).addresses
        asked = (self.stacks.get((node, pid)) for pid in answer.pids)
        jobs = frozenset(each.job for each in asked if each is not None)
        try:
            ras = read_ras(answer, node)
        except RasError as error:
            self.ras_trouble[node] = f"{answer.address}: {error}"
            return
        named = (self._listed(peer.host, peer.pid, addresses, [node]) for peer in ras.reported)
        if any(each is not None and each.job not in jobs for each in named):
            self.ras_trouble[node] = f"{answer.address}: it names processes of another job"
        else:
            self.ras.append(replace(ras, jobs=jobs))

    def _no_answer(self) -> str:
        return f"no answer in {self._longest_s:.0f} s"
