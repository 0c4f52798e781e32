"""What happened on a node before a job started is no matter of that job."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.agent.trees import UPTIME, Kmsg
from tests.end_to_end.cluster import watch
from tests.end_to_end.launched import launched, pause, quick_session
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT

XID = "NVRM: Xid (PCI:0000:{:02x}:00): 79, pid=4711, name=python, GPU has fallen off the bus."


def test_an_xid_is_of_no_job_that_started_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kmsg = Kmsg(tmp_path / "kmsg")
    settings = {"n1": {"kmsg": kmsg.path}}

    def emit(bus: int) -> None:
        kmsg.emit(XID.format(bus), ago=UPTIME - time.clock_gettime(time.CLOCK_BOOTTIME))

    try:
        with quick_session(monkeypatch, settings=settings) as session:
            watch(session, lambda fleet, _now: fleet.nodes["n1"].hello is not None)
            emit(0x11)
            watch(session, lambda _fleet, _now: len(session.book.incidents) == 1)
            pause(session, 6.0)  # more than the clocks of two nodes may differ
            with launched(session, tmp_path / "job", "later") as job:
                job.order(1, "exit")
                job.until(lambda: [one.code for one in job.incidents()] == ["rank.exit_error"])

                def of_no_job() -> list[tuple[str, int | None]]:
                    return [(one.code, one.rank) for one in session.book.incidents if one.job is None]

                watch(session, lambda _fleet, _now: of_no_job() == [("gpu.xid.fell_off", None)])
    finally:
        os.close(kmsg.writer)
