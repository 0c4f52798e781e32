"""Faults of links and clocks while a job trains well: only lost nodes are reported, and none for long."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from gpuwatch import wire
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.link.stream.inbox import ClockReading, Content, LinkStatus
from tests.diagnose.finding import PACK
from tests.diagnose.simulated_jobs import GPUS, H100, Cluster, Job

NODES, TICK_S = 4, 2.0
HOUR_S = 3600.0
PING_S = 4.0
"""Until a ping has compared the clocks again; 5 s in the product."""
BACK_S = 10.0
"""Until the links of woken machines are live again."""
TRUE = frozenset(("node_lost", "clock_off"))
"""What is no false alarm: a lost node, and clocks that differ by an hour."""
LISTED_EVERY = 2
"""Ticks between two lists of log files."""


class Scene(Cluster):
    """Four nodes and one job of 32 ranks, whose log files are listed, too; its links and clocks can fail."""

    def __init__(self) -> None:
        self.cut: set[int] = set()
        """Nodes of which nothing arrives."""
        self.ours_ahead_s = self.theirs_ahead_s = 0.0
        """By how much the clocks of this machine and of the nodes were set forward."""
        super().__init__(models=(H100,) * NODES, tick_s=TICK_S)
        self.jobs = [Job("train", self.places, "one")]
        self.book = AlertBook(PACK, Thresholds())
        self.reported: set[str] = set()
        """The codes of all alerts that ever fired."""

    @property
    def wall(self) -> float:
        """The nodes' clock, by which frames are dated."""
        return super().wall + self.theirs_ahead_s

    def report(self, node: int, what: Content) -> None:
        if node not in self.cut or isinstance(what, LinkStatus):
            super().report(node, what)

    def compare_clocks(self) -> None:
        """The answers to the pings that are due arrive."""
        for node in range(self.nodes):
            self.report(node, ClockReading(self.theirs_ahead_s - self.ours_ahead_s, 0.01))

    def live(self, seconds: float) -> None:
        """So much time passes, and is judged."""
        for turn in range(int(seconds / TICK_S)):
            self.tick()
            for node in range(self.nodes) if turn % LISTED_EVERY == 0 else ():
                ranks = range(node * GPUS, (node + 1) * GPUS)
                files = [
                    wire.LogFile(f"/logs/{rank}.log", grown_at=self.wall, pids=[1000 + rank], ranks=[rank])
                    for rank in ranks
                ]
                self.report(node, wire.Logs(t=self.wall, seq=4, files=files, complete=True))
            self.book.update(self.fleet, self.now, super().wall + self.ours_ahead_s)
            self.reported |= {each.code for each in self.book.alerts.values() if each.state == "firing"}

    def lose(self, nodes: range) -> None:
        """Their links break at once."""
        self.cut |= set(nodes)
        for node in nodes:
            self.report(node, LinkStatus("lost", "the connection broke", retry_at=self.now + 1.0))

    def bring_back(self) -> None:
        """All links are live again, with agents that start anew."""
        back, self.cut = sorted(self.cut), set()
        for node in back:
            self._greet(node)
        self.compare_clocks()


Fault: TypeAlias = Callable[[Scene], None]


def own_clock_forward(scene: Scene) -> None:
    """This machine's clock is set forward by an hour; the connections do not notice."""
    scene.ours_ahead_s += HOUR_S
    scene.live(PING_S)
    scene.compare_clocks()


def own_clock_back(scene: Scene) -> None:
    """This machine's clock is set back by an hour."""
    scene.ours_ahead_s -= HOUR_S
    scene.live(PING_S)
    scene.compare_clocks()


def clocks_of_nodes_forward(scene: Scene) -> None:
    """The nodes' clocks are set forward by an hour."""
    scene.theirs_ahead_s += HOUR_S
    scene.live(PING_S)
    scene.compare_clocks()


def clocks_of_nodes_back(scene: Scene) -> None:
    """The nodes' clocks are set back by an hour."""
    scene.theirs_ahead_s -= HOUR_S
    scene.live(PING_S)
    scene.compare_clocks()


def asleep(scene: Scene) -> None:
    """The machine sleeps for an hour, in which its monotonic clock stands; every socket is dead then."""
    before = scene.now
    scene.skip(HOUR_S)
    scene.now = before
    scene.ours_ahead_s += HOUR_S
    scene.theirs_ahead_s += HOUR_S
    scene.cut = set(range(scene.nodes))
    scene.live(PING_S)
    scene.lose(range(scene.nodes))
    scene.live(BACK_S)
    scene.bring_back()


def stopped(scene: Scene) -> None:
    """The cockpit is stopped for an hour (SIGSTOP), in which every agent missed its pings and ended."""
    scene.skip(HOUR_S)
    scene.lose(range(scene.nodes))
    scene.live(BACK_S)
    scene.bring_back()


def half_lost(scene: Scene) -> None:
    """Half of the nodes are lost at once for a minute, in which the job goes on."""
    scene.lose(range(scene.nodes // 2))
    scene.live(60.0)
    scene.bring_back()


FAULTS: tuple[Fault, ...] = (
    asleep, half_lost, stopped,
    own_clock_forward, own_clock_back, clocks_of_nodes_forward, clocks_of_nodes_back,
)  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_of_links_or_clocks_is_no_incident_of_the_job(fault: Fault) -> None:
    scene = Scene()
    scene.live(60.0)
    assert scene.reported == set()
    fault(scene)
    scene.live(90.0)
    assert scene.reported <= TRUE
    firing = {each.code for each in scene.book.alerts.values() if each.state == "firing"}
    assert firing <= TRUE - {"node_lost"}
    assert all(node.state(scene.now) == "live" for node in scene.fleet.nodes.values())
