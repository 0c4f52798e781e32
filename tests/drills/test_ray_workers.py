"""Workers of Ray: no environment tells their rank, and the driver's log has the lines of all."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.drills.jobs import end
from tests.drills.namespaces import Cluster
from tests.end_to_end.cluster import watch
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT

RAYLET = """
import os, subprocess, sys
folder, ranks, worker = sys.argv[1], sys.argv[2].split(","), sys.argv[3]
started = []
for rank in ranks:
    started.append(subprocess.Popen([sys.executable, "-c", worker, folder, rank]))
[each.wait() for each in started]
"""
WORKER = """
import os, sys, time
folder, rank = sys.argv[1:]
name = folder + "/worker-%056x-01000000-%d" % (int(rank) + 1, os.getpid())
for number, kind in ((1, ".out"), (2, ".err")):
    os.dup2(os.open(name + kind, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
with open("/proc/self/comm", "w") as title:
    title.write("ray::RayTrainWorker")
print("Setting up process group for: env:// [rank=%s, world_size=4]" % rank, file=sys.stderr, flush=True)
for step in range(1, 100000):
    print("step %d/100000 loss 2.5" % step, flush=True)
    time.sleep(0.2)
    if os.path.exists(folder + "/ctl" + rank):
        os._exit(1)
"""
"""As in Ray: it writes files of its own, named by its worker id, job id and pid."""
RAISED = (
    "Traceback (most recent call last):",
    '  File "/opt/train.py", line 9, in <module>',
    "KeyError: 'mask'",
)
NODES = {"n1": "1,0", "n2": "3,2"}
"""Ranks in the order in which they are started."""


def test_a_line_of_the_driver_is_of_the_worker_whose_pid_it_names(cluster: Cluster, tmp_path: Path) -> None:
    driver = tmp_path / "driver.out"
    driver.touch()
    with ExitStack() as stack:
        for node, numbers in NODES.items():
            (folder := tmp_path / node).mkdir()
            argv = [sys.executable, "-c", RAYLET, str(folder), numbers, WORKER]
            stack.callback(end, cluster[node].start(argv, output=subprocess.DEVNULL))
        session = stack.enter_context(cluster.session(logs=(str(driver),)))

        def ranks() -> dict[int | None, tuple[str, int, str | None]]:
            listed = [(name, one) for name, node in session.fleet.nodes.items() for one in node.processes]
            return {
                one.rank: (name, one.pid, one.job) for name, one in listed if one.name.startswith("ray::")
            }

        watch(session, lambda _fleet, _now: ranks().keys() == {0, 1, 2, 3})
        assert [ranks()[rank][0] for rank in range(4)] == ["n1", "n1", "n2", "n2"]
        assert {job for _, _, job in ranks().values()} == {"ray-01000000"}
        watch(session, lambda _f, _n: sum(e.job == "ray-01000000" for e in session.book.places.ranks) == 4)
        prefix = f"(RayTrainWorker pid={ranks()[3][1]}, ip=n2) "
        with driver.open("a") as log:
            log.writelines(f"{prefix}{line}\n" for line in RAISED)
        (tmp_path / "n2" / "ctl3").touch()

        def named() -> list[tuple[str | None, int | None]]:
            return [(each.node, each.rank) for each in session.book.incidents if each.job == "ray-01000000"]

        watch(session, lambda _fleet, _now: named() == [("n2", 3)])
