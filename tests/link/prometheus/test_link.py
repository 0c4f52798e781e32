"""Nodes out of a Prometheus, in a real session over HTTP."""

from __future__ import annotations

import time
from functools import partial

import pytest

from gpuwatch.diagnose.health.conditions import gpu_conditions
from gpuwatch.hosts.prometheus_target import PrometheusTarget
from gpuwatch.hosts.receivers import ReceiverError
from gpuwatch.link.prometheus.client import PrometheusClient, PrometheusError
from gpuwatch.link.prometheus.discovery import discover
from gpuwatch.link.prometheus.gpu_query import GpuQuery
from gpuwatch.link.prometheus.vocabularies import DCGM
from gpuwatch.report.once.first_report import FirstReport
from gpuwatch.report.once.problems.pending import pending
from gpuwatch.session import Session
from tests.link.prometheus.sessions import WAIT_S, live, session_of, until
from tests.link.prometheus.simulated import SCRAPE_S, simulated

SECRET = "hunter2hunter2"  # noqa: S105 - a test's


def test_gpus_of_dcgm_exporter() -> None:
    with simulated() as known:
        for node in range(1, 4):
            for index in range(8):
                known.gpu(node, index, ECC_DBE_VOL_TOTAL=0.0, CLOCKS_EVENT_REASONS=36.0)
        with session_of(known) as session:
            assert [*session.fleet.nodes] == ["gpu-001", "gpu-002", "gpu-003"]
            assert session.plan.interval_s == SCRAPE_S
            until(session, live(session, 3))
            until(session, lambda: all(gpu.slow is not None for gpu in session.fleet.gpus()))
            gpu = session.fleet.nodes["gpu-002"].gpu_list()[7]
            assert gpu.fast is not None
            assert gpu.slow is not None
            assert (gpu.fast.utilization_pct, gpu.fast.temperature_c, gpu.fast.sm_clock_mhz) == (
                97.0,
                61.0,
                1980,
            )
            assert gpu.fast.memory_used_bytes == 70_000 << 20
            assert gpu.fast.memory_total_bytes == 81_000 << 20
            assert gpu.fast.throttle == ["power_cap", "sw_thermal"]
            assert gpu.fast.power_w == 640.5
            assert gpu.slow.ecc_uncorrected == 0
            assert (gpu.info.name, gpu.info.index) == ("NVIDIA H100 80GB HBM3", 7)


def test_the_past_is_there_from_the_start() -> None:
    with simulated() as known:
        known.gpu(1, 0)
        with session_of(known) as session:
            until(session, live(session, 1))
            (gpu,) = session.fleet.gpus()
            hour = partial(gpu.history.series, "util", 3600, 30)
            until(session, lambda: bool((hour(time.monotonic())[3:27] == 97.0).all()))


def test_ages_are_those_of_the_scrapes_whatever_the_clock_of_the_server() -> None:
    with simulated() as known:
        known.skew_s = 5000.0
        known.gpu(1, 0)
        for each in known.series:
            each.scraped_ago_s = 12.0
        with session_of(known) as session:
            until(session, live(session, 1))
            node = session.fleet.nodes["gpu-001"]
            until(session, lambda: node.clock is not None)
            age = node.gpu_list()[0].age(time.monotonic())
            assert age is not None
            assert 11.0 < age < 12.0 + WAIT_S
            assert node.clock is not None
            assert abs(node.clock.offset_s - 5000.0) < 5.0


def test_a_gpu_whose_series_end_is_lost_and_so_is_a_node() -> None:
    with simulated() as known:
        for index in range(2):
            known.gpu(1, index)
        known.gpu(2, 0)
        with session_of(known, interval_s=2.0) as session:
            until(session, live(session, 2))
            gone = ("GPU-0001-1", "GPU-0002-0")
            known.series = [each for each in known.series if each.labels["UUID"] not in gone]
            node, other = session.fleet.nodes["gpu-001"], session.fleet.nodes["gpu-002"]
            until(session, lambda: node.gpus["GPU-0001-1"].state == "lost")
            until(session, lambda: other.state(time.monotonic()) == "lost")
            assert node.gpus["GPU-0001-0"].state == "ok"
            assert node.link.phase == "live"


def test_a_node_is_lost_whose_samples_are_four_intervals_old() -> None:
    with simulated() as known:
        for node in (1, 2):
            known.gpu(node, 0)
        for each in known.series:
            each.scraped_ago_s = 5 * SCRAPE_S if each.labels["Hostname"] == "gpu-002" else 3 * SCRAPE_S
        with session_of(known) as session:
            old, late = session.fleet.nodes["gpu-002"], session.fleet.nodes["gpu-001"]
            until(session, lambda: "no samples" in old.link.reason and late.hello is not None)
            assert (old.link.phase, late.link.phase) == ("lost", "live")


def test_an_xid_that_is_new_becomes_an_event() -> None:
    with simulated() as known:
        known.gpu(1, 0, XID_ERRORS=31.0)
        with session_of(known, interval_s=2.0) as session:
            until(session, live(session, 1))
            assert not session.fleet.events  # nobody states when it was
            next(each for each in known.series if each.labels["__name__"].endswith("XID_ERRORS")).value = 79.0
            until(session, lambda: len(session.fleet.events) == 1)
            assert session.fleet.events[0].event.code == 79
            until(
                session, lambda: any(each.gpu == 0 and each.kernel for each in session.book.alerts.values())
            )


def test_thresholds_hold_for_them() -> None:
    with simulated() as known:
        known.gpu(1, 0, GPU_TEMP=88.0, SLOWDOWN_TEMP=87.0)
        with session_of(known) as session:
            until(session, live(session, 1))
            (gpu,) = session.fleet.gpus()
            node, limits = session.fleet.nodes["gpu-001"], session.plan.thresholds
            found = gpu_conditions(gpu, node, limits, time.monotonic())
            assert [(each.code, each.severity) for each in found] == [("temperature", "critical")]


