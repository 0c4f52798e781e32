"""A job that hangs seconds after the session began, on GPUs that tell neither tensor work nor a history."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gpuwatch.diagnose.hang import hang_threshold
from gpuwatch.hosts.plan import NodeSpec, Plan, Thresholds
from gpuwatch.session import Session
from gpuwatch.session.hang import hang_queries
from tests.end_to_end.cluster import fake_driver, watch
from tests.end_to_end.hang.hanging import py_spy
from tests.fake_nvml.build import FakeNvml
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = [*SEEN_BY_EVERY_AGENT, pytest.mark.long]

RANKS, NODE = 4, "here"
STEPS = """
import pathlib, sys, time
def read_shard():
    time.sleep(600)
def wait_for_the_others():
    time.sleep(600)
stop = pathlib.Path(sys.argv[1])
step = 0
while not stop.exists():
    step += 1
    print(f"step {step} loss 2.0", flush=True)
    time.sleep(0.3)
read_shard() if sys.argv[2] == "2" else wait_for_the_others()
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = fake_driver(tmp_path)
    for name, value in fake.env().items():
        monkeypatch.setenv(name, value)
    return fake


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[list[int]]:
    """Four processes that step until the file `stop` is there."""
    with ExitStack() as stack:
        started = []
        for rank in range(RANKS):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS)}
            env["TORCHELASTIC_RUN_ID"] = f"gpu-hang-{os.getpid()}"
            log = stack.enter_context((tmp_path / f"rank{rank}.log").open("wb"))
            child = subprocess.Popen(
                [sys.executable, "-c", STEPS, str(tmp_path / "stop"), str(rank)], env=env, stdout=log
            )
            stack.callback(child.wait)
            stack.callback(child.kill)
            started.append(child.pid)
        yield started


@pytest.mark.parametrize("idle", [None, 2], ids=["all spin", "one idle"])
def test_a_hang_within_the_first_minute_is_reported(
    driver: FakeNvml, ranks: list[int], tmp_path: Path, idle: int | None
) -> None:
    held = [f"process {gpu} {pid} 40000000000 compute 50" for gpu, pid in enumerate(ranks)]
    busy = [f"set {gpu} utilization {0 if gpu == idle else 100}" for gpu in range(RANKS)]
    driver.set("gpus 4", "no_gpm 1", "set * power_mw 120000", *busy, *held)
    job = f"gpu-hang-{os.getpid()}"
    plan = Plan((NodeSpec(NODE, link="local"),), thresholds=Thresholds(hang_s=3.0), source="test")
    with Session(plan) as session:
        writers = session.fleet.progress.writers
        watch(session, lambda _fleet, _now: sum(v.job == job for v in writers.values()) == RANKS)
        (tmp_path / "stop").touch()

        def reported(_fleet: object, _now: float) -> bool:
            return any(each.job == job and each.code == "job.hang" for each in session.book.incidents)

        watch(session, reported)
        (incident,) = (each for each in session.book.incidents if each.job == job)
        assert incident.rank in {idle, 2}
        watch(session, lambda _fleet, _now: any(i.hang_check for i in session.book.incidents if i.job == job))


@pytest.mark.usefixtures("ranks")
def test_ranks_without_gpus_that_stand_at_the_same_lines_twice_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the load of the machine: silence alone would have to last for many windows."""
    py_spy()
    monkeypatch.setattr(hang_threshold, "PAUSE_WINDOWS", 1000.0)
    monkeypatch.setattr(hang_queries, "AGAIN_S", 1.0)
    job = f"gpu-hang-{os.getpid()}"
    plan = Plan((NodeSpec(NODE, link="local"),), thresholds=Thresholds(hang_s=3.0), source="test")
    with Session(plan) as session:
        writers = session.fleet.progress.writers
        watch(session, lambda _fleet, _now: sum(v.job == job for v in writers.values()) == RANKS)
        (tmp_path / "stop").touch()
        watch(session, lambda _fleet, _now: any(each.job == job for each in session.book.incidents))
        (incident,) = (each for each in session.book.incidents if each.job == job)
        assert (incident.code, incident.rank, incident.confidence) == ("job.hang", 2, "medium")
        assert "read_shard" in incident.headline
