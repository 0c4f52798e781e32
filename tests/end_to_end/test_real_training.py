"""Five ways in which a real training over gloo comes to grief, watched by one session on this machine.

The five jobs run at the same time, as on a cluster; every test waits for what a person would be told of one.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from gpuwatch.diagnose.alert import Alert
from gpuwatch.diagnose.flight import FlightVerdict, judge_flight
from gpuwatch.diagnose.incident import Incident
from gpuwatch.diagnose.stacks import JobStacks
from gpuwatch.hosts.plan import NodeSpec, Plan, Thresholds
from gpuwatch.runs.flight_files import gather_dumps
from gpuwatch.session import Session
from gpuwatch.session.inquiry import Inquiry
from tests.end_to_end.cluster import ROOT, watch
from tests.parts import SEEN_BY_EVERY_AGENT, need, need_torch

pytestmark = SEEN_BY_EVERY_AGENT

JOB = Path(__file__).with_name("training_job.py")
WHOM, OTHER, STEP_OF_GRIEF = 2, 1, 4
"""As in the job, which only a Python with torch can import."""
NODE, RANKS = "here", 4
STORIES = ("slow", "nan", "stall", "order", "deadlock")
LIMITS = Thresholds(hang_s=3.0, hold_s=4.0, clear_s=600.0)
PATIENCE_S = 120.0


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
            told = [f"{each.code} {each.rank}: {each.text}" for each in self.alerts(story)]
            raise AssertionError(f"{error}; of {story}: {told or 'nothing'}") from error
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
        """That the job hangs is told unasked, and that its ranks live."""
        alert = self.alert(story, "job.hang")
        assert "no line and no step from any rank for" in alert.proof[0].text
        assert any("all 4 ranks live" in each.text for each in alert.proof)
        incident = self.incident(story)
        assert incident.code == "job.hang"
        assert any("gpuwatch stacks" in each for each in incident.settle)
        return incident

    def asked(self, story: str) -> JobStacks:
        """As with D: all ranks, and again where a busy machine kept py-spy from answering for some."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            inquiry = Inquiry(self.session, ras=False, py_spy=shutil.which("py-spy", path=beside()))
            self.until(story, partial(answered, inquiry))
            hearing = inquiry.hearing(self.session.fleet)
            (job,) = (each for each in hearing.jobs if each.job == name_of(story))
            if (job.by == "python" and not job.unseen) or time.monotonic() > deadline:
                return job

    def dumps(self, story: str) -> FlightVerdict:
        """What the flight recorders of all ranks hold, judged."""
        folder = self.folders[story]
        (folder / "dump").touch()
        self.until(story, lambda: len(list(folder.glob("trace_rank_*"))) == RANKS)
        return judge_flight(gather_dumps(sorted(folder.glob("trace_rank_*"))).dumps)

    def end(self, story: str) -> None:
        """Nobody needs it any more."""
        kill(self.jobs[story])


def answered(inquiry: Inquiry) -> bool:
    """Whether all have answered, or will not."""
    inquiry.update()
    return inquiry.over


def beside() -> str:
    """Where programs of this environment lie, and the PATH."""
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    need_torch()
    folders = {story: tmp_path_factory.mktemp(story) for story in STORIES}
    plan = Plan((NodeSpec(NODE, link="local"),), thresholds=LIMITS, source="test")
    with ExitStack() as stack:
        session = stack.enter_context(Session(plan))
        watch(session, lambda fleet, now: fleet.nodes[NODE].state(now) == "live")
        jobs = {story: stack.enter_context(torchrun(story, folder)) for story, folder in folders.items()}
        yield Scene(session, folders, jobs)


@pytest.fixture(scope="module")
def py_spy() -> None:
    path = shutil.which("py-spy", path=beside()) or need("py-spy")
    probe = subprocess.run([path, "dump", "--pid", str(os.getpid())], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"py-spy cannot look into processes here: {probe.stderr.decode()[-200:]}")


def spread(scene: Scene, story: str) -> list[int | None]:
    """Ranks that have told some more steps after the first bad one, with a loss that is no number."""
    told = scene.session.fleet.progress.voices.values()
    voices = [voice for voice in told if voice.job == name_of(story)]
    late = [voice for voice in voices if (voice.value("step") or 0.0) >= STEP_OF_GRIEF + 8]
    return [voice.rank for voice in late if math.isnan(voice.value("loss") or 0.0)]


def test_the_rank_whose_loss_was_nan_first_is_named_with_its_step(scene: Scene) -> None:
    alert = scene.alert("nan", "num.nan_loss")
    assert (alert.rank, alert.node) == (WHOM, NODE)
    assert alert.text.startswith(f"the loss is nan since step {STEP_OF_GRIEF}")
    assert "none of them" not in alert.text
    (proof,) = alert.proof
    assert proof.file is not None
    assert proof.offset is not None
    line = Path(proof.file).read_text()[proof.offset :].partition("\n")[0]
    assert line.startswith(f"step {STEP_OF_GRIEF} loss nan")
    (scene.folders["nan"] / "seen").touch()
    scene.until("nan", lambda: len(spread(scene, "nan")) == RANKS)  # and the watch has looked again since
    incident = scene.incident("nan")
    assert (incident.code, incident.rank) == ("num.nan_loss", WHOM)
    assert f"rank {WHOM}" in incident.sentence
    scene.end("nan")


def test_the_slow_rank_is_named_by_what_it_computes(scene: Scene) -> None:
    alert = scene.alert("slow", "slower_than_peers")
    assert (alert.rank, alert.node, alert.severity) == (WHOM, NODE, "warning")
    assert "as much as the job's 3 other ranks" in alert.text
    assert "every step waits for it" in alert.text
    assert scene.alerts("slow", "job.hang") == []
    scene.end("slow")


@pytest.mark.usefixtures("py_spy")
def test_the_rank_in_its_data_loader_is_named(scene: Scene) -> None:
    assert scene.hang("stall").job == name_of("stall")
    told = scene.asked("stall")
    assert (told.testimony.culprits, told.testimony.confidence) == ((WHOM,), "high")
    assert "is in data_loader_next (training_job.py:" in told.testimony.sentence
    assert (
        "3 of 4 ranks are in all_reduce, called by synchronise (training_job.py:" in told.testimony.sentence
    )


@pytest.mark.usefixtures("py_spy")
def test_the_rank_in_another_collective_is_named(scene: Scene) -> None:
    assert scene.hang("order").job == name_of("order")
    told = scene.asked("order")
    assert told.testimony.culprits == (WHOM,)
    assert "is in broadcast, called by synchronise (training_job.py:" in told.testimony.sentence
    said = scene.dumps("order").testimony
    assert (said.culprits, said.confidence) == ((WHOM,), "high")
    expected = f"rank {WHOM} called broadcast at #{STEP_OF_GRIEF}, where 3 of 4 ranks called all_reduce"
    assert said.sentence.startswith(expected)


@pytest.mark.usefixtures("py_spy")
def test_the_two_ranks_that_wait_for_each_other_are_named(scene: Scene) -> None:
    assert scene.hang("deadlock").job == name_of("deadlock")
    told = scene.asked("deadlock")
    assert told.testimony.culprits == (OTHER, WHOM)
    expected = (
        "all 4 ranks wait for each other: ranks 1-2 are in recv, called by exchange_halves (training_job.py:"
    )
    assert told.testimony.sentence.startswith(expected)
    said = scene.dumps("deadlock").testimony
    assert said.culprits == (OTHER, WHOM)
    assert said.sentence.startswith(f"ranks 1-2 never came to all_reduce #{STEP_OF_GRIEF}")
