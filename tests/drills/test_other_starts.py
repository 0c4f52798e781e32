"""Jobs that no launcher numbers, that are over, or that leave records and full disks behind."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuwatch.diagnose.health import peer_comparison
from gpuwatch.link.start.log_settings import VARIABLE
from gpuwatch.report.scan.report import judged
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan
from gpuwatch.session import Session
from tests.agent.trees import wait_until
from tests.drills.jobs import StartJob, end
from tests.drills.namespaces import Cluster, nodes
from tests.end_to_end.cluster import fake_driver, watch
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT

SPAWNS = """
import multiprocessing, os, sys, threading, time
def train(index, folder):
    threading.current_thread().name = "gloo"
    with open("/proc/self/task/%d/comm" % threading.get_native_id(), "w") as name:
        name.write("pt_gloo_runloop")
    log = open(folder + "/worker_%d.log" % index, "a", buffering=1)
    for step in range(1, 100000):
        print("step %d/100000 loss 2.5" % step, file=log)
        time.sleep(0.2)
if __name__ == "__main__":
    several = multiprocessing.get_context("spawn")
    ranks = [several.Process(target=train, args=(index, sys.argv[1])) for index in range(3)]
    [each.start() for each in ranks]
    [each.join() for each in ranks]
"""
"""As mp.spawn: the parent's children number themselves."""
ENDED = """
from datetime import datetime
for step in range(1, 41):
    print(f"{datetime.now():%Y-%m-%d %H:%M:%S} step {step}/1000 loss {3 - step / 1000:.4f}")
raise RuntimeError("CUDA error: an illegal memory access was encountered")
"""
FILLS = """do
with open("/mnt/full/part.bin", "wb") as out:
    while True:
        out.write(bytes(65536))"""


def test_ranks_that_a_program_spawns_and_numbers_itself_are_named(
    cluster: Cluster, session: Session, tmp_path: Path
) -> None:
    """By the number in their logs' names."""
    (tmp_path / "spawns.py").write_text(SPAWNS)
    node = cluster["n1"]
    with (tmp_path / "out").open("wb") as words:
        parent = node.start([sys.executable, str(tmp_path / "spawns.py"), str(tmp_path)], output=words)
    try:

        def ranks() -> dict[int | None, int]:
            here = session.fleet.nodes["n1"].processes
            return {each.rank: each.pid for each in here if str(tmp_path) in " ".join(each.logs)}

        watch(session, lambda _fleet, _now: ranks().keys() == {0, 1, 2})
        node.signal(ranks()[1])

        def named() -> list[int | None]:
            found = [each for each in session.book.incidents if (each.job or "").startswith("unnamed")]
            return [each.rank for each in found]

        watch(session, lambda _fleet, _now: named() == [1])
    finally:
        end(parent)


def test_a_container_s_record_beside_the_logs_gives_the_cause(start_job: StartJob, tmp_path: Path) -> None:
    """Neither the rank nor a launcher can say why it was killed."""
    folder = tmp_path / "job"
    with start_job("recorded", "--stay") as run:
        run.until(lambda: run.steps(0) and run.steps(1))
        run.signal(1)
        run.until(lambda: [each.rank for each in run.incidents()] == [1])
    ended = time.time()
    state = {"Status": "exited", "OOMKilled": True, "ExitCode": 137}
    state["FinishedAt"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ended))
    config = {"Hostname": "n1", "Env": ["RANK=1", "WORLD_SIZE=2"]}
    record = {"Id": "0a1b2c3d4e5f", "State": state, "Config": config}
    (folder / "inspect.json").write_text(json.dumps([record], indent=4))
    packs = load_packs()
    found = judged(scan(gather([folder]), packs.rules), packs, time.time(), 0.1).incidents
    assert [(each.code.startswith("oom."), each.rank) for each in found] == [(True, 1)]


def test_a_job_that_ended_before_is_found_in_the_folder_of_a_shell(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "on")
    node, run = cluster["n1"], tmp_path / "projects" / "night"
    run.mkdir(parents=True)
    for rank, fails in ((0, False), (1, True)):
        with (run / f"rank{rank}.log").open("wb") as log:
            code = ENDED if fails else ENDED.rpartition("raise")[0]
            node.start([sys.executable, "-c", code], folder=run, output=log).wait()
    shell = node.start(["sh", "-c", "sleep 3600; true"], folder=run)
    try:
        with cluster.session(("n1",)) as session:

            def named() -> list[tuple[str, int | None]]:
                return [(e.code, e.rank) for e in session.book.incidents if "night" in (e.job or "")]

            def ranks() -> list[tuple[int, ...]]:
                return [job.ranks for job in session.book.ended_jobs if "night" in job.name]

            watch(session, lambda _fleet, _now: named() == [("cuda.illegal_access", 1)], seconds=90.0)
            watch(session, lambda _fleet, _now: ranks() == [(0, 1)])
    finally:
        end(shell)


