"""What is reported before any number, and what the tables advise."""

from __future__ import annotations

import pytest

from gpuwatch.probe.judging.checks.expected import NVLINK, PCIE, matching
from gpuwatch.probe.judging.judge import judge
from gpuwatch.probe.protocol import InventoryGpu, InventoryNic, InventoryPort, NodeInventory
from gpuwatch.probe.results import CounterChange, GpuResult, ProbedNode, Results
from tests.probe.judging.fabric import Fabric, through
from tests.sentences import Sentences


def cluster(fabric: Fabric, rate_gbps: float = 400.0, link_layer: str = "InfiniBand") -> Results:
    """Nodes with GPUs and RDMA ports, over NCCL."""
    results = fabric.results()
    results.backend = "nccl"
    results.nodes = [
        ProbedNode(
            node,
            NodeInventory(
                host=node,
                pid=1,
                gpus=[InventoryGpu(index=at, uuid=f"GPU-{node}-{at}", name="H100") for at in range(2)],
                nics=[InventoryNic(name="eth0", address="10.0.0.1", prefix=24, speed_bps=3.125e9)],
                ports=[
                    InventoryPort(
                        device=f"mlx5_{at}",
                        port=1,
                        state="ACTIVE",
                        link_layer=link_layer,
                        rate_gbps=rate_gbps,
                    )
                    for at in range(2)
                ],
            ),
        )
        for node in dict.fromkeys(slot.node for slot in results.slots)
    ]
    return results


def with_port(results: Results, node: int, **changed: object) -> Results:
    """The second port of one node is different."""
    inventory = results.nodes[node].inventory
    assert inventory is not None
    ports = [inventory.ports[0], InventoryPort(**{"device": "mlx5_1", "port": 1, **changed})]  # type: ignore[arg-type]
    results.nodes[node] = ProbedNode(
        f"host-{node}", NodeInventory(host=inventory.host, pid=1, gpus=inventory.gpus, ports=ports)
    )
    return results


@pytest.mark.parametrize(("layer", "kind"), [("InfiniBand", "IB"), ("Ethernet", "RoCE")])
def test_tcp_where_rdma_is_ready(layer: str, kind: str, sentences: Sentences) -> None:
    results = cluster(Fabric(2, 2, gpus=True), link_layer=layer)
    results.transports = {"NET/Socket": [0, 1, 2, 3]}
    verdict = judge(results)

    assert verdict.status == "bad"
    assert f"expected {kind}, got TCP" in verdict.sentence
    sentences(verdict.sentence)
    assert verdict.alerts[0] == verdict.sentence


def test_rdma_is_as_it_should_be() -> None:
    results = cluster(Fabric(4, 2, gpus=True))
    results.transports = {"NET/IB": list(range(8)), "P2P/CUMEM": list(range(8))}

    assert (judge(results).status, judge(results).alerts) == ("ok", ())


def test_tcp_is_all_there_is() -> None:
    results = cluster(Fabric(4, 2, gpus=True))
    for node in range(4):
        with_port(results, node, state="DOWN")
        inventory = results.nodes[node].inventory
        assert inventory is not None
        inventory.ports.pop(0)
    results.transports = {"NET/Socket": list(range(8))}

    assert (judge(results).status, judge(results).alerts) == ("ok", ())


def test_a_port_that_is_worse_than_everywhere_else(sentences: Sentences) -> None:
    fabric = Fabric(4, 2, gpus=True)

    sentences(judge(with_port(cluster(fabric), 2, state="DOWN")).alerts)
    sentences(judge(with_port(cluster(fabric), 2, state="ACTIVE", rate_gbps=200.0)).alerts)


