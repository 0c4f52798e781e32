"""Faults of parts that many links share, in clusters of GPUs; and what is nobody's fault."""

from __future__ import annotations

from msgspec.structs import replace

from gpuwatch.probe.judging.judge import MAX_SAMPLE_LINKS, judge, suspects
from gpuwatch.probe.orchestration.planning.nearness import device_of
from gpuwatch.probe.protocol import InventoryGpu, InventoryPort, NodeInventory
from gpuwatch.probe.results import RankSlot
from tests.probe.judging.fabric import Fabric, both_ways, one_way, out_of, through
from tests.sentences import Sentences


def at_nic(node: str, local: int) -> object:
    """All links to other nodes through one NIC."""
    return lambda src, dst: (
        src.node != dst.node and (node, local) in {(src.node, src.local), (dst.node, dst.local)}
    )


def culprits(fabric: Fabric) -> list[tuple[str, str]]:
    """Kind and name."""
    return [(each.kind, each.name) for each in judge(fabric.results()).culprits]


def test_one_nic_of_a_node() -> None:
    fabric = Fabric(4, 8, gpus=True, jitter=0.05)

    assert culprits(fabric.slow(at_nic("host-2", 5))) == [("nic", "host-2 mlx5_5")]  # type: ignore[arg-type]


def test_a_nic_of_two_gpus_that_the_buses_tell_is_named_and_not_its_gpus() -> None:
    """Which GPUs it serves is learnt from their places: two behind each switch, and a NIC beside them."""

    def behind(switch: int, slot: int) -> str:
        return f"pci0000:{switch}0/0000:{switch}0:01.0/0000:{switch}1:00.0/0000:{switch}2:0{slot}.0/dev"

    inventory = NodeInventory(
        host="host",
        pid=1,
        gpus=[InventoryGpu(index=at, uuid=str(at), pci_path=behind(at // 2, at % 2)) for at in range(8)],
        ports=[
            InventoryPort(device=f"mlx5_{at}", port=1, state="ACTIVE", pci_path=behind(at, 2))
            for at in range(4)
        ],
    )
    nics = [device_of(inventory, gpu) or "?" for gpu in inventory.gpus]
    for bad in range(4):
        fabric = Fabric(4, 8, gpus=True, nics=nics, jitter=0.03)
        fabric.slow(lambda src, dst, bad=bad: through("host-2")(src, dst) and src.local // 2 == bad)  # type: ignore[misc]
        assert culprits(fabric) == [("nic", f"host-2 mlx5_{bad}")]


def test_a_node_whose_nics_are_all_slow_is_a_node() -> None:
    assert culprits(Fabric(4, 8, gpus=True).slow(through("host-2"))) == [("node", "host-2")]


def test_the_same_nic_everywhere_is_its_rail(sentences: Sentences) -> None:
    fabric = Fabric(4, 8, gpus=True).slow(lambda src, dst: src.node != dst.node and src.local == 3)
    verdict = judge(fabric.results())

    assert [(each.kind, each.name) for each in verdict.culprits] == [("nic", "rail mlx5_3")]
    sentences(verdict.sentence)


def test_one_direction_of_one_nic() -> None:
    def leaving(src: RankSlot, dst: RankSlot) -> bool:
        return src.node == "host-1" != dst.node and src.local == 0

    assert culprits(Fabric(4, 2, gpus=True).slow(leaving)) == [("direction", "host-1 mlx5_0 egress")]


def test_one_link_of_many_rails_names_its_gpus() -> None:
    def link(src: RankSlot, dst: RankSlot) -> bool:
        return (src.node, dst.node, src.local) == ("host-1", "host-3", 2)

    assert culprits(Fabric(4, 4, gpus=True).slow(link)) == [("link", "host-1 GPU 2 -> host-3 GPU 2")]


def test_two_nodes_of_many_rails_are_one_link() -> None:
    fabric = Fabric(4, 4, gpus=True).slow(both_ways("host-1", "host-3"))

    assert culprits(fabric) == [("link", "host-1 <-> host-3")]


def test_a_gpu_that_is_slow_to_all_of_its_node() -> None:
    def nvlink(src: RankSlot, dst: RankSlot) -> bool:
        return src.node == dst.node == "host-1" and 3 in {src.local, dst.local}

    assert culprits(Fabric(1, 8, gpus=True).slow(lambda src, dst: 3 in {src.local, dst.local})) == [
        ("gpu", "host-0 GPU 3")
    ]
    assert culprits(Fabric(4, 8, gpus=True).slow(nvlink)) == [("gpu", "host-1 GPU 3")]


def test_gpus_on_two_sockets_are_a_layout_not_a_fault(sentences: Sentences) -> None:
    across = Fabric(1, 8, gpus=True).slow(lambda src, dst: (src.local < 4) != (dst.local < 4), to=0.5)
    verdict = judge(across.results())

    assert (verdict.status, verdict.culprits) == ("ok", ())
    sentences(verdict.sentence)
    sentences(verdict.evidence[-1])
    assert "nvidia-smi topo -m" in verdict.evidence[-1]


def test_the_same_layout_on_many_nodes_shows_who_differs() -> None:
    fabric = Fabric(4, 4, gpus=True).slow(
        lambda src, dst: src.node == dst.node and abs(src.local - dst.local) == 2
    )
    assert culprits(fabric) == []

    fabric.slow(lambda src, dst: src.node == dst.node == "host-2" and {src.local, dst.local} == {0, 2})
    assert culprits(fabric) == [("link", "host-2 GPU 0 <-> host-2 GPU 2")]


def test_cpu_ranks_of_one_machine_are_never_to_blame(sentences: Sentences) -> None:
    verdict = judge(Fabric(1, 4).slow(lambda src, dst: 2 in {src.local, dst.local}).results())

    assert (verdict.status, verdict.culprits) == ("ok", ())
    sentences(verdict.sentence)


def test_a_rank_that_hangs_is_named_once_for_its_links_inside_and_outside() -> None:
    fabric = Fabric(4, 4, jitter=0.05).dead(
        lambda src, dst: 6 in {src.rank, dst.rank}, "rank 6 did not answer"
    )

    assert culprits(fabric) == [("node", "host-1 rank 6")]


def test_a_gpu_that_is_slow_inside_and_outside_is_one_culprit() -> None:
    fabric = Fabric(4, 4, gpus=True, jitter=0.05).slow(lambda src, dst: 6 in {src.rank, dst.rank})

    assert culprits(fabric) == [("gpu", "host-1 GPU 2")]


def test_two_slow_nodes_and_a_link() -> None:
    fabric = (
        Fabric(8, jitter=0.05)
        .slow(through("host-1"))
        .slow(through("host-6"))
        .slow(one_way("host-2", "host-3"))
    )

    assert set(culprits(fabric)) == {("node", "host-1"), ("node", "host-6"), ("link", "host-2 -> host-3")}


def test_groups_that_are_slow_to_each_other_share_an_uplink(sentences: Sentences) -> None:
    verdict = judge(Fabric(8).slow(lambda src, dst: (src.rank < 4) != (dst.rank < 4), to=0.5).results())

    assert [each.name for each in verdict.culprits] == ["host-[0-3] <-> host-[4-7]"]
    sentences(verdict.sentence)


def test_a_dead_node_and_a_dead_pair() -> None:
    fabric = Fabric(6, jitter=0.05).dead(through("host-4")).dead(both_ways("host-1", "host-2"))

    assert culprits(fabric) == [("node", "host-4"), ("link", "host-1 <-> host-2")]


def test_nothing_is_named_when_no_two_nodes_can_talk(sentences: Sentences) -> None:
    verdict = judge(Fabric(4).dead(lambda _src, _dst: True).results())

    assert (verdict.status, verdict.culprits) == ("bad", ())
    sentences(verdict.sentence)


def test_links_that_vary_prove_nothing(sentences: Sentences) -> None:
    verdict = judge(Fabric(8).slow(out_of("host-3"), to=0.6, spread=0.5).results())

    assert (verdict.status, verdict.culprits) == ("noisy", ())
    sentences(verdict.sentence)


def test_a_link_that_is_slow_at_its_best_is_slow_however_it_varies() -> None:
    assert culprits(Fabric(8).slow(out_of("host-3"), to=0.2, spread=0.5)) == [("direction", "host-3 egress")]


def test_links_between_the_lines_are_reported_and_nobody_is_blamed(sentences: Sentences) -> None:
    verdict = judge(Fabric(8).slow(through("host-5"), to=0.8).results())

    assert (verdict.status, verdict.culprits) == ("ok", ())
    sentences(verdict.sentence)


def test_a_few_fast_links_are_a_doubt(sentences: Sentences) -> None:
    verdict = judge(Fabric(8).slow(both_ways("host-1", "host-2"), to=4.0).results())

    assert (verdict.status, verdict.culprits) == ("noisy", ())
    sentences(verdict.sentence)


def test_a_few_links_of_a_culprit_are_measured_again_and_settle_it(sentences: Sentences) -> None:
    fabric = Fabric(8).slow(through("host-5"))
    asked = suspects(fabric.results())
    assert len(asked) == MAX_SAMPLE_LINKS
    assert {5 in pair for pair in asked} == {True}
    assert {src == 5 for src, _ in asked} == {True, False}

    stays = Fabric(8).slow(through("host-5"))
    for pair in asked:
        stays.pairs[pair] = replace(stays.pairs[pair], retested=True)
        fabric.pairs[pair] = replace(fabric.pairs[pair], retested=True, bandwidth_gb_per_s=24.0)
    assert suspects(stays.results()) == []
    assert culprits(stays) == [("node", "host-5")]

    verdict = judge(fabric.results())
    assert (verdict.status, verdict.culprits) == ("noisy", ())
    sentences(verdict.sentence)
