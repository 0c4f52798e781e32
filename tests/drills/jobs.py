"""Jobs on the nodes of a cluster: `stub_launcher` on each, one run id, and what the session knows of them."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.session import Session
from tests.drills.namespaces import Cluster
from tests.end_to_end.cluster import watch
from tests.end_to_end.launched import LAUNCHER

_numbers = itertools.count()
PER_NODE = 2
TAGGED = ("--inherit", "--tag")
"""The ranks print into the launcher's log, and each line names its rank."""


@dataclass
class Job:
    """A job with `PER_NODE` ranks on each of its nodes."""

    name: str
    folder: Path
    nodes: tuple[str, ...]
    launchers: tuple[subprocess.Popen[bytes], ...]
    cluster: Cluster
    session: Session

    def pids(self) -> dict[int, tuple[str, int]]:
        """Rank -> node and pid of those that are listed now."""
        listed = [(node.name, p) for node in self.session.fleet.nodes.values() for p in node.processes]
        return {p.rank: (name, p.pid) for name, p in listed if p.rank is not None and p.job == self.name}

    def incidents(self) -> list[Incident]:
        return [each for each in self.session.book.incidents if each.job == self.name]

    def named(self) -> list[tuple[str, str | None, int | None]]:
        """Class, node and rank of each incident."""
        return [(each.code, each.node, each.rank) for each in self.incidents()]

    def alerts(self) -> list[Alert]:
        return [each for each in self.session.book.alerts.values() if each.job == self.name]

    def logged(self, rank: int) -> int:
        """How many steps of a rank are known."""
        writers = self.session.fleet.progress.writers.values()
        return sum(len(each.steps) for each in writers if (each.job, each.rank) == (self.name, rank))

    def steps(self, rank: int) -> bool:
        """Whether several reports have brought steps of a rank."""
        return self.logged(rank) > 4

    def until(self, true: Callable[[], object], seconds: float = 240.0) -> None:
        """Poll until it is true; else tell what was found instead."""
        try:
            watch(self.session, lambda _fleet, _now: bool(true()), seconds=seconds)
        except AssertionError as error:
            everything = [(e.job, e.code, e.node, e.rank, e.headline) for e in self.session.book.incidents]
            known = [e for e in self.session.book.alerts.values() if e.job in (None, self.name)]
            codes = [(each.code, each.rank, each.rank_from, each.state, each.text) for each in known]
            raise AssertionError(f"{error}; {self.pids()} {everything} {codes}") from error

    def writers(self, node: str) -> list[int]:
        """The ranks that are known to write into the file of a node's launcher."""
        path = str(self.folder / f"launcher-{node}.out")
        return [
            rank for file in self.session.fleet.nodes[node].logs if file.path == path for rank in file.ranks
        ]

    def order(self, rank: int, word: str) -> None:
        """What a rank does next; see `stub_launcher`."""
        new = self.folder / f"order{rank}"
        new.write_text(word)
        new.rename(self.folder / "ctl" / f"rank{rank}")

    def signal(self, rank: int, number: int = signal.SIGKILL) -> None:
        node, pid = self.pids()[rank]
        self.cluster[node].signal(pid, number)


StartJob = Callable[..., AbstractContextManager[Job]]
"""`job` without its first three parameters: the fixture `start_job`."""


@contextmanager
def job(
    cluster: Cluster,
    session: Session,
    folder: Path,
    name: str,
    *options: str,
    nodes: Sequence[str] = ("n1",),
    quiet: bool = False,
) -> Iterator[Job]:
    """A job whose ranks are listed; each node's launcher writes FOLDER/launcher-NODE.out, or nothing."""
    (folder / "ctl").mkdir(parents=True)
    run, world = f"{name}-{os.getpid()}-{next(_numbers)}", str(PER_NODE * len(nodes))
    with ExitStack() as stack:
        launchers = []
        for index, node in enumerate(nodes):
            numbers = ("--nproc", str(PER_NODE), "--first", str(PER_NODE * index), "--world", world)
            argv = [sys.executable, str(LAUNCHER), str(folder), "--run-id", run, *numbers, *options]
            with Path(os.devnull if quiet else folder / f"launcher-{node}.out").open("ab") as words:
                launcher = cluster[node].start(argv, folder=folder, output=words)
            stack.callback(end, launcher)
            launchers.append(launcher)
        started = Job(run, folder, tuple(nodes), tuple(launchers), cluster, session)
        started.until(lambda: sum(e.job == run for e in session.book.places.ranks) == PER_NODE * len(nodes))
        yield started


def end(launcher: subprocess.Popen[bytes]) -> None:
    """Kill what a command has started, with it."""
    with suppress(ProcessLookupError):
        os.killpg(launcher.pid, signal.SIGKILL)
    launcher.wait()
