"""`once --wait`: a node whose sshd refuses the first logins (MaxStartups) is dialled again, and reported."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.report.once.first_report import wait_for_first_report
from gpuwatch.session import Session
from tests.servers.sshd import Sshd

REFUSED_S = 4.0


def test_a_report_waits_for_a_node_that_refuses_at_first(tmp_path: Path) -> None:
    with Sshd(tmp_path / "n1", names=("n1",), lines=("MaxStartups 1:100:1",)) as sshd:
        held = socket.create_connection(("127.0.0.1", sshd.port))  # it never logs in
        release = threading.Timer(REFUSED_S, held.close)
        try:
            plan = Plan((NodeSpec("n1"),), interval_s=0.5, source="test")
            with Session(plan, sshd.client.options()) as session:
                release.start()
                wait_for_first_report(session, 90.0)
                node = session.fleet.nodes["n1"]
                assert (node.link.phase, node.hello is not None) == ("live", True)
            assert "MaxStartups" in sshd.log.read_text()
        finally:
            release.cancel()
            held.close()
