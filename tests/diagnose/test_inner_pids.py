"""Lines of a container name its processes by the pids of its own namespace."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from gpuwatch import wire
from gpuwatch.agent.processes.process_details import inner_pid
from gpuwatch.agent.processes.process_reader import ProcessReader
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.hosts.plan import Thresholds
from tests.diagnose.finding import PACK
from tests.fleet.jobs.two_jobs import WALL, Several, rank
from tests.parts import need

WORLD = 97
"""No other job of this machine has so many ranks."""


def test_a_line_in_a_container_names_the_pid_of_its_own_namespace() -> None:
    reported = Several()
    ranks = [rank(each, 5300 + each, inner_pid=12 + each, logs=["/runs/all.log"]) for each in range(4)]
    reported.run("n1", *ranks, rank(0, 14, world=1))  # pid 14 of the node is another process
    reported.list_files("n1", wire.LogFile("/runs/all.log", pids=[5300, 5301, 5302, 5303]))
    reported.find("n1", "/runs/all.log", pid=14)
    reported.find("n1", "kernel log", "oom.host.kernel", pid=14)
    book = AlertBook(PACK, Thresholds())
    for second in (10.0, 20.0):
        book.update(reported.fleet, second, WALL + second)
    found = {alert.code: alert.rank for alert in book.alerts.values()}
    assert found["oom.cuda"] == 2
    assert found["oom.host.kernel"] != 2


@pytest.mark.parametrize(
    ("status", "expected"),
    [("Uid:\t0\nNSpid:\t5302\t14\n", 14), ("NSpid:\t5302\t77\t3\n", 3), ("NSpid:\t5302\n", None), ("", None)],
)
def test_the_innermost_namespace_counts(status: str, expected: int | None) -> None:
    assert inner_pid(status) == expected


@pytest.mark.usefixtures("only_job")
@pytest.mark.timeout(600)
def test_a_rank_in_a_pid_namespace_is_listed_with_both_pids() -> None:
    program = [sys.executable, "-c", "import time; time.sleep(600)"]
    env = {**os.environ, "RANK": "1", "WORLD_SIZE": str(WORLD)}
    argv = [need("unshare"), "--pid", "--fork", "--kill-child", *program]
    with subprocess.Popen(argv, env=env, stderr=subprocess.PIPE) as outer:
        try:
            found: list[object] = []
            deadline = time.monotonic() + 60
            while not found and outer.poll() is None and time.monotonic() < deadline:
                rows, _ = ProcessReader().read({})
                mine = [row for row in rows if row.get("world_size") == WORLD]
                found = [row["inner_pid"] for row in mine if "inner_pid" in row]
        finally:
            outer.kill()
        if outer.returncode not in (None, -9):
            pytest.skip("this user may make no pid namespace")
    assert found == [1]
