"""Faults of the machine that gpuwatch runs on: clock, sleep, disk, terminal."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable

import psutil

from gpuwatch.link.recording.reader import Recording
from tests.chaos.faults.fault import HOUR_S
from tests.chaos.scene.scene import GATE, NAMES, Scene
from tests.end_to_end.tty.pty_program import Pty
from tests.link.watching import until
from tests.netlab.lab import run

PAUSE_S = 40
"""Longer than an agent waits for a ping."""
DISK_BYTES = 4 << 20
SIZES, KEPT_BYTES = 40, 65536
UNREAD_S, SCREEN_BYTES, GROWTH = 15.0, 4000, 1.5


def clock_forward(scene: Scene) -> None:
    """The monotonic clock goes on as before. Every node's comparison must show it."""
    _set_forward(scene, HOUR_S)


def clock_back(scene: Scene) -> None:
    """The same the other way."""
    _set_forward(scene, -HOUR_S)


def _set_forward(scene: Scene, seconds: int) -> None:
    scene.clocks["cockpit"].set_forward(seconds)
    for name in NAMES:
        scene.polling.until(lambda name=name: scene.polling.shows(f"{name} clock_off"), f"{name}'s clock")  # type: ignore[misc]


def clock_right(scene: Scene) -> None:
    """Undo `clock_forward`."""
    scene.clocks["cockpit"].set_forward(0)


def sleep_for(seconds: int) -> Callable[[Scene], None]:
    """As a suspended Linux: the monotonic clock stood, all agents have ended, no packet of that arrived."""

    def wake_up(scene: Scene) -> None:
        nodes = (*NAMES, GATE)
        for name in nodes:
            scene.network.drop(name)
            scene.network.forget_orphans(name)
            scene.signal(scene.sessions(name), signal.SIGKILL)
        for clock in scene.clocks.values():
            clock.set_forward(seconds)
        until(lambda: not any(scene.connections(name) for name in nodes), "no half of a connection is left")
        for name in nodes:
            scene.network.accept(name)

    return wake_up


def pause(_scene: Scene) -> None:
    """^Z, or a laptop's lid with the mains connected."""
    with subprocess.Popen(["sh", "-c", f"sleep {PAUSE_S}; kill -CONT {os.getpid()}"]):
        os.kill(os.getpid(), signal.SIGSTOP)


def fill_disk(scene: Scene) -> None:
    """A recording on a small disk that another file fills."""
    disk = scene.folder / "disk"
    disk.mkdir()
    run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(disk))
    scene.recording.start(disk / "cluster.gpw")
    writer = scene.recording.writer
    assert writer is not None
    scene.polling.until(lambda: writer.state.frames > 0, "frames in the recording")
    with (disk / "ballast").open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC, error


def free_disk(scene: Scene) -> None:
    """There is space again; nothing of the recording is missing."""
    (scene.folder / "disk" / "ballast").unlink()
    scene.polling.until(lambda: not scene.recording.trouble, "the recording goes on")
    writer = scene.recording.writer
    assert writer is not None
    scene.recording.close()
    recording = Recording(writer.state.path)
    assert recording.gaps() == []
    assert writer.state.lost_items == recording.damaged == 0
    recording.close()


def use_terminal(scene: Scene) -> None:
    """A second gpuwatch on a terminal; when that closes, it and its agents end."""
    before = scene.agents()
    config = scene.gate.sshd.client.config
    opened = Pty([sys.executable, "-m", "gpuwatch", "-F", str(config), "n[1-2]"])
    scene.polling.until(lambda: scene.agents() > before and b"live" in read(opened), "its first screen")
    for _ in range(SIZES):
        rows, columns = random.randint(1, 200), random.randint(1, 500)
        fcntl.ioctl(opened.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        scene.polling.once()
        read(opened)
    program = psutil.Process(opened.pid)
    held_bytes = program.memory_info().rss
    scene.polling.wait(UNREAD_S)  # as after Ctrl-S
    opened.written = b""
    scene.polling.until(lambda: len(read(opened)) > SCREEN_BYTES, "more of its screen")
    assert program.memory_info().rss < GROWTH * held_bytes
    assert scene.agents() > before
    os.close(opened.fd)
    scene.polling.until(lambda: has_ended(opened.pid), "the end of the program without a terminal")
    assert os.waitstatus_to_exitcode(os.waitpid(opened.pid, 0)[1]) == 128 + signal.SIGHUP
    scene.polling.until(lambda: scene.agents() <= before, "the end of its agents")


def read(opened: Pty) -> bytes:
    """Read what there is; the last of it."""
    while opened.readable:
        opened.written = opened.written[-KEPT_BYTES:] + os.read(opened.fd, KEPT_BYTES)
    return opened.written


def has_ended(pid: int) -> bool:
    """Whether a child has ended; its status is still there."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
