"""Exporters on nodes that lie: a Prometheus passes on whatever labels and numbers they state."""

from __future__ import annotations

import time

import pytest

from gpuwatch.hosts.prometheus_target import PrometheusTarget
from gpuwatch.link.prometheus import discovery
from gpuwatch.link.prometheus.client import PrometheusClient
from gpuwatch.link.prometheus.gpu_query import GpuQuery
from gpuwatch.link.prometheus.vocabularies import DCGM
from tests.link.prometheus.sessions import live, session_of, until
from tests.link.prometheus.simulated import SimulatedPrometheus, simulated

VICTIM = "gpu-001"
EVIL = {"Hostname": VICTIM, "instance": "10.0.0.9:9400", "modelName": "NVIDIA H100 80GB HBM3"}


def lie(known: SimulatedPrometheus, uuid: str) -> None:
    """Add a GPU of the victim that the exporter of gpu-009 claims to have."""
    labels = {**EVIL, "gpu": "7", "UUID": uuid}
    for metric, value in (("GPU_TEMP", 119.0), ("GPU_UTIL", 0.0), ("XID_ERRORS", 79.0)):
        known.add(f"DCGM_FI_DEV_{metric}", value, **labels)


@pytest.mark.parametrize(("uuid", "is_first"), [("GPU-0001-0", True), ("GPU-of-gpu-009", False)])
def test_an_exporter_states_nothing_about_the_gpus_of_another_node(uuid: str, is_first: bool) -> None:
    with simulated() as known:
        if is_first:
            lie(known, uuid)
        known.gpu(1, 0)
        known.gpu(9, 0)
        with session_of(known, interval_s=1.0) as session:
            until(session, live(session, 2))
            lie(known, uuid)
            own = {"Hostname": "gpu-009", "instance": EVIL["instance"], "UUID": "GPU-0009-0", "gpu": "0"}
            known.add("DCGM_FI_DEV_XID_ERRORS", 31.0, **own)
            other = session.fleet.nodes["gpu-009"]
            until(session, lambda: any(each.code == 31 for each in other.events))
            victim = session.fleet.nodes[VICTIM]
            assert list(victim.gpus) == ["GPU-0001-0"]
            fast = victim.gpus["GPU-0001-0"].fast
            assert fast is not None
            assert fast.temperature_c == 61.0
            assert not victim.events


def test_another_exporter_takes_a_node_over_when_the_first_has_gone() -> None:
    """As after the restart of its pod, which has another address then."""
    with simulated() as known:
        known.gpu(1, 0)
        query = GpuQuery(PrometheusClient(PrometheusTarget(known.url)), DCGM, [VICTIM])
        for _ in range(2):
            query.sources()
            query.tier("fast")
            assert list(query.nodes[VICTIM].gpus) == ["GPU-0001-0"]
            assert query.nodes[VICTIM].gpus["GPU-0001-0"].values["fast"]
            for each in known.series:
                each.labels["instance"] = "10.9.9.9:9400"


def test_names_that_an_exporter_invents_fill_no_memory() -> None:
    with simulated() as known:
        known.gpu(1, 0)
        for number in range(500):
            labels = {"Hostname": f"x{number}", "UUID": f"X{number}", "gpu": "0", "instance": "10.0.0.9:1"}
            known.add("DCGM_FI_DEV_GPU_TEMP", 50.0, **labels)
        query = GpuQuery(PrometheusClient(PrometheusTarget(known.url)), DCGM, [VICTIM])
        query.sources()
        query.inventory()
        query.tier("fast")
        assert list(query.nodes) == [VICTIM]


@pytest.mark.parametrize("at", [1e300, -1e300, 1e18, 3e11])
def test_times_that_an_exporter_invents_end_nothing(at: float) -> None:
    with simulated() as known:
        for name, value in (("up", 1.0), ("info", 1.0), ("temperature_celsius", 61.0), ("last_xid", 79.0)):
            known.add(f"gpuwatch_gpu_{name}", value, node=VICTIM, uuid="GPU-1", gpu="0", model="H100")
        known.add("gpuwatch_node_up", 1.0, node=VICTIM)
        with session_of(known, interval_s=1.0) as session:
            until(session, live(session, 1))
            known.series = [each for each in known.series if "last_xid" not in each.labels["__name__"]]
            known.add("gpuwatch_gpu_last_xid", 48.0, node=VICTIM, uuid="GPU-1", gpu="0")
            known.add("gpuwatch_gpu_last_xid_timestamp_seconds", at, node=VICTIM, uuid="GPU-1", gpu="0")
            end = time.monotonic() + 4.0
            until(session, lambda: bool(session.fleet.nodes[VICTIM].events) or time.monotonic() > end)
            assert all(0 < each.t < time.time() + 3600 for each in session.fleet.nodes[VICTIM].events)
            assert not session.fleet.nodes[VICTIM].link.reason


def test_names_that_an_exporter_invents_hide_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "MAX_NODES", 3)
    with simulated() as known:
        for number in range(9):
            labels = {"Hostname": f"a{number}", "UUID": f"X{number}", "gpu": "0", "instance": "10.0.0.9:1"}
            known.add("DCGM_FI_DEV_GPU_TEMP", 50.0, **labels)
        known.gpu(1, 0)
        known.gpu(2, 0)
        plan, _ = discovery.discover(known.url, "", 1.0)
        assert {"gpu-001", "gpu-002"} < {spec.name for spec in plan.nodes}
        assert len(plan.nodes) == 3


def test_a_node_exporter_states_nothing_about_another_node() -> None:
    with simulated() as known:
        known.gpu(1, 0)
        known.gpu(9, 0)
        for address, nodename, load in (
            ("gpu-001", "gpu-001", 1.0),
            ("10.0.0.9", "gpu-001", 900.0),
            ("gpu-009", "gpu-001", 800.0),
        ):
            known.add("node_uname_info", 1.0, nodename=nodename, instance=f"{address}:9100")
            known.add("node_load1", load, instance=f"{address}:9100")
        with session_of(known, interval_s=1.0) as session:
            node, other = (session.fleet.nodes[name] for name in ("gpu-001", "gpu-009"))
            until(session, lambda: None not in (node.host, other.host))
            assert (node.host.load_1m, other.host.load_1m) == (1.0, 800.0)  # type: ignore[union-attr]
