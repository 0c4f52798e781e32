"""Nodes and jump hosts that are lost and come back, and connections whose keys are exchanged anew."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuwatch.hosts.plan import Plan
from gpuwatch.session import Session
from tests.end_to_end.chaos.simulated import FORCED, LATE_S, all_live, all_lost, reported, worst_age_s
from tests.end_to_end.cluster import plan_of, watch
from tests.link.watching import holdings, nothing_left, until
from tests.servers.sshd import Client, Sshd

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def test_half_of_200_nodes_are_lost_at_once_and_come_back(tmp_path: Path) -> None:
    client = Client(tmp_path / "client")
    kept, cut = ([f"{side}-{number:03d}" for number in range(100)] for side in ("kept", "cut"))
    with (
        nothing_left(),
        Sshd(tmp_path / "kept", client=client, names=kept, lines=(FORCED,)),
        Sshd(tmp_path / "cut", client=client, names=cut, lines=(FORCED,)) as lost,
        Session(plan_of([*kept, *cut]), client.options()) as session,
    ):
        watch(session, partial(all_live, [*kept, *cut]), 240)
        threads, descriptors, _ = holdings()
        lost.stop()
        watch(session, partial(all_lost, cut), 60)
        assert worst_age_s(session, kept, 10.0) <= LATE_S
        assert all_live(
            kept, session.fleet, max(node.received_at or 0.0 for node in session.fleet.nodes.values())
        )
        lost.restart()
        watch(session, partial(all_live, [*kept, *cut]), 240)
        until(lambda: len(holdings()[0]) <= len(threads) + 1, "threads")  # one may still send its first bytes
        assert holdings()[1] <= descriptors
        assert session.inbox.dropped == 0
        assert reported(session) <= {"node_lost"}


def test_a_bastion_that_restarts_brings_all_nodes_behind_it_back(tmp_path: Path) -> None:
    client = Client(tmp_path / "client")
    behind, beside = [f"node-{number}" for number in range(16)], ["direct"]
    with (
        nothing_left(),
        Sshd(tmp_path / "bastion", client=client, names=["bastion"]) as bastion,
        Sshd(tmp_path / "node", client=client, names=[*behind, *beside], lines=(FORCED,)) as node,
    ):
        specs = [replace(node.spec(name), jump="bastion") for name in behind]
        plan = Plan((*specs, node.spec("direct")), source="test")
        with Session(plan, client.options()) as session:
            watch(session, partial(all_live, [*behind, *beside]), 120)
            assert bastion.logins() == 1
            bastion.stop()
            watch(session, partial(all_lost, behind), 60)
            assert worst_age_s(session, beside, 5.0) <= LATE_S
            bastion.restart()
            watch(session, partial(all_live, [*behind, *beside]), 120)
            assert bastion.logins() == 2
            assert reported(session) <= {"node_lost"}


def test_no_frame_is_lost_while_ssh_exchanges_keys_anew(tmp_path: Path) -> None:
    names = [f"node-{number}" for number in range(4)]
    often = ("RekeyLimit 16K 2", "LogLevel DEBUG1", FORCED)
    with nothing_left(), Sshd(tmp_path / "sshd", names=names, lines=often) as sshd:
        with Session(plan_of(names), sshd.client.options()) as session:
            watch(session, partial(all_live, names), 60)
            assert worst_age_s(session, names, 20.0) <= LATE_S
            nodes = session.fleet.nodes.values()
            assert [(node.link.phase, node.link.attempt, node.refused) for node in nodes] == [
                ("live", 1, 0)
            ] * 4
        exchanged = len(re.findall(r"SSH2_MSG_NEWKEYS received", sshd.log.read_text(errors="replace")))
        assert exchanged >= 3 * len(names)
