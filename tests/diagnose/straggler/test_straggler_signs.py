"""Each fault of one of 64 GPUs names this GPU, says why, and names no other."""

from __future__ import annotations

import re

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.straggler.gpu_load import GpuLoad
from gpuwatch.diagnose.straggler.own_time import slow_ranks
from gpuwatch.diagnose.straggler.straggler_watch import StragglerWatch, unlike_peers
from gpuwatch.hosts.plan import Thresholds
from tests.counted_calls import calls_of
from tests.diagnose.simulated_jobs import Cluster, Job, changed
from tests.diagnose.straggler.watched import GPU, NODE, RANK, Watched
from tests.sentences import Sentences


def load_of(rank: int) -> GpuLoad:
    """One of a thousand equal ones, but for one."""
    info = wire.GpuInfo(f"GPU-{rank}", rank % 8, "H100", pcie_gen_max=5, pcie_width_max=16)
    medium = wire.GpuMedium(t=0.0, pcie_gen=5, pcie_width=16)
    clock_mhz = 1200.0 if rank == RANK else 1755.0
    return GpuLoad(
        rank, "train", f"n{rank // 8}", None, info, 0.0, wire.GpuFast(t=0.0), medium, None, 99.0, clock_mhz,
        600.0, 60.0, 2e9, 1e11,
    )  # fmt: skip


def test_a_throttled_gpu_is_the_straggler_with_cause_rack_and_cost(sentences: Sentences) -> None:
    cluster = Watched()
    assert cluster.reported == []
    cluster.fault(changed(sm_clock_mhz=1230, temperature_c=81, throttle_pct={"sw_thermal": 88.0}))
    cluster.run(30)
    assert not [each for each in cluster.reported if each.code == "slower_than_peers"]  # it has not lasted
    cluster.run(60)
    alert = cluster.alert("slower_than_peers")
    sentences(alert.text)
    assert re.search(r"1230 MHz, .* 63 peers 17\d\d MHz", alert.proof[0].text)
    assert alert.severity == "warning"
    assert {each.code for each in cluster.reported} <= {
        "slower_than_peers",
        "sw_thermal",
        "hotter_than_peers",
    }


def test_a_gpu_that_stands_still_in_a_part_of_each_step_has_a_slow_host(sentences: Sentences) -> None:
    cluster = Watched()
    cluster.fault(changed(utilization_pct=45.0))
    cluster.run(90)
    alert = cluster.alert("slower_than_peers")
    sentences(alert.text)
    assert len(cluster.reported) == 1


def test_the_one_that_works_while_the_others_spin_is_waited_for(sentences: Sentences) -> None:
    cluster = Watched()
    cluster.job.phase("spin", steps=True, odd=(RANK, "work"))
    cluster.run(90)
    sentences(cluster.alert("slower_than_peers").text)
    assert len(cluster.reported) == 1


def test_the_one_that_spins_while_the_others_work_is_reported_and_blamed_for_nothing() -> None:
    cluster = Watched()
    cluster.job.phase("work", steps=True, odd=(RANK, "spin"))
    cluster.run(90)
    alert = cluster.alert("spins_alone")
    assert re.search(r"64 ranks at 0\.[34]\dx", alert.text)
    assert alert.severity == "info"
    assert [each.code for each in cluster.reported if each.severity != "info"] == []


def test_one_at_0_percent_while_all_others_spin_and_no_step_comes_is_a_hang(sentences: Sentences) -> None:
    cluster = Watched()
    cluster.job.phase("spin", steps=False, odd=(RANK, "idle"))
    cluster.run(120)
    sentences(cluster.alert("job.hang").text)
    assert {each.code for each in cluster.reported} == {"job.hang"}


def test_the_one_that_still_works_while_all_others_spin_and_no_step_comes_is_a_hang(
    sentences: Sentences,
) -> None:
    cluster = Watched()
    cluster.job.phase("spin", steps=False, odd=(RANK, "work"))
    cluster.run(240)
    assert cluster.reported == []  # rank 17 may evaluate for all
    cluster.run(90)
    sentences(cluster.alert("job.hang").text)
    assert {each.code for each in cluster.reported} == {"job.hang"}


def test_half_of_the_pcie_lanes() -> None:
    cluster = Watched()
    cluster.fault(changed("medium", pcie_width=8))
    cluster.run(90)
    assert cluster.alert("pcie_degraded").text.count("gen 5 x") == 2
    assert len(cluster.reported) == 1


