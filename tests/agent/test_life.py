"""How the agent lives and ends: requests, events, and every way to leave."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuwatch.wire import Hello, Ping, Sample
from tests.agent.conftest import Start
from tests.agent.running import RunningAgent, uuid_of
from tests.fake_nvml.build import FakeNvml

F_SETPIPE_SZ = 1031


def test_a_ping_is_answered_out_of_the_tick(start: Start) -> None:
    agent = start(interval_s=30.0)
    agent.hello()
    for number in range(1, 6):
        agent.send(Ping(id=number))
        assert agent.reply(number).error is None
    assert sum(isinstance(frame, Sample) for frame in agent.frames) <= 2


def test_requests_that_make_no_sense_are_answered_and_survived(healthy: RunningAgent) -> None:
    agent = healthy
    agent.send(b'{"do":"dance","id":3}\n')
    assert "dance" in (agent.reply(3).error or "")
    agent.send(b'{"do":"interval","id":4,"seconds":"soon"}\n')
    assert agent.reply(4).error
    agent.send(b'{"do":"\\ud800 half a character","id":6}\n')  # comes back in the answer
    assert "half" in (agent.reply(6).error or "")
    agent.send(
        b'\xff\xfe{\n[]\n"x"\n' + b"{" * 100_000 + b'\n{"do":"ping","id":true}\n{"do":"ping","id":5}\n'
    )
    assert agent.reply(5).error is None
    assert agent.reply(0).id == 0


def test_a_ping_sent_in_pieces_and_behind_an_endless_line(start: Start) -> None:
    agent = start()
    for _ in range(40):
        agent.send(b"x" * 10_000)
    agent.send(b'\n{"do":"pi')
    agent.hello()
    agent.send(b'ng","id":8}\n')
    assert agent.reply(8).error is None


def test_the_hello_is_first_and_numbers_go_up(start: Start) -> None:
    agent = start()
    agent.send(Ping(id=1))
    agent.reply(1)
    agent.gpu(0, lambda g: g.fast is not None)
    assert isinstance(agent.frames[0], Hello)
    numbers = [frame.seq for frame in agent.frames]
    assert numbers == sorted(set(numbers))


def _eof(agent: RunningAgent) -> None:
    agent.stdin.close()


def _signal(number: int) -> Callable[[RunningAgent], None]:
    return lambda agent: os.kill(agent.process.pid, number)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("how", "reason"),
    [(_eof, "stdin ended"), (_signal(signal.SIGTERM), "signal 15"), (_signal(signal.SIGINT), "signal 2"),
     (_signal(signal.SIGHUP), "signal 1")],
)  # fmt: skip
def test_it_leaves_and_says_why(start: Start, how: Callable[[RunningAgent], None], reason: str) -> None:
    agent = start(interval_s=20.0)
    agent.hello()
    how(agent)
    assert agent.bye() == reason
    assert agent.wait() == 0


def test_it_leaves_when_nobody_asks_anything_for_too_long(start: Start) -> None:
    agent = start(ping_deadline_s=4.0, interval_s=30.0)
    agent.hello()
    for number in range(4):
        agent.send(Ping(id=number + 1))
        agent.reply(number + 1)
    assert "4 s" in agent.bye()
    assert agent.wait() == 0


def test_it_leaves_when_nobody_reads_any_more(start: Start) -> None:
    agent = start(read=False)
    agent.stdout.close()
    assert agent.wait() == 1
    agent.stdout = Path(os.devnull).open("rb")  # noqa: SIM115 - closed by end()


def test_a_full_pipe_costs_samples_and_nothing_else(start: Start, fake: FakeNvml) -> None:
    fake.set("gpus 32")
    agent = start(read=False)
    fcntl.fcntl(agent.stdout, F_SETPIPE_SZ, 4096)
    _fill(agent, fake)
    fake.add("xid 4 79 1")
    agent.read_on()
    assert agent.event("xid").gpu == uuid_of(4)
    cost = agent.sample(lambda s: s.agent is not None and s.agent.dropped > 0).agent
    assert cost is not None and cost.dropped > 0
    agent.send(Ping(id=2))
    assert agent.reply(2).error is None


def test_a_full_pipe_does_not_keep_it_from_leaving(start: Start, fake: FakeNvml) -> None:
    fake.set("gpus 32")
    agent = start(read=False)
    fcntl.fcntl(agent.stdout, F_SETPIPE_SZ, 4096)
    _fill(agent, fake)
    agent.stdin.close()
    assert agent.wait() == 0


def _fill(agent: RunningAgent, fake: FakeNvml) -> None:
    """Wait until the small pipe has taken nothing for four ticks: it is full."""
    deadline, seen, begun = time.monotonic() + 60, -1, 0
    while ticks(fake) < begun + 4 and time.monotonic() < deadline:
        waiting = readable(agent)
        if waiting != seen:
            seen, begun = waiting, ticks(fake)
        time.sleep(0.05)
    assert seen > 0 and agent.process.poll() is None


def ticks(fake: FakeNvml) -> int:
    return fake.calls().get("nvmlDeviceGetUtilizationRates", {}).get(0, 0)


def readable(agent: RunningAgent) -> int:
    """Bytes that wait in the pipe."""
    return int.from_bytes(fcntl.ioctl(agent.stdout, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_an_xid_is_reported_with_its_gpu_and_meaning_each_time(start: Start, fake: FakeNvml) -> None:
    agent = start(kmsg="/none")
    agent.gpu(5, lambda g: g.fast is not None)
    agent.until(lambda _: 5 in fake.calls().get("nvmlDeviceRegisterEvents", {}), "registration")
    fake.add("xid 5 79 1")
    event = agent.event("xid")
    assert (event.gpu, event.code, event.severity, event.source) == (uuid_of(5), 79, "critical", "nvml")
    assert event.title and event.remedy
    fake.add("xid 5 79 2", "xid 1 31 3")
    assert sorted(event.code or 0 for event in agent.xids(3)) == [31, 79, 79]


def test_a_recovery_that_the_gpu_asks_for_is_an_event(start: Start, fake: FakeNvml) -> None:
    fake.set("gpus 2", "raw 1 230 1")
    event = start().event("recovery_action")
    assert (event.gpu, event.severity, event.source) == (uuid_of(1), "critical", "nvml")
    assert "reset" in event.title


def test_it_steps_back_behind_the_training(healthy: RunningAgent) -> None:
    agent = healthy
    agent.hello()
    assert os.getpriority(os.PRIO_PROCESS, agent.process.pid) >= min(
        19, os.getpriority(os.PRIO_PROCESS, 0) + 10
    )


def test_nothing_is_written_and_no_descriptor_piles_up(healthy: RunningAgent) -> None:
    agent = healthy
    agent.gpu(7, lambda g: g.fast is not None)
    folder = Path(f"/proc/{agent.process.pid}/fd")
    before = len(list(folder.iterdir()))
    agent.until(lambda fs: sum(isinstance(f, Sample) for f in fs) >= 10, "ten ticks", len(agent.frames))
    assert len(list(folder.iterdir())) <= before + 1
    assert [fd for fd in folder.iterdir() if _is_file_to_write(fd)] == []


def _is_file_to_write(fd: Path) -> bool:
    try:
        target = str(fd.readlink())
        about = (fd.parents[1] / "fdinfo" / fd.name).read_text()
    except OSError:
        return False
    flags = next(int(line.split()[1], 8) for line in about.splitlines() if line.startswith("flags:"))
    # The fake library maps the file in which it counts calls; its descriptor is closed at once.
    return target.startswith("/") and not target.startswith("/dev/") and flags & os.O_ACCMODE != os.O_RDONLY
