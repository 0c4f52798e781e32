"""The whole chain of a probe: conductor, carriers, launchers, workers, gloo ranks; nothing is simulated."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from gpuwatch.hosts.builtin import local_plan
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.options import LinkOptions
from gpuwatch.probe.orchestration.conductor import Conductor
from gpuwatch.probe.orchestration.opening import open_probe
from gpuwatch.probe.probe_request import COLLECTIVES, MIB, ProbeRequest
from gpuwatch.session import Session
from gpuwatch.session.session import ProbeRunsError
from tests.parts import need_torch
from tests.servers.sshd import Client, Sshd

pytestmark = pytest.mark.timeout(600)
WAIT_S = 240.0
ROOT = Path(__file__).parents[2]
SMALL = ProbeRequest(sizes=(MIB,), ranks_per_node=4, budget_s=60.0, gpu_checks=False, backend="gloo")


@pytest.fixture(autouse=True)
def _torch() -> None:
    need_torch()


def this_machine() -> Plan:
    """This machine, with the interpreter that runs the tests: it has torch."""
    plan = local_plan()
    return replace(plan, nodes=tuple(replace(node, python=sys.executable) for node in plan.nodes))


@contextmanager
def two_nodes(tmp_path: Path) -> Iterator[tuple[Plan, LinkOptions, Sshd]]:
    """Two nodes over ssh, each with an sshd of its own."""
    client = Client(tmp_path / "client")
    with (
        Sshd(tmp_path / "one", client=client, names=("gpu-001",)) as one,
        Sshd(tmp_path / "two", client=client, names=("gpu-002",)) as two,
    ):
        nodes = tuple(NodeSpec(name, python=sys.executable) for name in ("gpu-001", "gpu-002"))
        assert two.pid
        yield Plan(nodes), client.options(), one


def await_(condition: Callable[[], bool], conductor: Conductor) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, (conductor.results.phase, conductor.results.reason)
        time.sleep(0.05)


def confirm(conductor: Conductor) -> None:
    await_(lambda: conductor.results.phase == "asking" or conductor.results.over, conductor)
    assert conductor.results.phase == "asking", conductor.results.reason
    conductor.confirm()


def started_by(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def ranks(pid: int) -> list[psutil.Process]:
    """The processes that have nobody below them and threads of torch: what a worker has forked."""
    return [each for each in started_by(pid) if not each.children() and each.ppid() != pid]


def await_none(processes: list[psutil.Process]) -> None:
    _, left = psutil.wait_procs(processes, timeout=60)
    assert not [each.cmdline() for each in left if each.status() != psutil.STATUS_ZOMBIE]


def listening(processes: list[psutil.Process]) -> set[str]:
    """The addresses on which they listen."""
    found = set()
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            open_ = each.net_connections("inet")
            found |= {one.laddr.ip for one in open_ if one.status == psutil.CONN_LISTEN}
    return found


@pytest.mark.long
def test_four_ranks_on_this_machine() -> None:
    with contextlib.closing(Session(this_machine(), LinkOptions())) as session:  # not started: no agents
        before = started_by(os.getpid())
        conductor = session.probe(SMALL)
        assert session.probes == [conductor]
        confirm(conductor)
        results = conductor.results
        addresses: set[str] = set()
        seen: dict[int, psutil.Process] = {}

        def over() -> bool:
            mine = [each for each in started_by(os.getpid()) if each not in before]
            seen.update({each.pid: each for each in mine})
            addresses.update(listening(mine))
            return results.over

        await_(over, conductor)
        assert (results.phase, results.reason) == ("done", "")
        assert results.backend == "gloo"
        assert [row.op for row in results.collectives] == list(COLLECTIVES)
        assert all(row.correct and row.error is None for row in results.collectives)
        assert all((row.busbw_gb_per_s or 0) > 0 for row in results.collectives)
        assert set(results.pairs) == {(a, b) for a in range(4) for b in range(4) if a != b}
        assert all(each.ok and each.bandwidth_gb_per_s and each.latency_us for each in results.pairs.values())
        assert results.verdict is not None
        assert results.verdict.status in {"ok", "noisy", "bad"}  # loopback of a busy machine is what it is
        assert addresses == {"127.0.0.1"}
        assert len(seen) >= 6  # launcher, worker, four ranks
        assert conductor.keeps_ranks
        first = results.pairs[2, 0]
        conductor.retest([(2, 0)])
        await_(lambda: results.pairs[2, 0] is not first and results.over, conductor)
        assert results.pairs[2, 0].retested
        second = session.probe(SMALL)
        with pytest.raises(ProbeRunsError):
            session.probe(SMALL)
        await_(lambda: second.results.phase == "asking", second)
        assert not conductor.keeps_ranks  # they would be in the way of the second
        await_none(list(seen.values()))
        later = started_by(os.getpid())
    assert second.results.phase == "cancelled"
    await_none(later)


def test_two_nodes_over_ssh(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as (plan, options, sshd):
        conductor = open_probe(plan, options, None, replace(SMALL, ranks_per_node=2))
        conductor.start()
        confirm(conductor)
        await_(lambda: conductor.results.phase == "collectives", conductor)
        processes = started_by(sshd.pid)
        assert conductor.wait(WAIT_S)
        results = conductor.results
        assert (results.phase, results.reason) == ("done", "")
        assert [slot.node for slot in results.slots] == ["gpu-001", "gpu-001", "gpu-002", "gpu-002"]
        assert {row.op for row in results.collectives} == set(COLLECTIVES)
        assert all(row.nic_gb_per_s for row in results.collectives if row.op == "all_reduce")
        assert len(results.pairs) == 12
        assert {each.link for each in results.pairs.values()} == {"same_node", "same_rail", "cross_rail"}
        conductor.close()
        await_none(processes)


@pytest.mark.long
def test_cancelled_midway_nothing_is_left(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as (plan, options, sshd):
        conductor = open_probe(plan, options, None, replace(SMALL, ranks_per_node=2, sizes=(MIB, 4 * MIB)))
        conductor.start()
        confirm(conductor)
        await_(lambda: len(conductor.results.collectives) > 1, conductor)
        processes = started_by(sshd.pid)
        assert len(processes) >= 4
        conductor.cancel()
        assert conductor.wait(WAIT_S)
        assert conductor.results.phase == "cancelled"
        assert len(conductor.results.collectives) > 1
        await_none(processes)


def measuring(conductor: Conductor, sshd: Sshd) -> list[psutil.Process]:
    """Start a probe; return its processes on the nodes once it has measured something."""
    conductor.start()
    confirm(conductor)
    await_(lambda: len(conductor.results.collectives) > 0, conductor)
    return started_by(sshd.pid)


@pytest.mark.long
def test_a_killed_rank_is_named_and_ends_the_probe_everywhere(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as (plan, options, sshd):
        conductor = open_probe(plan, options, None, replace(SMALL, ranks_per_node=2, sizes=(64 * MIB,)))
        processes = measuring(conductor, sshd)
        ranks(sshd.pid)[0].kill()
        assert conductor.wait(WAIT_S)
        assert conductor.results.phase == "failed"
        assert "(gpu-001)" in conductor.results.reason
        assert "died" in conductor.results.reason
        assert conductor.results.collectives
        conductor.close()
        await_none(processes)


@pytest.mark.long
def test_a_rank_that_hangs_is_named(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as (plan, options, sshd):
        request = replace(SMALL, ranks_per_node=2, sizes=(MIB, 4 * MIB, 16 * MIB), timeout_s=4.0)
        conductor = open_probe(plan, options, None, request)
        processes = measuring(conductor, sshd)
        ranks(sshd.pid)[0].send_signal(signal.SIGSTOP)
        assert conductor.wait(WAIT_S)
        assert conductor.results.phase == "failed"
        assert "(gpu-001)" in conductor.results.reason
        assert "(gpu-002)" not in conductor.results.reason
        conductor.close()
        await_none(processes)


@pytest.mark.long
def test_a_lost_node_ends_the_probe_on_the_others(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as (plan, options, sshd):
        conductor = open_probe(plan, options, None, replace(SMALL, ranks_per_node=2, sizes=(64 * MIB,)))
        processes = measuring(conductor, sshd)
        sshd.stop()
        assert conductor.wait(WAIT_S)
        assert conductor.results.phase == "failed"
        assert conductor.results.reason.startswith("gpu-001 was lost")
        conductor.close()
        await_none(processes)


@pytest.mark.long
def test_a_killed_cockpit_leaves_nothing() -> None:
    program = """
import sys, tests.end_to_end.test_probe as it
conductor = it.open_probe(it.this_machine(), it.LinkOptions(), None, it.replace(it.SMALL, sizes=(64 << 20,)))
conductor.start()
it.confirm(conductor)
it.await_(lambda: conductor.results.phase == "collectives", conductor)
print("running", flush=True)
conductor.wait()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=ROOT) as cockpit:
        assert cockpit.stdout is not None
        assert cockpit.stdout.readline() == b"running\n"
        processes = started_by(cockpit.pid)
        assert len(processes) >= 6
        cockpit.kill()
    await_none(processes)


def test_a_node_without_python_is_refused_in_words(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as (plan, options, _):
        bare = Plan((replace(plan.nodes[0], python="/nowhere/python"),))
        conductor = open_probe(bare, options, None, SMALL)
        conductor.start()
        await_(lambda: conductor.results.over, conductor)
        assert conductor.results.phase == "refused"
        assert "gpu-001: /nowhere/python is missing" in conductor.results.reason
