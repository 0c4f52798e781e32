"""The data that the screens show: the current fleet, or the fleet at the moment of a freeze."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable

from gpuwatch.diagnose.hang.combined_verdict import kept
from gpuwatch.diagnose.model.condition import Condition
from gpuwatch.diagnose.training.job_view.rank_placement import RankPlacement
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.hosts.plan import Plan
from gpuwatch.number_text import ago_text
from gpuwatch.tui.model.alert_snapshot import AlertSnapshot, take_snapshot
from gpuwatch.tui.model.hang_query import Question
from gpuwatch.tui.model.job_scope import JobScope
from gpuwatch.tui.model.log_folder import LogFolder
from gpuwatch.tui.model.replay import Replaying
from gpuwatch.tui.model.session_protocol import SessionProtocol
from gpuwatch.tui.model.unalerted import Unalerted


def _still(fleet: Fleet) -> Fleet:
    """Return a copy of the fleet that does not change.

    Wire structs are immutable, so shallow copies of nodes and GPUs are enough.
    """
    frozen = copy.copy(fleet)
    frozen.events, frozen.findings = fleet.events.copy(), dict(fleet.findings)
    frozen.progress = fleet.progress.still()
    frozen.nodes = {name: _still_node(node) for name, node in fleet.nodes.items()}
    return frozen


def _still_node(node: Node) -> Node:
    frozen = copy.copy(node)
    frozen.events = node.events.copy()
    frozen.gpus = {uuid: copy.copy(gpu) for uuid, gpu in node.gpus.items()}
    return frozen


class ViewState:
    """The fleet and the time that every widget shows. A freeze stops both; the session continues."""

    def __init__(
        self,
        session: SessionProtocol,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        behind_s: Callable[[], float] = float,
    ) -> None:
        self.session = session
        self.replay: Replaying | None = getattr(session, "replay", None)
        """The recording that is played; None: the session is live."""
        self.folder: LogFolder | None = getattr(session, "folder", None)
        """The opened logs of an ended job; None: nodes are watched."""
        self._clock = clock
        self._wall = wall
        self.behind_s = behind_s
        """Returns by how many seconds the clocks are behind those of this machine."""
        self._frozen: Fleet | None = None
        self._frozen_at = 0.0
        self._frozen_wall = 0.0
        self._reported = AlertSnapshot()
        self._snapshot_version: tuple[int, int] | None = None
        self.unalerted = Unalerted()
        """Conditions without an alert (yet)."""
        self._placement = RankPlacement()
        self._frozen_placement = self._placement
        self._frozen_probes: tuple[int, ...] = ()
        self.questions: dict[str | None, Question] = {}
        """Incident -> its newest hang query; None: about no incident."""
        self.now = clock()
        self.scope = JobScope()
        self._part = self._whole = session.fleet

    @property
    def fleet(self) -> Fleet:
        """The fleet to show: the selected job's part of the current or frozen one."""
        return self._part

    @property
    def frozen_fleet(self) -> Fleet | None:
        """The whole fleet at the freeze, whatever job is shown; None if the view is not frozen."""
        return self._frozen

    @property
    def placement(self) -> RankPlacement:
        """The places where the ranks of every job run or ran, as seen since the first frame."""
        return self._frozen_placement if self.frozen else self._placement

    @property
    def snapshot(self) -> AlertSnapshot:
        """The alerts and incidents to show: current or frozen, of the selected job."""
        version = self.session.book.version, self.unalerted.version
        if not self.frozen and version != self._snapshot_version:
            self._reported, self._snapshot_version = (
                take_snapshot(
                    self.session.book,
                    self.unalerted.alerts,
                    None if self.folder is None else self.folder.unnamed_node,
                    self._wall(),
                ),
                version,
            )
        return self.scope.reported(self._reported)

    def show_job(self, job: str | None) -> None:
        """Show one job alone, None: all, from the next frame on."""
        self.scope.choose(job)

    @property
    def plan(self) -> Plan:
        return self.session.plan

    @property
    def demo(self) -> bool:
        """True if any node is simulated."""
        return any(spec.link == "demo" for spec in self.plan.nodes)

    @property
    def frozen(self) -> bool:
        return self._frozen is not None

    def ask(self, incident: str | None) -> Question:
        """Start a hang query and return it; its result is stored with the incident of this id."""
        question = Question(self.session.inquire(), incident, self._wall())
        self.questions[incident] = question
        return question

    def tick(self) -> None:
        """Set the time and the fleet for the next frame, and process answers to hang queries."""
        for question in list(self.questions.values()):
            self._follow(question)
        self.now = self._frozen_at if self.frozen else self._clock()
        if self.session.fleet is not self._whole:  # a replay went to another moment
            self._whole, self._placement = self.session.fleet, RankPlacement()
        self._placement.refresh(self.session.fleet)
        self._part = self.scope.part_of(self._frozen or self.session.fleet, self.placement)

    def _follow(self, question: Question) -> None:
        """Process a query's answers and store the result with its incident.

        A query about no incident gets the leading one if that is reported later and concerns the same job.
        """
        moved = question.update(self.session.fleet)
        hang_check = question.hang_report
        if hang_check is None:
            return
        about = self.snapshot.leading if question.incident is None else None
        if about and about.job in {job.job for job in hang_check.jobs} and about.id not in self.questions:
            question.incident, moved = about.id, True
            self.questions[about.id] = self.questions.pop(None)
        answer = kept(hang_check, question.at) if moved else None
        if answer is not None and question.incident is not None:
            self.session.book.keep_hang_check(question.incident, answer)

    def take_conditions(self, conditions: Iterable[tuple[str, Condition]]) -> None:
        """Update the conditions of nodes and GPUs, which are listed as alerts; ignored while frozen."""
        if not self.frozen:
            book = self.session.book
            self.unalerted.refresh(conditions, book.alerts, book.version, self._wall())

    def wall(self) -> float:
        """Return the unix time to show: that of the freeze while frozen."""
        return self._frozen_wall if self.frozen else self._wall()

    def ago(self, at: float) -> str:
        """Return how long ago a time was (unix seconds), `84s ago`; over logs, relative to their end."""
        if self.folder is None:
            return ago_text(self.wall() - at)
        age = ago_text(self.wall() - at, " before the end")
        return age if not age.startswith("0s ") else "at the end"

    def frozen_for(self) -> float:
        """Return the seconds since the view was frozen; 0 if it is not."""
        return self._clock() - self._frozen_at if self.frozen else 0.0

    def outruns_freeze(self, probe: int) -> bool:
        """Return True if the view is frozen and the results of this probe (index) have changed since."""
        if not self.frozen:
            return False
        known = self._frozen_probes
        return probe >= len(known) or known[probe] != self.session.probes[probe].results.version

    def toggle_freeze(self) -> None:
        """Freeze the view, or return to the present."""
        if self.frozen:
            self._frozen = None
        else:
            _ = self.snapshot  # taken in for the last time
            self._frozen_at, self._frozen_wall = self._clock(), self._wall()
            self._frozen, self._frozen_placement = _still(self.session.fleet), self._placement.still()
            self._frozen_probes = tuple(probing.results.version for probing in self.session.probes)
        self.tick()

    def node(self, name: str) -> Node | None:
        """Return the node of this name; None if it is not shown."""
        return self.fleet.nodes.get(name)

    def gpu(self, name: str, uuid: str) -> Gpu | None:
        """Return a GPU by node name and UUID; None if it is not shown."""
        node = self.node(name)
        return None if node is None else node.gpus.get(uuid)
