"""NCCL's dumps: rings and trees, which NIC serves which GPU, and what is slower than its neighbours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuwatch.diagnose.traces.topology_verdict import judge_topology
from gpuwatch.runs.traces.event_stream import NoTraceError
from gpuwatch.runs.traces.nccl_dump import read_nccl_dump
from gpuwatch.runs.traces.trace_files import gather_traces
from tests.runs.traces.gpu_traces import training
from tests.runs.traces.nccl_dumps import GRAPHS, topology, virtual_machine


def test_rings_and_trees_have_their_ways_and_speeds() -> None:
    """Document 004, line 141."""
    ring, tree = read_nccl_dump(GRAPHS.encode(), "graph.xml").graphs
    assert (ring.name, len(ring.channels), ring.speed_intra, ring.type_intra) == ("ring", 2, 20.0, "NVL")
    assert ring.channels[1] == ("NET 1", "GPU 1", "GPU 0", "GPU 3", "GPU 2", "NET 1")
    assert (tree.name, tree.type_inter) == ("tree", "PIX")


def test_each_gpu_is_served_by_the_nic_behind_its_switch() -> None:
    dump = read_nccl_dump(topology().encode(), "topo.xml")
    gpus = [each for each in dump.devices if each.kind == "GPU"]
    served = [dump.nics_of(gpu) for gpu in gpus]
    assert [(near[0].name, how) for near, how in served] == [(f"mlx5_{at}", "PIX") for at in range(8)]
    assert judge_topology(dump) == ()


def test_gpus_of_a_cpu_that_lost_its_nics_are_named() -> None:
    left = re.sub(r'<nic><net name="mlx5_[4-7]".*?</nic>', "", topology())
    flags = judge_topology(read_nccl_dump(left.encode(), "topo.xml"))
    assert [(flag.code, flag.rank) for flag in flags] == [("topology.far_nic", rank) for rank in range(4, 8)]


def test_a_real_machine_with_one_nic_has_no_gpu_that_differs() -> None:
    written, graphs = virtual_machine()
    dump = read_nccl_dump(written.encode(), "topo.xml")
    gpus = [each for each in dump.devices if each.kind == "GPU"]
    assert [(each.nvlinks, each.pcie_gtps, dump.nics_of(each)[1]) for each in gpus] == [
        (12, None, how) for how in ("PHB", "SYS", "SYS", "SYS")
    ]
    assert judge_topology(dump) == ()
    ring, tree, chain = read_nccl_dump(graphs.encode(), "graph.xml").graphs
    assert (ring.channels[1], len(tree.channels)) == (("GPU 0", "GPU 3", "GPU 2", "GPU 1"), 4)
    assert (chain.name, chain.speed_inter) == ("collnet chain", 12.0)


def test_a_gpu_with_fewer_links_than_its_neighbours_is_named() -> None:
    dump = read_nccl_dump(topology(nvlinks={5: 0}, widths={2: 8}).encode(), "topo.xml")
    flags = judge_topology(dump)
    assert [(flag.code, flag.label, flag.rank) for flag in flags] == [
        ("topology.nvlinks", "GPU 5", 5),
        ("topology.pcie", "GPU 2", 2),
    ]


def test_dumps_lie_beside_traces(tmp_path: Path) -> None:
    (tmp_path / "nccl_graph.xml").write_text(GRAPHS)
    (tmp_path / "nccl_topo.xml").write_text(topology())
    training(0).write(tmp_path / "rank0.json")
    found = gather_traces([tmp_path])
    assert (len(found.dumps), len(found.profiles), found.skipped) == (2, 1, [])


@pytest.mark.parametrize(
    "text",
    [
        "<system/>",
        "<html><body/></html>",
        "<graphs",
        '<!DOCTYPE a [<!ENTITY b "c">]><system/>',
        "<system>" + "<pci>" * 500 + "</pci>" * 500 + "</system>",
    ],
)
def test_what_is_no_dump_is_refused(text: str) -> None:
    with pytest.raises(NoTraceError):
        read_nccl_dump(text.encode(), "x.xml")
