"""A real agent in a real interpreter, started as a link starts it, its frames decoded as the cockpit does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from gpuwatch.link.start.bundle import bundle, loader_argv
from gpuwatch.wire import (
    AnyFrame,
    AnyRequest,
    Bye,
    Event,
    GpuSample,
    Hello,
    Ranks,
    Reply,
    Sample,
    decode,
    encode_request,
)

NONCE = "0123abcd"
MARK = f"\nGPUWATCH1 {NONCE}\n".encode()
PATIENCE_S = 240.0
QUICK = {"medium_s": 0.8, "slow_s": 1.6, "probe_s": 0.4, "retry_s": 0.4, "stuck_s": 1.0}
"""The periods of the agent's work shortened, so that a test sees several of each."""
ORDINARY = {"medium_s": 5.0, "slow_s": 30.0, "probe_s": 5.0, "retry_s": 30.0, "stuck_s": 3.0}
T = TypeVar("T")


class RunningAgent:
    """The process, what it has said so far, and ways to wait for more."""

    def __init__(self, env: Mapping[str, str], *, python: str = sys.executable, interval_s: float = 0.2,
                 ping_deadline_s: float = 600.0, read: bool = True, **settings: object) -> None:  # fmt: skip
        config: dict[str, object] = {
            "nonce": NONCE,
            "interval_s": interval_s,
            "ping_deadline_s": ping_deadline_s,
            "version": "test",
            **QUICK,
            **settings,
        }
        self.process = subprocess.Popen(
            loader_argv(python),
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr
        self.frames: list[AnyFrame] = []
        self.trouble: Exception | None = None
        self._news = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self.stdin.write(bundle(config))
        self.stdin.flush()
        if read:
            self._reader.start()

    def read_on(self) -> None:
        """Begin to read what was left unread so far."""
        self._reader.start()

    def send(self, request: AnyRequest | bytes) -> None:
        """Send a request, or raw bytes."""
        self.stdin.write(request if isinstance(request, bytes) else encode_request(request))
        self.stdin.flush()

    def until(self, found: Callable[[Sequence[AnyFrame]], T | None], what: str, after: int = 0) -> T:
        """Wait until `found` says something about the frames from number `after` on."""
        deadline = time.monotonic() + PATIENCE_S
        with self._news:
            while True:
                answer = found(self.frames[after:])
                if answer:
                    return answer
                left = deadline - time.monotonic()
                if left <= 0 or self._ended:
                    raise AssertionError(
                        f"no {what}; the last frame: {str(self.frames[-1:])[:1500]}; {self.trouble}"
                    )
                self._news.wait(left)

    def hello(self, fits: Callable[[Hello], bool] = lambda _: True, after: int = 0) -> Hello:
        """The newest hello that fits."""
        return self.until(lambda fs: newest(fs, Hello, fits), "such hello", after)

    def sample(self, fits: Callable[[Sample], bool] = lambda _: True, after: int = 0) -> Sample:
        """The newest sample that fits."""
        return self.until(lambda fs: newest(fs, Sample, fits), "such sample", after)

    def event(self, name: str, after: int = 0, gpu: int | None = None) -> Event:
        """The newest event of this name, and of this GPU where one is given."""
        uuid = None if gpu is None else uuid_of(gpu)
        return self.until(
            lambda fs: newest(fs, Event, lambda e: e.event == name and uuid in (None, e.gpu)),
            f"event {name}",
            after,
        )

    def gpu(self, index: int, fits: Callable[[GpuSample], bool], after: int = 0) -> GpuSample:
        """The newest sample of one GPU that fits."""

        def found(frames: Sequence[AnyFrame]) -> GpuSample | None:
            for frame in reversed(frames):
                for one in frame.gpus if isinstance(frame, Sample) else []:
                    if one.uuid == uuid_of(index) and fits(one):
                        return one
            return None

        return self.until(found, f"such sample of GPU {index}", after)

    def events(self) -> list[Event]:
        """All events so far."""
        return [frame for frame in self.frames if isinstance(frame, Event)]

    def xids(self, count: int) -> list[Event]:
        """The first Xids, once there are so many."""

        def found(frames: Sequence[AnyFrame]) -> list[Event] | None:
            reported = [frame for frame in frames if isinstance(frame, Event) and frame.event == "xid"]
            return reported if len(reported) >= count else None

        return self.until(found, f"{count} Xids")

    def reply(self, number: int) -> Reply:
        """The reply with this number."""
        return self.until(lambda fs: newest(fs, Reply, lambda r: r.id == number), f"reply {number}")

    def ranks(self, fits: Callable[[Ranks], bool], after: int = 0) -> Ranks:
        """The newest list of processes that fits."""
        return self.until(lambda fs: newest(fs, Ranks, fits), "such ranks", after)

    def bye(self) -> str:
        """Why it leaves."""
        return self.until(lambda fs: newest(fs, Bye, lambda _: True), "bye").reason

    def wait(self) -> int:
        """The exit status, once it has left."""
        return self.process.wait(PATIENCE_S)

    def end(self) -> None:
        """End it as a link does, and KILL only what did not listen."""
        with contextlib.suppress(OSError):
            self.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        if self._reader.is_alive():
            self._reader.join(20)
        self.stdout.close()
        self.stderr.close()

    def _read(self) -> None:
        try:
            self._decode()
        except Exception as error:  # passed to the test that waits
            self.trouble = error
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _decode(self) -> None:
        data = b""
        while MARK not in data:
            more = os.read(self.stdout.fileno(), 65536)
            if not more:
                raise AssertionError(f"ended before the start marker: {data!r} {self.stderr.read()!r}")
            data += more
        stream, text = zlib.decompressobj(), b""
        data = data.split(MARK, 1)[1]
        while True:
            text += stream.decompress(data)
            *lines, text = text.split(b"\n")
            with self._news:
                self.frames += [decode(line) for line in lines]
                self._news.notify_all()
            data = os.read(self.stdout.fileno(), 65536)
            if not data:
                return


F = TypeVar("F", bound=AnyFrame)


def newest(frames: Sequence[AnyFrame], kind: type[F], fits: Callable[[F], bool]) -> F | None:
    """The last frame of a kind that fits."""
    return next((f for f in reversed(frames) if isinstance(f, kind) and fits(f)), None)


def lists(count: int) -> Callable[[Hello], bool]:
    """Whether a hello lists so many GPUs, all identified; on a busy machine the first has indices only."""
    return lambda hello: len(hello.gpus) == count and all(gpu.identified for gpu in hello.gpus)


def uuid_of(index: int) -> str:
    """The UUID that the fake library gives this GPU."""
    return f"GPU-fake0000-0000-0000-0000-{index:012d}"


def left_behind(control: Path) -> list[int]:
    """Processes that still carry this fake's control file in their environment."""
    return [
        int(folder.name)
        for folder in Path("/proc").glob("[0-9]*")
        if str(control).encode() in _bytes(folder / "environ")
    ]


def described(pid: int) -> str:
    """What a process that was left behind is: its command, its parent, its state and where it waits."""
    parts = {name: _bytes(Path(f"/proc/{pid}") / name) for name in ("cmdline", "status", "wchan", "stack")}
    return f"pid {pid}: {parts}"


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""  # its process has ended meanwhile, or the kernel refuses