@pytest.mark.parametrize(
    ("name", "more", "text"),
    [
        ("ib:mlx5_0/1:symbol_error", 12.0, "host-1 mlx5_0/1: symbol_error grew by 12 during the probe"),
        ("ib:mlx5_0/1:np_cnp_sent", 4000.0, None),
        ("nvlink:GPU-host-1-1:replay", 1.0, "host-1 GPU 1: nvlink replay grew by 1 during the probe"),
        ("nvlink:GPU-host-1-1:crc", 5.0, None),
        ("nic:eth0:rx_errors", 3.0, "host-1 eth0: nic rx_errors grew by 3 during the probe"),
        ("nic:eth0:rx_dropped", 3.0, None),
        ("tcp:retransmits", 900.0, "host-1: 900 TCP segments retransmitted, the other nodes 30 (median)"),
        ("tcp:retransmits", 200.0, None),
        ("tcp:retransmits", 30.0, None),
    ],
)
def test_counters_that_moved(name: str, more: float, text: str | None) -> None:
    results = cluster(Fabric(4, 2, gpus=True))
    results.counters = [
        CounterChange("host-1", name, 7.0, 7.0 + more),
        *(CounterChange(f"host-{other}", "tcp:retransmits", 0.0, 30.0) for other in (0, 2, 3)),
    ]

    assert judge(results).alerts == ((text,) if text else ())


def test_counters_of_the_culprit_are_evidence_against_it(sentences: Sentences) -> None:
    results = cluster(Fabric(4, 2, gpus=True).slow(through("host-1")))
    results.counters = [
        CounterChange("host-1", "ib:mlx5_0/1:symbol_error", 0.0, 12.0),
        CounterChange("host-2", "ib:mlx5_0/1:symbol_error", 0.0, 3.0),
    ]

    evidence = judge(results).culprits[0].evidence
    sentences(evidence)
    assert not any("host-2" in text for text in evidence)


def test_a_pcie_link_that_is_narrow_under_load(sentences: Sentences) -> None:
    results = cluster(Fabric(4, 2, gpus=True))
    results.counters = [
        CounterChange(f"host-{node}", f"=pcie:GPU-host-{node}-{gpu}:{what}", 1.0, value)
        for node in range(4)
        for gpu in range(2)
        for what, value in (("width", 8.0 if (node, gpu) == (3, 1) else 16.0), ("gen", 5.0))
    ]

    sentences(judge(results).alerts)


def test_advice_compares_with_the_ports(sentences: Sentences) -> None:
    good = judge(cluster(Fabric(4, 2, rate=47.0, gpus=True))).advice
    little = judge(cluster(Fabric(4, 2, rate=20.0, gpus=True))).advice

    sentences(good[0])
    sentences(little[0])


def test_advice_says_that_gloo_is_not_the_fabric(sentences: Sentences) -> None:
    results = cluster(Fabric(4, rate=1.0))
    results.backend = "gloo"

    sentences(judge(results).advice[0])
    sentences(judge(results).advice[1])


def test_advice_on_copies_from_the_host(sentences: Sentences) -> None:
    results = cluster(Fabric(1, 2, gpus=True))
    results.gpus = {rank: GpuResult(rank, h2d_bps=2.6e10) for rank in range(2)}

    sentences(judge(results).advice[-1])


@pytest.mark.parametrize(
    ("name", "nvlink", "pcie"),
    [
        ("NVIDIA H100 80GB HBM3", "NVLink 4", "PCIe 5 x16"),
        ("NVIDIA H100 PCIe", None, "PCIe 5 x16"),
        ("NVIDIA H200", "NVLink 4", "PCIe 5 x16"),
        ("NVIDIA A100-SXM4-80GB", "NVLink 3", "PCIe 4 x16"),
        ("NVIDIA A100 80GB PCIe", None, "PCIe 4 x16"),
        ("Tesla V100-SXM2-32GB", "NVLink 2", "PCIe 3 x16"),
        ("NVIDIA B200", "NVLink 5", None),
        ("AMD Instinct MI300X", "xGMI", None),
        ("cpu", None, None),
    ],
)
def test_the_table_by_the_name_of_the_gpu(name: str, nvlink: str | None, pcie: str | None) -> None:
    rows = matching(NVLINK, name), matching(PCIE, name)

    assert tuple(row.name if row else None for row in rows) == (nvlink, pcie)
