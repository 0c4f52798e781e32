"""The checklist: what one look at a fleet may say, and what it may not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from gpuwatch import wire
from gpuwatch.clock import SessionClock
from gpuwatch.diagnose.preflight.check import Check
from gpuwatch.diagnose.preflight.checklist import checklist
from gpuwatch.diagnose.preflight.links import links
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec, Plan, Thresholds
from gpuwatch.link.stream.inbox import Arrival, ClockReading, Content, LinkStatus
from gpuwatch.probe.probe_request import ProbeRequest
from gpuwatch.probe.results import ProbedNode, Results
from gpuwatch.probe.verdict import ProbeVerdict
from gpuwatch.wire import NO_PYTHON
from tests.diagnose.story import EPOCH, FINE, HOST, MEDIUM, NOW, SLOW, info
from tests.sentences import Sentences

HALF = 40 << 30


class Cluster:
    """Nodes of eight GPUs, one rank each on the first ones."""

    def __init__(self, count: int, *, kernel_log: str | None = "kmsg") -> None:
        self.names = [f"gpu-{n:03d}" for n in range(1, count + 1)]
        self.fleet = Fleet(Plan(tuple(NodeSpec(name) for name in self.names)))
        for name in self.names:
            hello = wire.Hello(
                t=EPOCH, seq=0, host=name, agent="1", python="3", pid=1, interval_s=1.0,
                gpus=[info(n) for n in range(8)], kernel_log=kernel_log,
            )  # fmt: skip
            self.report(name, LinkStatus("live"), hello, self.sample())

    @staticmethod
    def sample() -> wire.Sample:
        gpus = [wire.GpuSample(f"GPU-{n}", fast=FINE, medium=MEDIUM, slow=SLOW) for n in range(8)]
        return wire.Sample(t=EPOCH, seq=1, gpus=gpus, host=HOST)

    def report(self, node: str, *what: Content, at: float = NOW) -> None:
        for each in what:
            self.fleet.apply(Arrival(node, at, each))

    def ranks(self, world: int, port: int = 29500, wrote_s: float = 1.0) -> None:
        for number, name in enumerate(self.names):
            log = f"/logs/{number}.log"
            process = wire.Process(
                50, "python", rank=number, world_size=world, job="7", master=f"gpu-001:{port}", logs=[log]
            )
            file = wire.LogFile(log, grown_at=EPOCH - wrote_s)
            self.report(name, wire.Ranks(t=EPOCH, seq=2, processes=[process]))
            self.report(name, wire.Logs(t=EPOCH, seq=3, files=[file]))

    def check(self, reported: Mapping[str, wire.NodeSettings], now: float = NOW) -> dict[str, Check]:
        found = checklist(self.fleet, reported, (), (), SessionClock(lambda: now, lambda: EPOCH + now - NOW))
        return {check.id: check for check in found}


def test_a_problem_of_many_nodes_is_listed_once() -> None:
    cluster = Cluster(64)
    memory = cluster.check({})["gpu.memory"]
    assert memory.detail == "gpu-[001-064] GPUs 0-7 50 % free"


def test_a_claimed_world_of_a_thousand_million_costs_nothing(sentences: Sentences) -> None:
    cluster = Cluster(2)
    cluster.ranks(world=999_999_999)
    sentences(cluster.check({})["ranks.initialised"].detail)


def test_torchruns_own_port_is_not_taken_by_somebody_else() -> None:
    cluster = Cluster(2)
    cluster.ranks(world=2)
    reported = {
        "gpu-001": wire.NodeSettings(
            listens={"29500": 40}, ranks=[wire.RankSettings(pid=50, rank=0, parent=40)]
        ),
        "gpu-002": wire.NodeSettings(listens={"29500": None}),
    }
    assert cluster.check(reported)["net.port"].status == "PASS"
    unseen = {**reported, "gpu-001": wire.NodeSettings(listens={"29500": 0})}
    assert cluster.check(unseen)["net.port"].status == "PASS"
    strange = {**reported, "gpu-001": wire.NodeSettings(listens={"29500": 4711})}
    assert cluster.check(strange)["net.port"].status == "WARN"


def test_a_job_that_writes_nothing_is_not_reported_to_be_in_step(sentences: Sentences) -> None:
    cluster = Cluster(4)
    cluster.ranks(world=4, wrote_s=2.0)
    assert cluster.check({})["ranks.in_step"].status == "PASS"
    cluster.ranks(world=4, wrote_s=1200.0)
    check = cluster.check({})["ranks.in_step"]
    assert check.status == "WARN"
    sentences(check.detail)


@pytest.mark.parametrize(("hang_s", "status"), [(30.0, "WARN"), (600.0, "PASS")])
def test_a_silent_job_is_out_of_step_by_the_window_of_the_hosts_file(hang_s: float, status: str) -> None:
    """Document 004, line 763."""
    cluster = Cluster(2)
    cluster.fleet.plan = replace(cluster.fleet.plan, thresholds=Thresholds(hang_s=hang_s))
    cluster.ranks(world=2, wrote_s=100.0)
    assert cluster.check({})["ranks.in_step"].status == status


def test_devices_and_places_may_have_other_names_but_not_be_missing() -> None:
    cluster = Cluster(3)
    cluster.ranks(world=3)

    def reported(*variables: dict[str, str]) -> dict[str, wire.NodeSettings]:
        ranks = [[wire.RankSettings(pid=50, variables=each)] for each in variables]
        return {name: wire.NodeSettings(ranks=own) for name, own in zip(cluster.names, ranks, strict=True)}

    own = [{"NCCL_IB_HCA": f"mlx5_{n}", "CUDA_CACHE_PATH": f"/local/{n}"} for n in range(3)]
    assert cluster.check(reported(*own))["env.equal"].status == "PASS"
    check = cluster.check(reported(*own[:2], {}))["env.equal"]
    assert check.status == "FAIL"
    assert "NCCL_IB_HCA gpu-[001-002] (set), gpu-003 (not set)" in check.detail


@pytest.mark.parametrize(
    ("limits", "blamed"),
    [
        ((1_048_576, 1_048_576, 1024), {"gpu-003"}),
        ((20_000, 20_000, 256), {"gpu-003"}),
        ((1024, 1024, 1024), {"gpu-001", "gpu-002", "gpu-003"}),
        ((1024, 65_536, 1024), {"gpu-001", "gpu-003"}),
    ],
)
def test_a_limit_is_blamed_on_the_nodes_that_have_it(limits: tuple[int, ...], blamed: set[str]) -> None:
    cluster = Cluster(3)
    cluster.ranks(world=3)
    ranks = [[wire.RankSettings(pid=50, nofile=limit)] for limit in limits]
    reported = {name: wire.NodeSettings(ranks=own) for name, own in zip(cluster.names, ranks, strict=True)}
    check = cluster.check(reported)["limits.nofile"]
    assert (check.status, set(check.nodes)) == ("WARN", blamed)
    assert all(f"{limit:,}" in check.detail for limit in limits)


def test_a_node_that_fell_silent_is_not_reported_as_never_connected(sentences: Sentences) -> None:
    cluster = Cluster(2)
    cluster.report("gpu-001", cluster.sample(), at=NOW + 60)
    reported = dict.fromkeys(cluster.names, wire.NodeSettings())
    check = cluster.check(reported, NOW + 60)["net.reachable"]
    assert (check.status, check.nodes) == ("FAIL", ("gpu-002",))
    sentences(check.detail)


def test_a_node_that_does_not_tell_its_settings_is_named() -> None:
    check = Cluster(2).check({"gpu-001": wire.NodeSettings()})["net.reachable"]
    assert (check.status, check.nodes) == ("FAIL", ("gpu-002",))


def test_a_node_without_an_agent_cannot_tell_its_settings() -> None:
    cluster = Cluster(2)
    greeting = cluster.fleet.nodes["gpu-002"].hello
    assert greeting is not None
    cluster.report("gpu-002", structs.replace(greeting, python=NO_PYTHON))
    check = cluster.check({"gpu-001": wire.NodeSettings()})["net.reachable"]
    assert (check.status, check.nodes) == ("WARN", ("gpu-002",))


def test_a_node_without_a_hello_counts_as_silent() -> None:
    cluster = Cluster(2)
    cluster.fleet.nodes["gpu-002"].hello = None
    check = cluster.check(dict.fromkeys(cluster.names, wire.NodeSettings()))["net.reachable"]
    assert (check.status, check.nodes) == ("FAIL", ("gpu-002",))


def test_nothing_passes_that_nobody_could_see(sentences: Sentences) -> None:
    """Document 004, lines 762 and 764."""
    cluster = Cluster(2, kernel_log=None)
    found = cluster.check({})
    skipped = {"gpu.xid", "host.disk", "host.clock", "nccl.working"}
    assert {id_ for id_ in skipped if found[id_].status == "SKIP"} == skipped
    cluster.report("gpu-001", ClockReading(0.0, 0.01))
    sentences(cluster.check({})["host.clock"].detail)


def test_a_probe_that_left_a_node_out_does_not_pass(sentences: Sentences) -> None:
    results = Results(request=ProbeRequest(), started=EPOCH)
    results.phase, results.backend = "done", "gloo"
    results.verdict = ProbeVerdict("ok", "all links are alike")
    results.nodes = [ProbedNode("gpu-001"), ProbedNode("gpu-002", problem="no Python with torch")]
    _, check = links(results)
    assert (check.status, check.nodes) == ("WARN", ("gpu-002",))
    sentences(check.detail)


def test_a_driver_or_gpu_that_has_not_answered_passes_no_check() -> None:
    cluster = Cluster(2)
    starting = wire.Notice("nvml_starting", "NVML has not answered yet (nvmlInitWithFlags)", "info")
    silent = wire.Hello(
        t=EPOCH, seq=0, host="gpu-002", agent="1", python="3", pid=1, interval_s=1.0, notices=[starting]
    )
    cluster.report("gpu-002", silent)
    driver = cluster.check({}, NOW + 1)["gpu.driver"]
    assert (driver.status, driver.nodes) == ("FAIL", ("gpu-002",))
    assert "nvmlInitWithFlags" in driver.detail
    assert "1 s" in driver.detail or "1.0 s" in driver.detail
    cluster.report("gpu-001", wire.Sample(t=EPOCH, seq=2, gpus=[wire.GpuSample("GPU-0", state="unanswered")]))
    present = cluster.check({}, NOW + 1)["gpu.present"]
    assert (present.status, present.nodes[0]) == ("FAIL", "gpu-001")


@pytest.mark.parametrize(
    ("variables", "status", "lacking"),
    [
        ({}, "WARN", 3),
        (
            {"NCCL_DEBUG": "WARN", "TORCH_NCCL_TRACE_BUFFER_SIZE": "0", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"},
            "WARN",
            1,
        ),
        (
            {"NCCL_DEBUG": "INFO", "TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_DUMP_ON_TIMEOUT": "true"},
            "PASS",
            0,
        ),
    ],
)
def test_settings_without_which_a_hang_leaves_no_evidence_are_named(
    variables: dict[str, str], status: str, lacking: int
) -> None:
    """Document 004, line 391."""
    cluster = Cluster(2)
    cluster.ranks(world=2)
    reported = {
        name: wire.NodeSettings(ranks=[wire.RankSettings(pid=50, variables=variables)])
        for name in cluster.names
    }
    check = cluster.check(reported)["env.hang_evidence"]
    assert check.status == status
    assert check.detail.count("on 2 ranks") == lacking
    assert cluster.check({})["env.hang_evidence"].status == "SKIP"


@pytest.mark.parametrize(
    ("torch", "driver", "status"),
    [
        ("2.3.1+cu121", "12.2", "PASS"),
        ("2.3.1+cu124", "12.2", "PASS"),  # a minor version less
        ("2.9.0+cu130", "12.8", "FAIL"),
        ("1.13.1+cu117", "12.2", "WARN"),  # FSDP as trainers use it came with 2.0
        ("2.3.1", None, "PASS"),
        ("garbage", "?", "PASS"),
    ],
)
def test_torch_fits_the_driver_and_has_fsdp(torch: str, driver: str | None, status: str) -> None:
    """Document 003, line 364: PyTorch 2.0+ for FSDP, CUDA compatibility."""
    cluster = Cluster(1)
    hello = wire.Hello(
        t=EPOCH, seq=0, host="gpu-001", agent="1", python="3", pid=1, interval_s=1.0, gpus=[info(0)],
        cuda=driver,
    )  # fmt: skip
    cluster.report("gpu-001", hello)
    cluster.ranks(world=1)
    reported = {"gpu-001": wire.NodeSettings(ranks=[wire.RankSettings(pid=50, rank=0, torch=torch)])}
    assert cluster.check(reported)["versions.torch_cuda"].status == status
    assert cluster.check({})["versions.torch_cuda"].status == "SKIP"


def test_only_nodes_whose_driver_is_too_old_for_their_torch_fail() -> None:
    cluster = Cluster(2)
    for name, cuda in (("gpu-001", "12.8"), ("gpu-002", "13.0")):
        hello = wire.Hello(
            t=EPOCH, seq=0, host=name, agent="1", python="3", pid=1, interval_s=1.0, gpus=[info(0)], cuda=cuda
        )
        cluster.report(name, hello)
    cluster.ranks(world=16)
    reported = {
        name: wire.NodeSettings(ranks=[wire.RankSettings(pid=50, rank=8 * index, torch="2.9.0+cu130")])
        for index, name in enumerate(("gpu-001", "gpu-002"))
    }
    check = cluster.check(reported)["versions.torch_cuda"]
    assert (check.status, check.nodes) == ("FAIL", ("gpu-001",))


@pytest.mark.parametrize(("slow_s", "status"), [(0.31, "PASS"), (0.40, "WARN")])
def test_the_step_times_of_the_ranks_are_compared(slow_s: float, status: str) -> None:
    """Document 004, line 765: is the load balanced?"""
    cluster = Cluster(2)
    cluster.ranks(world=2)
    for number, name in enumerate(cluster.names):
        for step in range(5):
            fields: dict[str, Any] = {"step": step, "step_time_s": slow_s if number else 0.3}
            progress = wire.Progress(
                t=EPOCH, seq=9, file=f"/logs/{number}.log", offset=step, at=EPOCH, timed=True,
                dialect="progress.x", fields=fields, rank=number, job="7", pid=50,
            )  # fmt: skip
            cluster.report(name, progress)
    found = cluster.check({})["ranks.balanced"]
    assert (found.status, set(found.nodes)) == (status, set(cluster.names if status == "WARN" else ()))


def test_nodes_that_have_not_listed_processes_prove_no_absence_of_ranks() -> None:
    cluster = Cluster(2)
    cluster.report("gpu-001", wire.Ranks(t=EPOCH, seq=2, processes=[]))
    for waits in (True, False):
        found = cluster.check({})
        details = [found[name].detail for name in ("ranks.initialised", "ranks.multi_gpu")]
        assert [("gpu-002" in each, "unknown" in each) for each in details] == [(waits, waits)] * 2
        cluster.report("gpu-002", wire.Ranks(t=EPOCH, seq=2, processes=[]))
