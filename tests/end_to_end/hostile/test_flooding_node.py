"""A node that tells without an end loses its link; memory, the screen and other nodes stay as they were."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from gpuwatch.hosts.load import parse_plan
from gpuwatch.session import Session
from tests.end_to_end.cluster import plan_of
from tests.end_to_end.tty.pty_program import Pty
from tests.servers.sshd import Client, Sshd

pytestmark = pytest.mark.long

AGENT = str(Path(__file__).with_name("flooding_agent.py"))
KINDS = ("gpus", "titles", "findings", "small findings", "phases", "files", "processes", "missing",
         "small processes", "invalid rows", "ranks", "progress", "empty lines")  # fmt: skip
WITHIN_BUDGETS = ("small findings", "invalid rows")
"""Floods that may stay below the limits, on a busy machine."""
FLOOD_S = 15.0
SETTLED_S = 5.0
"""The honest node's agent has started by then."""


def hosts(kind: str) -> str:
    return (
        f"hosts:\n  - {{name: flood, command: ['{sys.executable}', '{AGENT}', '{kind}']}}\n"
        "  - {name: honest, link: local}\n"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_flood_costs_its_own_node_the_link_and_no_other_anything(kind: str) -> None:
    check(Session(parse_plan(hosts(kind), "test")), kind)


@pytest.mark.parametrize("kind", ["findings", "empty lines", "small findings", "ranks"])
def test_a_flood_over_the_connections_that_one_thread_reads_costs_its_own_node_alone(
    kind: str, tmp_path: Path
) -> None:
    client = Client(tmp_path / "client")
    lines = (f"ForceCommand {sys.executable} {AGENT} '{kind}'",)
    with (
        Sshd(tmp_path / "flood", client=client, names=["flood"], lines=lines),
        Sshd(tmp_path / "honest", client=client, names=["honest"]),
    ):
        check(Session(plan_of(["flood", "honest"]), client.options()), kind)


def check(started: Session, kind: str) -> None:
    """Fail unless the nodes `flood` and `honest` of a session are as the module's first line says."""
    process = psutil.Process()
    oldest = peak = 0.0
    reasons: set[str] = set()
    with started as session:
        flood, honest = session.fleet.nodes["flood"], session.fleet.nodes["honest"]
        base, began = process.memory_info().rss, None
        end = time.monotonic() + 120.0
        while time.monotonic() < end:
            session.poll()
            now = time.monotonic()
            if began is None and honest.received_at is not None:
                began, end = now, now + FLOOD_S
            if began is not None and now - began > SETTLED_S:
                oldest = max(oldest, honest.age(now) or 0.0)
            if flood.link.phase == "lost":
                reasons.add(flood.link.reason)
            flood = session.fleet.nodes["flood"]
            peak = max(peak, float(process.memory_info().rss - base))
            time.sleep(0.1)
    assert began is not None
    assert reasons or kind in WITHIN_BUDGETS
    assert peak < 300e6
    assert oldest < 2.0


@pytest.mark.parametrize(
    "kind", ["small findings", "processes", "findings", "small processes", "ranks", "progress", "empty lines"]
)
def test_the_screen_ends_within_a_second_under_a_flood(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text(hosts(kind))
    program = Pty([sys.executable, "-m", "gpuwatch", str(path)])
    try:
        program.read_until(lambda seen: b"flood" in seen)
        until = time.monotonic() + FLOOD_S
        program.read_until(lambda _: time.monotonic() > until)
        os.write(program.fd, b"q")
        began = time.monotonic()
        program.read_until(lambda seen: b"\x1b[?1049l" in seen)
        assert time.monotonic() - began < 1.0
    finally:
        program.end()
