"""A full inbox drops samples first, and reports what it dropped as a loss of each node."""

from __future__ import annotations

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, Inbox, LinkStatus, Refused
from gpuwatch.wire import Hello, Sample


def test_every_dropped_arrival_is_a_refused_frame_of_its_node() -> None:
    inbox = Inbox(limit=10)
    inbox.put(Arrival("n1", 0.0, LinkStatus("live")))
    hello = Hello(t=0.0, seq=0, host="n1", agent="1", python="3", pid=1, interval_s=1.0)
    inbox.put(Arrival("n1", 0.0, hello))
    for number in range(30):
        inbox.put(Arrival(f"n{1 + number % 3 // 2}", float(number), Sample(t=0.0, seq=number)))
    taken = inbox.drain()
    losses = {each.node: each.what.count for each in taken if isinstance(each.what, Refused)}
    assert sum(losses.values()) == inbox.dropped == 22
    assert losses == {"n1": 15, "n2": 7}
    assert [each.what.seq for each in taken if isinstance(each.what, Sample)] == list(range(22, 30))
    fleet = Fleet(Plan((NodeSpec("n1"), NodeSpec("n2"))))
    for each in taken:
        fleet.apply(each)
    assert {name: node.refused for name, node in fleet.nodes.items()} == losses
    assert fleet.nodes["n1"].link.phase == "live"
    assert fleet.nodes["n1"].hello is not None
    assert not [each for each in inbox.drain() if isinstance(each.what, Refused)]
