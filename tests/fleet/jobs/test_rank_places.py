"""Which node an address in a line means."""

from __future__ import annotations

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.jobs.rank_places import places_of
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.wire import Hello


def hello(host: str, *addresses: str) -> Hello:
    return Hello(
        t=1.0, seq=1, host=host, agent="", python="", pid=1, interval_s=1.0, addresses=list(addresses)
    )


def test_an_address_leads_to_the_node_that_alone_has_it() -> None:
    fleet = Fleet(Plan((NodeSpec("a"), NodeSpec("b")), interval_s=1.0, source="test"))
    fleet.apply(Arrival("a", 1.0, hello("host-a", "10.0.0.1", "172.30.0.1", "fd00::1")))
    fleet.apply(Arrival("b", 1.0, hello("host-b", "10.0.0.2", "172.30.0.1")))
    known = places_of(list(fleet.nodes.values())).addresses
    assert (known["10.0.0.1"], known["10.0.0.2"], known["fd00::1"], known["host-a"]) == ("a", "b", "a", "a")
    assert "172.30.0.1" not in known