def test_hosts_of_node_exporter_are_joined_to_the_gpus() -> None:
    with simulated() as known:
        known.gpu(1, 0)
        for instance, name in (("10.0.0.1:9100", "gpu-001.cluster"), ("10.0.0.99:9100", "web-1")):
            known.add("node_uname_info", 1.0, instance=instance, nodename=name)
            known.add("node_load1", 31.5, instance=instance)
            known.add("node_memory_MemTotal_bytes", 2.0**40, instance=instance)
        with session_of(known) as session:
            assert [*session.fleet.nodes] == ["gpu-001"]
            node = session.fleet.nodes["gpu-001"]
            until(session, lambda: node.host is not None)
            assert node.host is not None
            assert (node.host.load_1m, node.host.memory_total_bytes) == (31.5, 1 << 40)


@pytest.mark.parametrize("is_hosted", [True, False])
def test_a_report_is_complete_with_one_scrape(is_hosted: bool) -> None:
    with simulated() as known:
        known.gpu(1, 0)
        if is_hosted:
            known.add("node_uname_info", 1.0, instance="10.0.0.1:9100", nodename="gpu-001")
            known.add("node_load1", 31.5, instance="10.0.0.1:9100")
        with session_of(known) as session:
            nodes = session.fleet.nodes.values()
            until(session, lambda: not FirstReport().missing(nodes, time.monotonic()))
            assert pending(session.fleet, time.monotonic()) == []
            (node,) = nodes
            assert node.hello is not None
            assert [each.code for each in node.hello.notices][1:] == ([] if is_hosted else ["no_host_values"])
            assert (node.host is not None) == is_hosted


def test_a_selector_narrows_every_query() -> None:
    with simulated() as known:
        known.gpu(1, 0)
        known.gpu(2, 0)
        with session_of(known, '{Hostname="gpu-002"}') as session:
            until(session, live(session, 1))
            assert [*session.fleet.nodes] == ["gpu-002"]
        assert all('Hostname="gpu-002"' in each for each in known.queries if each != "vector(1)")


@pytest.mark.parametrize("mood", ["500", "garbage", "html", "error", "drop"])
def test_a_server_that_fails_is_reported_and_found_again(mood: str) -> None:
    with simulated() as known:
        known.gpu(1, 0)
        with session_of(known, interval_s=2.0) as session:
            until(session, live(session, 1))
            known.mood = mood
            node = session.fleet.nodes["gpu-001"]
            until(session, lambda: node.state(time.monotonic()) == "lost")
            assert "127.0.0.1" in node.link.reason
            assert "\x1b" not in node.link.reason
            assert node.link.retry_at is not None
            known.mood = "ok"
            session.retry()
            until(session, live(session, 1))


def test_a_slow_server_holds_up_no_session() -> None:
    with simulated() as known:
        known.gpu(1, 0)
        found = discover(known.url, "", 2.0)
        known.mood, asked = "slow", len(known.queries)
        with Session(*found) as session:
            for _ in range(200):  # none of them waits for the answer
                session.poll()
            assert len(known.queries) == asked
            assert session.fleet.nodes["gpu-001"].hello is None
            known.held.set()
            until(session, live(session, 1))


def test_a_password_goes_into_a_header_and_into_no_message() -> None:
    with simulated() as known:
        known.gpu(1, 0)
        url = known.url.replace("http://", f"http://bob:{SECRET}@")
        plan, options = discover(url, "", None)
        assert known.authorization == {"Basic Ym9iOmh1bnRlcjJodW50ZXIy"}
        assert SECRET not in repr(plan) + repr(options)
        known.mood = "500"
        with pytest.raises(PrometheusError) as raised:
            discover(url, "", None)
        assert SECRET not in str(raised.value)
    with pytest.raises(ReceiverError):
        discover(f"file:///{SECRET}", "", None)


def test_a_prometheus_without_nodes_is_refused() -> None:
    with simulated() as known:
        known.add("up", 1.0, job="x")
        with pytest.raises(PrometheusError, match="DCGM_FI_DEV_GPU_TEMP"):
            discover(known.url, "", None)


def test_hostile_labels_and_numbers_are_harmless() -> None:
    with simulated() as known:
        known.gpu(1, 0, GPU_UTIL=float("nan"), FB_USED=1e300, SM_CLOCK=-1e17)
        known.add("DCGM_FI_DEV_GPU_TEMP", 50.0, Hostname="\x1b[2Jevil", UUID="\u202e" * 900, gpu="0")
        with session_of(known) as session:
            nodes = session.fleet.nodes.values()
            until(session, lambda: sum(node.hello is not None for node in nodes) == 2)
            assert not any("\x1b" in name for name in session.fleet.nodes)
            assert not any("\u202e" in gpu.info.uuid for gpu in session.fleet.gpus())
            assert 0 < max(len(gpu.info.uuid) for gpu in session.fleet.gpus()) <= 200


def test_a_node_has_no_more_gpus_than_a_machine_can() -> None:
    with simulated() as known:
        for number in range(2000):
            labels = {"Hostname": "gpu-001", "UUID": f"X{number}", "gpu": str(number)}
            known.add("DCGM_FI_DEV_GPU_TEMP", 50.0, **labels)
        query = GpuQuery(PrometheusClient(PrometheusTarget(known.url)), DCGM, ["gpu-001"])
        query.sources()
        query.tier("fast")
        assert len(query.nodes["gpu-001"].gpus) == 1024