def test_a_full_disk_is_named_by_its_mount(start_job: StartJob, cluster: Cluster) -> None:
    node = cluster["n2"]
    script = "mkdir -p /mnt/full && mount -t tmpfs -o size=256k none /mnt/full"
    subprocess.run([*node.entry, "sh", "-c", script], check=True)
    with start_job("fills", nodes=("n1", "n2")) as run:
        run.until(lambda: run.steps(2))
        run.order(2, FILLS)
        run.until(lambda: [(code, rank) for code, _, rank in run.named()] == [("storage.full", 2)])
        run.until(lambda: "/mnt/full" in run.incidents()[0].headline)


def test_one_rank_beside_idle_gpus_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may use only one of the four. Later all work, and one of them for less than half of the time."""
    monkeypatch.setattr(peer_comparison, "USED_S", 3)
    driver = fake_driver(tmp_path)
    found = {key: value for key, value in driver.env().items() if key.startswith(("FAKE_", "LD_LIBRARY"))}
    out = tmp_path / "pid"
    with nodes(tmp_path / "nodes", ("g1",), found) as cluster:
        variables = {"RANK": "0", "WORLD_SIZE": "1", "CUDA_VISIBLE_DEVICES": "0"}
        code = "import os, time; print(os.getpid(), flush=True); os.close(1); os.close(2); time.sleep(3600)"
        with out.open("wb") as words:
            rank = cluster["g1"].start([sys.executable, "-c", code], variables, output=words)
        try:
            assert wait_until(lambda: out.read_text().endswith("\n"), time.sleep)
            busy = [f"set {gpu} utilization {95 if gpu == 0 else 0}" for gpu in range(4)]
            driver.set("gpus 4", *busy, f"process 0 {out.read_text().strip()} 40000000000 compute 50")
            with cluster.session() as session:
                watch(session, lambda _f, _n: "lone_gpu" in [e.code for e in session.book.alerts.values()])
                driver.set(*(f"set {gpu} utilization {45 if gpu == 3 else 95}" for gpu in range(4)))
                seldom = ("less_used_than_peers", 3)
                watch(
                    session,
                    lambda _f, _n: seldom in [(e.code, e.gpu) for e in session.book.alerts.values()],
                )
        finally:
            end(rank)


SHELL_RANK = """
import argparse, os, time
from pathlib import Path
parser = argparse.ArgumentParser()
parser.add_argument("--rank", type=int)
parser.add_argument("--world-size", type=int)
parser.add_argument("--dist-url")
rank = parser.parse_args().rank
Path("/proc/self/comm").write_text("python")
Path(f"/proc/self/task/{os.getpid()}/comm").write_text("python")
import threading
def loop():
    Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("pt_gloo_runloop")
    time.sleep(3600)
threading.Thread(target=loop, daemon=True).start()
for step in range(1, 100000):
    print("step %d/100000 loss 2.5" % step, flush=True)
    time.sleep(0.2)
"""


@pytest.mark.parametrize("per_node", [2, 1])
def test_ranks_from_shells_on_two_nodes_are_of_one_job(
    cluster: Cluster, session: Session, tmp_path: Path, per_node: int
) -> None:
    """No launcher, no environment: their arguments tell the rank, the size and where they meet."""
    script, size = tmp_path / "train.py", 2 * per_node
    script.write_text(SHELL_RANK)
    url = f"tcp://10.0.0.7:{23450 + per_node}"
    started = []
    try:
        for rank in range(size):
            argv = ["--rank", str(rank), "--world-size", str(size), "--dist-url", url]
            node = cluster[("n1", "n2")[rank // per_node]]
            with (tmp_path / f"out{rank}.log").open("wb") as log:
                started.append(node.start([sys.executable, str(script), *argv], output=log))

        def ranks() -> dict[int | None, tuple[str, str | None]]:
            return {
                each.rank: (name, each.job)
                for name, node in session.fleet.nodes.items()
                for each in node.processes
                if any(path.startswith(str(tmp_path)) for path in each.logs)
            }

        watch(session, lambda _fleet, _now: ranks().keys() == set(range(size)))
        watch(session, lambda _fleet, _now: len({job for _, job in ranks().values()}) == 1)
        ((name, job),) = {place for rank, place in ranks().items() if rank == size - 1}
        pid = next(e.pid for e in session.fleet.nodes[name].processes if (e.job, e.rank) == (job, size - 1))
        watch(session, lambda _f, _n: sum(e.job == job for e in session.book.places.ranks) == size)
        cluster[name].signal(pid)
        named = [("rank.killed", "n2", size - 1)]
        watch(
            session,
            lambda _fleet, _now: (
                [(each.code, each.node, each.rank) for each in session.book.incidents if each.job == job]
                == named
            ),
        )
    finally:
        for process in started:
            end(process)
