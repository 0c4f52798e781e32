"""Real trainings over gloo that come to grief, watched by one session on this machine.

The jobs run at the same time, as on a cluster; every test waits for what a person would learn of one.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from gpuwatch.diagnose.hang.flight_recorder.verdict import FlightAnalysis, judge_flight
from gpuwatch.diagnose.hang.stacks.groups import JobStacks
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.hosts.plan import NodeSpec, Plan, Thresholds
from gpuwatch.runs.flight.dump_files import gather_dumps
from gpuwatch.session import Session
from gpuwatch.session.hang.hang_query import HangQuery, HangSources
from tests.end_to_end.cluster import ROOT, watch
from tests.parts import need, need_torch

JOB = Path(__file__).with_name("training_job.py")
WHOM, OTHER, STEP_OF_GRIEF = 2, 1, 4
"""As in the job, which only a Python with torch can import."""
NODE, RANKS = "here", 4
LIMITS = Thresholds(hang_s=3.0, hold_s=4.0, clear_s=600.0)
PATIENCE_S = 240.0


@contextmanager
def torchrun(story: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A job of four ranks, each with a log of its own."""
    argv = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    argv += ["--log-dir", str(folder / "logs"), "-r", "3", "--rdzv-backend", "c10d"]
    argv += ["--rdzv-endpoint", "localhost:0", "--rdzv-id", name_of(story), str(JOB), story, str(folder)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    with (folder / "launcher.log").open("wb") as words:
        process = subprocess.Popen(argv, stdout=words, stderr=words, env=env, start_new_session=True)
        try:
            yield process
        finally:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a launcher; it ends its ranks before it leaves."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    process.wait()


def name_of(story: str) -> str:
    """Of its job: others run on this machine, this very test maybe too."""
    return f"{story}-{os.getpid()}"


@dataclass
class Scene:
    """The session, and what the jobs leave."""

    session: Session
    folders: dict[str, Path]
    jobs: dict[str, subprocess.Popen[bytes]]

    def until(self, story: str, true: Callable[[], bool]) -> None:
        """Poll until it is; else tell what the job and the session say."""
        try:
            watch(self.session, lambda _fleet, _now: true() or self.ended(story), seconds=PATIENCE_S)
        except AssertionError as error:
            reported = [f"{each.code} {each.rank}: {each.text}" for each in self.alerts(story)]
            raise AssertionError(f"{error}; of {story}: {reported or 'nothing'}") from error
        assert not self.ended(story), (self.folders[story] / "launcher.log").read_text()

    def ended(self, story: str) -> bool:
        return self.jobs[story].poll() is not None

    def alerts(self, story: str, code: str | None = None) -> list[Alert]:
        """That fire, of this job."""
        found = [each for each in self.session.book.alerts.values() if each.job == name_of(story)]
        return [each for each in found if each.state == "firing" and code in (None, each.code)]

    def alert(self, story: str, code: str) -> Alert:
        self.until(story, lambda: bool(self.alerts(story, code)))
        (alert,) = self.alerts(story, code)
        return alert

    def incident(self, story: str) -> Incident:
        (incident,) = (each for each in self.session.book.incidents if each.job == name_of(story))
        return incident

    def hang(self, story: str) -> Incident:
        """The hang of the job is reported without a request, and that its ranks live."""
        alert = self.alert(story, "job.hang")
        assert any("4 ranks live" in each.text for each in alert.proof)
        self.until(story, lambda: self.says_how_to_settle(story))  # or has asked by itself
        incident = self.incident(story)
        assert incident.code == "job.hang"
        return incident

    def says_how_to_settle(self, story: str) -> bool:
        incident = self.incident(story)
        return incident.hang_check is not None or any("gpuwatch stacks" in each for each in incident.settle)

    def asked(self, story: str) -> JobStacks:
        """As with D: all ranks, and again where a busy machine kept py-spy from answering for some."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            query = HangQuery(
                self.session, sources=HangSources(shutil.which("py-spy", path=beside()), ras=False)
            )
            self.until(story, partial(answered, query))
            hang_report = query.hang_report(self.session.fleet)
            (job,) = (each for each in hang_report.jobs if each.job == name_of(story))
            if (job.by == "python" and not job.unseen) or time.monotonic() > deadline:
                return job

    def dumps(self, story: str) -> FlightAnalysis:
        """What the flight recorders of all ranks hold, judged."""
        folder = self.folders[story]
        (folder / "dump").touch()
        self.until(story, lambda: len(list(folder.glob("trace_rank_*"))) == RANKS)
        return judge_flight(gather_dumps(sorted(folder.glob("trace_rank_*"))).dumps)

    def end(self, story: str) -> None:
        """Nobody needs it any more."""
        kill(self.jobs[story])


def answered(query: HangQuery) -> bool:
    """Whether all have answered, or will not."""
    query.update()
    return query.over


def beside() -> str:
    """Where programs of this environment lie, and the PATH."""
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))


@contextmanager
def trainings(stories: Sequence[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A job for each story, all started together, and the session that watches them."""
    need_torch()
    folders = {story: tmp_path_factory.mktemp(story) for story in stories}
    plan = Plan((NodeSpec(NODE, link="local"),), thresholds=LIMITS, source="test")
    with ExitStack() as stack:
        session = stack.enter_context(Session(plan))
        watch(session, lambda fleet, now: fleet.nodes[NODE].state(now) == "live")
        jobs = {story: stack.enter_context(torchrun(story, folder)) for story, folder in folders.items()}
        yield Scene(session, folders, jobs)


def need_py_spy() -> None:
    """Skip or fail this test where py-spy is missing or may not look into processes."""
    path = shutil.which("py-spy", path=beside()) or need("py-spy")
    probe = subprocess.run([path, "dump", "--pid", str(os.getpid())], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"py-spy cannot look into processes here: {probe.stderr.decode()[-200:]}")
