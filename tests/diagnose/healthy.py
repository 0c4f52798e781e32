"""A week in which nothing is wrong, over 64 GPUs of two models: what fires in it is a false alarm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.hosts.plan import Thresholds
from tests.diagnose.finding import PACK
from tests.diagnose.simulated_jobs import A100, DAY_S, GPUS, H100, Cluster, Doing, Job, changed


@dataclass(frozen=True)
class Pause:
    """A while without steps."""

    doing: Doing
    shortest_s: float
    longest_s: float
    odd: tuple[int, Doing] | None = None
    """The rank that all others wait for, and what it does."""


WEEK_S = 7 * DAY_S
BEFORE_S, AFTER_S = 45.0, 75.0
"""So long it is watched before and after every event where time is skipped: longer than a verdict takes."""
EVENTS = (
    *("evaluation",) * 2, "evaluation_alone", *("checkpoint",) * 2, "checkpoint_alone", *("hiccup",) * 3,
    "epoch", "saving", "restart",
)  # fmt: skip
"""A deck of what happens to healthy jobs; every card comes before the deck is mixed anew."""
PAUSES = {
    "evaluation": Pause("reduce", 30, 400),
    "evaluation_alone": Pause("spin", 15, 240, (0, "work")),
    "checkpoint": Pause("host", 10, 280),
    "checkpoint_alone": Pause("spin", 15, 240, (0, "host")),
}
TRUE = frozenset(("idle_held",))
"""What is no false alarm: a replica that nobody asks is idle."""
Life: TypeAlias = Iterator[None]


class HealthyWeek:
    """Jobs that come, train with all their pauses, and go; every day has other jobs than the day before."""

    def __init__(self, seed: int, every_s: float, *, whole: bool) -> None:
        """Prepare it.

        Args:
            seed: Of all dice.
            every_s: From one event of a job to the next.
            whole: Look at every tick; else only around events, and skip what lies between.
        """
        self.cluster = Cluster(seed, (H100,) * 6 + (A100,) * 2)
        self.dice = self.cluster.dice
        self.book = AlertBook(PACK, Thresholds())
        self.every_s, self.whole = every_s, whole
        self.ticks, self.begun = 0, 0
        self._deck: list[str] = []
        self.happened: Counter[str] = Counter()

    def run(self, seconds: float = WEEK_S, first_day: int = 0) -> None:
        """Let so much of it pass, beginning with a day's jobs."""
        begin, day = self.cluster.now, -1
        while self.cluster.now - begin < seconds:
            until = self.cluster.now + self.every_s
            if int((self.cluster.now - begin) / DAY_S) != day:
                day = int((self.cluster.now - begin) / DAY_S)
                self._jobs_of(first_day + day)
            trains = [job for job in self.cluster.jobs if not job.serves]
            self._live([chain(self._for(BEFORE_S), self._event(job), self._for(AFTER_S)) for job in trains])
            if self.whole:
                self._live([self._for(until - self.cluster.now)])
            else:
                self.cluster.skip(max(0.0, until - self.cluster.now))

    @property
    def alarms(self) -> Counter[str]:
        """How often each code fired without a reason."""
        return Counter({code: count for code, count in self.reported.items() if code not in TRUE})

    @property
    def reported(self) -> Counter[str]:
        """How often each code fired."""
        found: Counter[str] = Counter()
        for alert in self.book.alerts.values():
            found[alert.code] += alert.count
        return found

    def _live(self, lives: list[Life]) -> None:
        """Advance the cluster tick by tick until all of these lives are over."""
        while lives:
            lives = [life for life in lives if next(life, "over") is None]
            self.cluster.tick()
            self.book.update(self.cluster.fleet, self.cluster.now, self.cluster.wall)
            self.ticks += 1

    def _for(self, seconds: float) -> Life:
        for _ in range(int(seconds / self.cluster.tick_s)):
            yield

    def _jobs_of(self, day: int) -> None:
        """Set the jobs of a day: one large, three and a server, or one beside busy and idle replicas."""
        places = self.cluster.places
        cut = GPUS * 4, GPUS * 6, GPUS * 7
        layouts = (
            [Job("large", places, "all", step_s=4.0)],
            [
                Job("a", places[: cut[0]], "one", step_s=2.2),
                Job("b", places[cut[0] : cut[1]], "sparse", step_s=1.3),
                Job("c", places[cut[1] : cut[2]], "none"),
                Job("server", places[cut[2] :], serves=True, doing="spin"),
            ],
            [
                Job("d", places[: cut[1]], "all", step_s=7.5),
                *(Job(f"replica-{n}", [place], serves=True) for n, place in enumerate(places[cut[1] :])),
            ],
        )
        self.cluster.jobs = [self._new(job) for job in layouts[day % len(layouts)]]
        for job in self.cluster.jobs:
            if job.name.startswith("replica"):
                job.doing = self.dice.choice(("idle", "reduce", "work"))

    def _new(self, job: Job) -> Job:
        self.begun += 1
        job.name = f"{job.name}-{self.begun}"
        return job

    def _event(self, job: Job) -> Life:
        """Let something happen to a job that happens to healthy ones, such as a late step or an epoch."""
        if not self._deck:
            self._deck = self.dice.sample(EVENTS, len(EVENTS))
        name = self._deck.pop()
        self.happened[name] += 1
        match name:
            case "hiccup":
                late_s, late_rank = self.dice.uniform(5, 25), self.dice.randrange(len(job.places))
                yield from self._late_step(job, late_s, "spin", (late_rank, "host"))
            case "epoch":
                yield from self._late_step(job, 30, "host")
            case "saving":
                uuid = job.places[0].uuid
                self.cluster.odd[uuid] = changed("fast", pcie_tx_bps=2e10)
                yield from self._for(self.dice.uniform(30, 120))
                del self.cluster.odd[uuid]
            case "restart":
                yield from self._restart(job)
            case _:
                pause = PAUSES[name]
                job.phase(pause.doing, steps=False, odd=pause.odd)
                yield from self._for(self.dice.uniform(pause.shortest_s, pause.longest_s))
        job.phase("work", steps=True)

    def _late_step(self, job: Job, late_s: float, doing: Doing, odd: tuple[int, Doing] | None = None) -> Life:
        """Let one step take `late_s` seconds longer."""
        job.slower, job.done = 1 + late_s / job.step_s, 0.0
        job.phase(doing, steps=True, odd=odd)
        yield from self._for(late_s)

    def _restart(self, job: Job) -> Life:
        """Restart a job: it saves, is gone, then loads, from a checkpoint or anew, and warms up."""
        job.phase("host", steps=False)
        yield from self._for(self.dice.uniform(30, 280))
        self.cluster.jobs.remove(job)
        yield from self._for(self.dice.uniform(20, 200))
        job.step = (
            max(0, job.step - 150) if self.dice.random() < 0.5 else 0
        )  # from the last checkpoint, or anew
        job.name = job.name.rpartition("-")[0]
        self.cluster.jobs.append(self._new(job))
        for doing in ("idle", "host"):
            job.phase(doing, steps=False)
            yield from self._for(self.dice.uniform(20, 150))
