"""Which interface, which ranks, and where the ranks meet."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import structs

from gpuwatch.probe.orchestration.planning.assignment import assign_slots
from gpuwatch.probe.orchestration.planning.choice import AddressChoice, NoNetworkError, choose
from gpuwatch.probe.orchestration.stages.reach import settle
from gpuwatch.probe.probe_request import ProbeRequest
from gpuwatch.probe.protocol import InventoryNic, InventoryPort, NodeInventory
from tests.probe.orchestration.scripted import inventory
from tests.sentences import Sentences


def node(host: str, *nics: tuple[str, str], speed: dict[str, float] | None = None) -> NodeInventory:
    """(name, address/prefix) of each interface."""
    listed = [
        InventoryNic(
            name=name,
            address=at.split("/")[0],
            prefix=int(at.split("/")[1]),
            speed_bps=(speed or {}).get(name),
        )
        for name, at in (("lo", "127.0.0.1/8"), *nics)
    ]
    return NodeInventory(host=host, pid=1, python="python3", torch="2.1", nics=listed)


def chosen(choice: AddressChoice) -> dict[str, str]:
    return {name: f"{each.interface} {each.address}" for name, each in choice.of.items()}


def test_the_subnet_that_all_share_whatever_the_names(sentences: Sentences) -> None:
    choice = choose(
        {
            "a": node("a", ("eth0", "10.1.0.1/16"), ("docker0", "172.17.0.1/16")),
            "b": node("b", ("ens5", "10.1.0.2/16"), ("docker0", "172.17.0.1/16"), ("eth9", "192.168.7.2/24")),
            "c": node("c", ("eth0", "10.1.9.3/16")),
        }
    )
    assert chosen(choice) == {"a": "eth0 10.1.0.1", "b": "ens5 10.1.0.2", "c": "eth0 10.1.9.3"}
    sentences(choice.words)


def test_the_faster_of_two_networks() -> None:
    speed = {"eth0": 1.25e8, "ib0": 5e10}
    inventories = {
        name: node(name, ("eth0", f"10.0.0.{at}/24"), ("ib0", f"10.9.0.{at}/24"), speed=speed)
        for at, name in enumerate("ab", 1)
    }
    choice = choose(inventories)
    assert choice.words == "ib0 (10.9.0.0/24)"
    assert choice.slowest_bps == 5e10
    unknown = [structs.replace(each, speed_bps=0.0) for each in choice.of.values()]
    assert structs.replace(choice, of=dict(zip("ab", unknown, strict=True))).slowest_bps is None


def test_one_machine_talks_over_loopback() -> None:
    alone = node("a", ("eth0", "10.1.0.1/16"))
    assert chosen(choose({"a": alone})) == {"a": "lo 127.0.0.1"}
    assert set(chosen(choose({"a": alone, "again": alone})).values()) == {"lo 127.0.0.1"}


def test_network_namespaces_share_a_host_name_and_are_no_machine_of_one() -> None:
    choice = choose({f"h{at}": node("vm", ("veth0", f"10.77.0.1{at}/24")) for at in range(4)})
    assert chosen(choice)["h3"] == "veth0 10.77.0.13"


def test_a_bridge_that_all_have_with_one_address_is_no_network() -> None:
    inventories = {name: node(name, ("br0", "192.168.122.1/24")) for name in "ab"}
    with pytest.raises(NoNetworkError, match=r"a: br0 192.168.122.1/24; b: .*--interface"):
        choose(inventories)


def test_routed_networks_go_by_the_name() -> None:
    choice = choose({"a": node("a", ("eth0", "10.1.0.1/24")), "b": node("b", ("eth0", "10.2.0.1/24"))})
    assert chosen(choice) == {"a": "eth0 10.1.0.1", "b": "eth0 10.2.0.1"}
    assert choice.note is not None
    assert "routed" in choice.note


def test_one_node_elsewhere_is_left_out_with_the_reason() -> None:
    choice = choose(
        {
            "a": node("a", ("eth0", "10.1.0.1/16")),
            "b": node("b", ("eth0", "10.1.0.2/16")),
            "c": node("c", ("wlan0", "192.168.1.9/24")),
        }
    )
    assert set(choice.of) == {"a", "b"}
    assert "10.1.0.0/16" in choice.without["c"]


def test_a_named_interface_wins_and_who_has_none_is_reported() -> None:
    choice = choose(
        {
            "a": node("a", ("eth0", "10.1.0.1/16"), ("ib0", "10.9.0.1/16")),
            "b": node("b", ("eth0", "10.1.0.2/16")),
        },
        "ib0",
    )
    assert chosen(choice) == {"a": "ib0 10.9.0.1"}
    assert "no interface ib0" in choice.without["b"]
    assert "lo, eth0" in choice.without["b"]
    with pytest.raises(NoNetworkError, match="no node has an interface bond7"):
        choose({"a": node("a")}, "bond7")


def test_addresses_that_are_none_are_passed_over() -> None:
    odd = node("a", ("eth0", "10.1.0.1/16"))
    odd = msgspec.structs.replace(odd, nics=[*odd.nics, InventoryNic(name="x", address="what?", prefix=99)])
    inventories = {"a": odd, "b": node("b", ("eth0", "10.1.0.2/16"), ("eth1", "169.254.0.1/16"))}
    assert chosen(choose(inventories))["a"] == "eth0 10.1.0.1"


def test_a_rank_a_gpu_over_nccl_and_the_port_that_leaves_no_doubt() -> None:
    inventories = {name: inventory(name, at, 4) for at, name in enumerate("ab")}
    port = InventoryPort(device="mlx5_0", port=1, state="4: ACTIVE", rate_gbps=400.0)
    inventories["b"] = msgspec.structs.replace(inventories["b"], ports=[port])
    assignment = assign_slots(inventories, ProbeRequest(), choose(inventories))
    assert assignment.backend == "nccl"
    assert [(slot.node, slot.local, slot.gpu) for slot in assignment.slots[3:6]] == [
        ("a", 3, 3),
        ("b", 0, 0),
        ("b", 1, 1),
    ]
    assert {slot.node: slot.nic for slot in assignment.slots} == {"a": "eth0", "b": "mlx5_0"}
    fewer = assign_slots(inventories, ProbeRequest(ranks_per_node=2), choose(inventories))
    assert [slot.local for slot in fewer.slots] == [0, 1, 0, 1]


def test_cpu_ranks_over_gloo_where_a_node_has_no_gpu() -> None:
    inventories = {"a": inventory("a", 0, 8), "b": inventory("b", 1)}
    assignment = assign_slots(inventories, ProbeRequest(), choose(inventories))
    assert assignment.backend == "gloo"
    assert {slot.device for slot in assignment.slots} == {"cpu"}
    assert any("fabric" in note for note in assignment.notes)
    only_gpus = assign_slots(inventories, ProbeRequest(backend="nccl"), choose(inventories))
    assert {slot.node for slot in only_gpus.slots} == {"a"}
    assert "no GPU" in only_gpus.without["b"]


def test_nccl_needs_a_torch_that_was_built_for_it() -> None:
    inventories = {"a": inventory("a", 0, 2, torch="2.13.0+cpu")}
    assert assign_slots(inventories, ProbeRequest(), choose(inventories)).backend == "gloo"
    assert (
        "without CUDA"
        in assign_slots(inventories, ProbeRequest(backend="nccl"), choose(inventories)).without["a"]
    )


def test_two_names_of_one_machine_share_no_gpu() -> None:
    one = msgspec.structs.replace(inventory("a", 0, 2), boot_id="5f0c")
    assignment = assign_slots({"a": one, "again": one}, ProbeRequest(), choose({"a": one, "again": one}))
    assert {slot.node for slot in assignment.slots} == {"a"}
    assert "same GPUs as a" in assignment.without["again"]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("boot_id", ["77aa", None])
@pytest.mark.parametrize("stolen", [1, 2])
def test_a_node_that_lists_one_other_nodes_gpus_gets_neither_named_alone(
    stolen: int, boot_id: str | None, *, first: bool
) -> None:
    honest = {
        name: msgspec.structs.replace(inventory(name, place, 2), boot_id=f"5f0{place}")
        for place, name in enumerate("abc")
    }
    listed = honest["b"].gpus[:stolen]
    liar = {"liar": msgspec.structs.replace(inventory("liar", 3, 2), gpus=listed, boot_id=boot_id)}
    inventories = liar | honest if first else honest | liar
    assignment = assign_slots(inventories, ProbeRequest(), choose(inventories))
    assert {slot.node for slot in assignment.slots} == {"a", "c"}
    assert set(assignment.without) == {"b", "liar"}
    assert "liar" in assignment.without["b"]
    assert "b" in assignment.without["liar"]


@pytest.mark.parametrize("first", [True, False])
def test_a_node_that_lists_the_gpus_of_others_leaves_none_of_them_out(first: bool) -> None:
    honest = {name: inventory(name, place, 2) for place, name in enumerate("abc")}
    listed = [gpu for each in honest.values() for gpu in each.gpus]
    liar = {"liar": msgspec.structs.replace(inventory("liar", 3, 2), gpus=listed)}
    inventories = liar | honest if first else honest | liar
    assignment = assign_slots(inventories, ProbeRequest(), choose(inventories))
    assert {slot.node for slot in assignment.slots} == set("abc")
    assert set(assignment.without) == {"liar"}
    assert all(name in assignment.without["liar"] for name in "abc")


def test_where_nothing_tells_two_claimants_apart_both_are_left_out() -> None:
    one, other = inventory("a", 0, 2), inventory("b", 1, 2)
    other = msgspec.structs.replace(other, gpus=[*other.gpus, one.gpus[0]])
    inventories = {"a": one, "b": other, "c": inventory("c", 2, 2)}
    assignment = assign_slots(inventories, ProbeRequest(), choose(inventories))
    assert {slot.node for slot in assignment.slots} == {"c"}
    assert "b" in assignment.without["a"]
    assert "a" in assignment.without["b"]


def test_a_machine_with_one_core_still_has_somebody_to_talk_to() -> None:
    small = msgspec.structs.replace(inventory("a", 0), cpus=1)
    assert len(assign_slots({"a": small}, ProbeRequest(), choose({"a": small})).slots) == 2


def test_the_store_goes_where_everybody_gets() -> None:
    assert settle(["a", "b", "c"], {}) == ("a", {})
    assert settle(["a", "b", "c"], {("c", "a"): "no route"}) == ("b", {})


def test_who_reaches_nobody_is_left_out(sentences: Sentences) -> None:
    failures = {("b", "a"): "no route", ("b", "c"): "no route"}
    store, without = settle(["a", "b", "c"], failures)
    assert store == "a"
    sentences(without)


def test_of_two_that_cannot_meet_one_is_left_with_the_reason(sentences: Sentences) -> None:
    store, without = settle(["a", "b"], {("a", "b"): "refused", ("b", "a"): "refused"})
    assert store == "a"
    sentences(without)


def test_a_name_that_no_interface_has_is_reported_with_those_there_are() -> None:
    inventories = {"a": inventory("a", 1), "b": inventory("b", 2)}
    with pytest.raises(NoNetworkError, match=r"no node has an interface ib9 .*there are: .*eth0"):
        choose(inventories, "ib9")
