"""A node that Prometheus names is connected over ssh once its screen is opened, and no other."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from msgspec.structs import replace

from gpuwatch.fleet.nodes.node import Node
from gpuwatch.link.prometheus.discovery import discover
from gpuwatch.link.prometheus.frames import NO_AGENT
from gpuwatch.session import Session
from tests.link.prometheus.simulated import simulated
from tests.servers.sshd import Sshd
from tests.session.polling import until


def has_agent(node: Node) -> bool:
    """Whether the values are the agent's, not those of Prometheus."""
    return node.hello is not None and node.hello.agent != NO_AGENT


def test_an_entered_node_is_read_over_ssh_and_by_prometheus_again_when_that_ends(tmp_path: Path) -> None:
    with simulated() as known, Sshd(tmp_path / "sshd", names=("gpu-001",)) as sshd:
        for number in (1, 2, 3):
            known.gpu(number, 0)
        plan, options = discover(known.url, "", None)
        options = replace(options, ssh_config=str(sshd.client.config))
        with Session(plan, options) as session:
            first, second, third = session.fleet.nodes.values()
            until(session, lambda: all(each.hello is not None for each in (first, second, third)))
            session.enter("gpu-001")
            session.enter("gpu-002")
            until(session, lambda: has_agent(first) and None not in (first.processes_at, first.host))
            assert first.link.login is not None
            assert [gpu.state for gpu in first.gpu_list()] == ["ok"], "an agent without NVML loses no GPU"
            until(session, lambda: second.link.reason.startswith("over ssh: "))
            assert not has_agent(second)
            assert second.state(time.monotonic()) == "live"
            assert third.link.reason == ""
            sshd.stop()
            until(session, lambda: not has_agent(first) and first.link.phase == "live")
            assert first.link.reason.startswith("over ssh: ")
            assert [gpu.state for gpu in first.gpu_list()] == ["ok"]


def test_the_oldest_of_nine_entered_nodes_is_left(tmp_path: Path) -> None:
    with simulated() as known, Sshd(tmp_path / "sshd", names=("gpu-001",)) as sshd:
        for number in range(1, 10):
            known.gpu(number, 0)
        plan, options = discover(known.url, "", None)
        with Session(plan, replace(options, ssh_config=str(sshd.client.config))) as session:
            names = list(session.fleet.nodes)
            first = session.fleet.nodes[names[0]]
            session.enter(names[0])
            until(session, lambda: has_agent(first))
            for name in names[1:]:
                session.enter(name)
            until(session, lambda: not has_agent(first))
            assert first.link.reason == ""


def test_nothing_is_connected_where_that_is_switched_off() -> None:
    with simulated() as known:
        known.gpu(1, 0)
        plan, options = discover(known.url, "", None)
        with Session(plan, replace(options, enter_nodes=False)) as session:
            node = session.fleet.nodes["gpu-001"]
            until(session, lambda: node.hello is not None)
            session.enter("gpu-001")
            assert node.link.reason == ""


def test_a_name_that_is_no_host_name_is_never_dialled() -> None:
    name = "-oProxyCommand=touch x"
    before = set(threading.enumerate())
    with simulated() as known:
        known.add("DCGM_FI_DEV_GPU_TEMP", 60.0, gpu="0", UUID="GPU-1", Hostname=name, instance="x:9400")
        plan, options = discover(known.url, "", None)
        with Session(plan, options) as session:
            (node,) = session.fleet.nodes.values()
            until(session, lambda: node.hello is not None)
            session.enter(node.name)
            until(session, lambda: node.link.reason != "")
            began = set(threading.enumerate()) - before
            assert not any(each.name.startswith("link ") for each in began)