def test_half_of_the_pcie_lanes_in_a_slot_that_has_no_more(sentences: Sentences) -> None:
    cluster = Watched()
    gpu = cluster.fleet.nodes[f"gpu-{NODE:03d}"].gpus[cluster.places[RANK].uuid]
    gpu.info = structs.replace(gpu.info, pcie_width_max=8)
    cluster.fault(changed("medium", pcie_width=8))
    cluster.run(90)
    sentences(cluster.alert("link_below_peers").text)
    assert len(cluster.reported) == 1


def test_nvlink_errors() -> None:
    cluster = Watched()
    errors = {"crc": 3, "replay": 2, "recovery": 1}
    cluster.fault(changed("slow", nvlink_errors=errors))
    cluster.run(10)
    assert "1 recovery, 2 replay" in cluster.alert("nvlink_errors").text
    assert len(cluster.reported) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("fast", "name"),
    [
        ({"nvlink_rx_bps": 5e9, "nvlink_tx_bps": 5e9}, "NVLink"),
        ({"pcie_rx_bps": 1e8, "pcie_tx_bps": 1e8}, "PCIe"),
    ],
)
def test_links_that_move_far_less_than_those_of_the_peers(fast: dict[str, float], name: str) -> None:
    cluster = Watched()
    cluster.fault(changed("fast", **fast))
    cluster.run(90)
    alert = cluster.alert("link_below_peers")
    assert re.search(rf"64 ranks at 0\.\d\dx {name} ", alert.text)
    assert len(cluster.reported) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("timers", "reported"),
    [
        ({"forward": 2.2}, r"at 2\.\d+x its peers' time in forward"),
        ({"data": 20.0}, r"at \d+\.\d\dx its peers' time in data since"),
    ],
)
def test_a_rank_that_tells_longer_times_of_its_own(
    timers: dict[str, float], reported: str, sentences: Sentences
) -> None:
    cluster = Watched(dialect="all")
    assert cluster.reported == []
    cluster.job.timers[RANK] = timers
    cluster.run(120)
    alert = cluster.alert("slower_than_peers")
    assert re.search(reported, alert.text)
    assert any("allreduce" in each.text for each in alert.proof)
    sentences(alert.text)
    assert len(cluster.reported) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("dialect", "seconds"), [("one", 0), ("sparse", 300), ("all", 0)])
def test_a_job_that_pauses_is_not_compared(dialect: str, seconds: float) -> None:
    """Rank 17 evaluates or saves alone: the others spin, and that is well."""
    cluster = Watched(dialect=dialect)
    cluster.run(seconds)
    for doing in ("work", "host"):
        cluster.job.phase("spin", steps=False, odd=(RANK, doing))
        cluster.run(50)
        cluster.job.phase("work", steps=True)
        cluster.run(100)
    assert cluster.reported == []


def test_a_verdict_over_1000_ranks_is_cheap() -> None:
    """Of all signs: the calls grow with the ranks and not faster."""

    def cost(count: int) -> int:
        ranks = [load_of(number) for number in range(count)]
        step = {"step": 3.0, "forward": 0.8, "backward": 1.5, "allreduce": 0.5}
        times = dict.fromkeys(range(count), step)

        def judge() -> list[int]:
            signs = [*unlike_peers(ranks, Thresholds(), steps=True), *slow_ranks(times, 110.0)]
            return [each.rank for each in signs]

        assert judge() == [RANK]
        return calls_of(judge)

    assert cost(1000) < min(15 * cost(100), 400_000)


def test_a_large_fleet_is_read_over_several_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwatch.diagnose.straggler.straggler_watch.NODES_AT_ONCE", 3)
    cluster, watch = Cluster(), StragglerWatch(Thresholds())
    cluster.jobs = [Job("train", cluster.places)]
    cluster.odd[cluster.places[RANK].uuid] = changed(sm_clock_mhz=1230)
    moved = []
    for _ in range(20):
        cluster.tick()
        moved += [[watch.go(cluster.fleet, cluster.now + n / 8, cluster.wall) for n in range(4)]]
    assert [calls for calls in moved if any(calls)] == [[False, False, True, False]]
    assert [(alert.node, alert.gpu) for alert in watch.alerts.values()] == [(f"gpu-{NODE:03d}", GPU)]
