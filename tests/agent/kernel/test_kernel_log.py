from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuwatch import wire
from gpuwatch.agent.kernel.kernel_log import MAX_EVENTS, KernelLog, gather
from tests.agent.trees import UPTIME, Clock, Kmsg, wait_until
from tests.waiting import alive

NOW = 1_700_000_000.0
ROOT = Path(__file__).resolve().parents[3]
XID = "NVRM: Xid (PCI:0000:{bus}:00): {code}, pid=1234, name=python3, something"


@pytest.fixture
def kmsg(tmp_path: Path) -> Iterator[Kmsg]:
    device = Kmsg(tmp_path / "kmsg")
    yield device
    os.close(device.writer)


def follow(kmsg: Kmsg, clock: Clock | None = None) -> KernelLog:
    return KernelLog(clock=clock or Clock(NOW), kmsg=kmsg.path, monotonic=Clock(UPTIME))


def drain(log: KernelLog, enough: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def more() -> bool:
        found.extend(log.poll())
        return enough(found)

    assert wait_until(more, time.sleep)
    return found


def test_the_real_device_is_read_where_it_may_be() -> None:
    log = KernelLog()
    readable = os.access("/dev/kmsg", os.R_OK)
    assert (log.source == "/dev/kmsg") == readable
    assert (log.notice is None) == (log.source is not None)
    assert all(one["event"] in ("xid", "sxid") for one in log.poll())
    log.close()


def test_xids_of_the_last_day_come_with_their_own_time(kmsg: Kmsg) -> None:
    log = follow(kmsg)
    kmsg.emit(XID.format(bus="41", code=48), ago=30 * 3600)
    kmsg.emit("usb 1-1: new device", ago=10)
    kmsg.emit(XID.format(bus="42", code=79), ago=9, priority=12)  # a program wrote it
    kmsg.emit(XID.format(bus="41", code=79), ago=3600)
    (found,) = log.poll()
    assert (found["code"], found["t"], found["bus_id"]) == (79, NOW - 3600, "00000000:41:00.0")
    found.pop("bus_id")
    event = msgspec.convert(dict(found, kind="event", seq=1), wire.Event)
    assert (event.event, event.severity, event.source, event.pid) == ("xid", "critical", "kernel", 1234)
    assert log.poll() == []
    log.close()


def test_a_new_record_is_never_before_the_poll_that_did_not_see_it(kmsg: Kmsg) -> None:
    """The kernel's own clock drifts; what came between two polls happened between them."""
    clock = Clock(NOW)
    log = KernelLog(clock=clock, kmsg=kmsg.path, monotonic=lambda: UPTIME + clock.now - NOW)
    assert log.poll() == []
    kmsg.emit(XID.format(bus="41", code=79), ago=40)
    clock.now += 1
    assert log.poll()[0]["t"] == NOW
    log.close()


def test_a_flood_is_one_event_with_a_count(kmsg: Kmsg) -> None:
    log = follow(kmsg)
    for ago in (500, 450, 400, 100):
        kmsg.emit(XID.format(bus="41", code=31), ago)
        kmsg.emit(XID.format(bus="42", code=31), ago)
    found = [(one["bus_id"], one["t"], one["count"]) for one in log.poll()]
    first, second = "00000000:41:00.0", "00000000:42:00.0"
    early, late = NOW - 500, NOW - 100
    assert found == [(first, early, 3), (second, early, 3), (first, late, 1), (second, late, 1)]
    log.close()


def test_more_than_anybody_reads_is_counted() -> None:
    records = [(NOW + 100 * second, XID.format(bus="41", code=31)) for second in range(MAX_EVENTS + 9)]
    found = gather(records)
    assert len(found) == MAX_EVENTS + 1
    assert str(found[0]["title"]).startswith("9 older errors")
    assert found[-1]["t"] == records[-1][0]


def test_the_fall_next_to_its_xid_is_reported_once(kmsg: Kmsg) -> None:
    log = follow(kmsg)
    kmsg.emit("NVRM: GPU 0000:41:00.0: GPU has fallen off the bus.")
    kmsg.emit("NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.")
    kmsg.emit("NVRM: The NVIDIA GPU 0000:b3:00.0\\x0aNVRM: installed here has\\x0aNVRM: fallen off the bus")
    found = [(one["code"], one["bus_id"]) for one in log.poll()]
    assert found == [(79, "00000000:41:00.0"), (None, "00000000:B3:00.0")]
    log.close()


def test_a_log_that_ends_is_reported_and_opened_again(kmsg: Kmsg) -> None:
    clock = Clock(NOW)
    log = follow(kmsg, clock)
    os.close(kmsg.writer)
    assert log.poll() == []
    assert log.source is None
    assert (log.notice or {})["code"] == "kernel_log_unreadable"
    clock.now += 61
    keep = os.open(kmsg.path, os.O_RDONLY | os.O_NONBLOCK)
    kmsg.open()
    assert log.poll() == []
    assert log.source == "/dev/kmsg"
    os.close(keep)
    log.close()


def test_without_the_right_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwatch.agent.kernel.kernel_log.journal_command", lambda: None)
    log = KernelLog(kmsg=str(tmp_path / "none"))
    assert log.source is None
    notice = msgspec.convert(log.notice, wire.Notice)
    assert notice.code == "kernel_log_unreadable"
    assert notice.remedy is not None
    assert "systemd-journal" in notice.remedy
    assert log.poll() == []


def test_the_journal_is_followed_in_a_child(tmp_path: Path) -> None:
    now = time.time()
    lines = tmp_path / "journal"
    lines.write_text(
        f"{now - 90000:.6f} node kernel: {XID.format(bus='41', code=63)}\n"
        f"{now - 50:.6f} node kernel: {XID.format(bus='41', code=74)}\n"
        f"{now - 40:.6f} node kernel: NVRM: The NVIDIA GPU 0000:b3:00.0\n"
        "                        NVRM: fallen off the bus and is not responding to commands.\n"
    )
    log = KernelLog(kmsg=str(tmp_path / "none"), journal=["tail", "-n", "+1", "-f", str(lines)])
    assert log.source == "journalctl"
    first = drain(log, lambda found: len(found) == 2)
    assert [(one["code"], one["t"]) for one in first] == [
        (74, pytest.approx(now - 50)),
        (None, pytest.approx(now - 40)),
    ]
    with lines.open("a") as more:
        more.write(f"{now:.6f} node kernel: {XID.format(bus='42', code=79)}\n")
    assert drain(log, bool)[0]["bus_id"] == "00000000:42:00.0"
    log.close()
    assert log.source is None


def test_the_child_does_not_outlive_a_killed_agent(tmp_path: Path) -> None:
    code = f"""
import time
from gpuwatch.agent.kernel.kernel_log import KernelLog
log = KernelLog(kmsg="/none", journal=["tail", "-f", {str(tmp_path)!r} + "/none", "/dev/null"])
print(log._reader._child.pid, flush=True)
time.sleep(120)
"""
    agent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert agent.stdout is not None
    child = int(agent.stdout.readline())
    assert alive(child)
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    agent.stdout.close()
    assert wait_until(lambda: not alive(child), time.sleep)
