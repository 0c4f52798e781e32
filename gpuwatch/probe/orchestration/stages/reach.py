"""Tests which nodes can connect to which before any rank starts, so that a firewall causes no hang."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gpuwatch.probe.orchestration.planning.choice import NodeAddress
from gpuwatch.probe.orchestration.stages.preflight import replan
from gpuwatch.probe.orchestration.stages.run import FailedError, ProbeRun
from gpuwatch.probe.protocol import Listen, Listening, Reached, Target, TryReach
from gpuwatch.probe.results import Unreachable

LISTEN_S = 10.0
TRY_S = 5.0
TRY_MARGIN_S = 10.0


class Rendezvous(Struct, frozen=True):
    """The node and address of the store, through which the ranks find each other."""

    node: str
    address: str
    port: int
    pairs_only: bool
    """True if some pair of nodes cannot communicate: a group of all ranks would hang."""


def reach(run: ProbeRun) -> Rendezvous:
    """Make every node listen and connect to every other; return the node and address of the store.

    Nodes that cannot take part are left out. Sets `results.unreachable` and `run.dead`.

    Raises:
        FailedError: no node can listen, a node was lost, or fewer than two of several are left.
        CancelledError: the user has cancelled.
    """
    run.enter("reaching")
    assert run.choice is not None  # noqa: S101 - the preflight has made it
    places = _listen(run, run.choice.of)
    if not places:
        raise FailedError("no node could listen: " + "; ".join(run.results.notes[-1:]))
    failures = _try_all(run, places) if len(places) > 1 else {}
    run.results.unreachable = [Unreachable(src, dst, error) for (src, dst), error in failures.items()]
    run.changed()
    store, without = settle(list(places), failures)
    if without:
        if len(without) == len(places) - 1:
            raise FailedError("no two nodes can reach each other: " + next(iter(without.values())))
        replan(run, without)
    run.dead = {
        (src, dst): f"{src} cannot connect to {dst}: {error}"
        for (src, dst), error in failures.items()
        if src not in without and dst not in without
    }
    if run.dead:
        run.note(
            "some nodes cannot reach each other, so there is no group of all ranks: "
            "no collectives, only pairs that can connect are measured"
        )
    return Rendezvous(store, places[store].address, places[store].port, pairs_only=bool(run.dead))


def settle(nodes: list[str], failures: Mapping[tuple[str, str], str]) -> tuple[str, dict[str, str]]:
    """Return the node of the store, and node -> reason for those left out.

    Of more than two, a node that no other node reaches, or that reaches no other node, is left out. The store
    is on the node that the most nodes reach; nodes that do not reach it are left out too.

    Args:
        nodes: All that listen, in order.
        failures: (from, to) -> error.
    """
    without: dict[str, str] = {}
    for node in nodes if len(nodes) > 2 else ():
        others = [other for other in nodes if other != node]
        for pairs, words in (
            ([(other, node) for other in others], "no other node can connect to it"),
            ([(node, other) for other in others], "it cannot connect to any other node"),
        ):
            if node not in without and all(pair in failures for pair in pairs):
                without[node] = f"{words} ({failures[pairs[0]]})"
    left = [node for node in nodes if node not in without] or nodes[:1]
    store = min(left, key=lambda node: sum((other, node) in failures for other in left))
    for node in left:
        if (node, store) in failures:
            without[node] = (
                f"it cannot connect to {store}, the rendezvous of the ranks ({failures[node, store]})"
            )
    return store, without


def _listen(run: ProbeRun, addresses: Mapping[str, NodeAddress]) -> dict[str, Listening]:
    waiting = dict.fromkeys(run.inventories)
    for node in waiting:
        run.pool.send([node], Listen(address=addresses[node].address))
    places: dict[str, Listening] = {}
    problems: dict[str, str] = {}
    until = run.clock() + LISTEN_S
    while waiting and (received := run.receive(until)) is not None:
        node, message = received
        if isinstance(message, Listening) and node in waiting:
            del waiting[node]
            if message.error is None:
                places[node] = message
            else:
                problems[node] = f"it cannot listen on {addresses[node].address}: {message.error}"
    problems.update(dict.fromkeys(waiting, "it did not begin to listen"))
    if problems:
        for node in problems:
            places.pop(node, None)
        if places:
            replan(run, problems)
        else:
            raise FailedError("; ".join(f"{node}: {words}" for node, words in problems.items()))
    return {node: places[node] for node in run.inventories}


def _try_all(run: ProbeRun, places: Mapping[str, Listening]) -> dict[tuple[str, str], str]:
    targets = {
        node: Target(node=node, address=place.address, port=place.port) for node, place in places.items()
    }
    for node in places:
        others = [target for name, target in targets.items() if name != node]
        run.pool.send([node], TryReach(targets=others, timeout_s=TRY_S))
    waiting = dict.fromkeys(places)
    failures: dict[tuple[str, str], str] = {}
    until = run.clock() + TRY_S + TRY_MARGIN_S
    while waiting and (received := run.receive(until)) is not None:
        node, message = received
        if isinstance(message, Reached) and node in waiting:
            del waiting[node]
            tries = {each.node: each for each in message.tries}
            for other in places:
                tried = tries.get(other)
                if other != node and (tried is None or not tried.ok):
                    failures[node, other] = (tried.error if tried else None) or "it was not tried"
    for node in waiting:
        for other in places:
            if other != node:
                failures[node, other] = "it did not report which nodes it can reach"
    return failures
