"""Drives real workers over pipes, as a launcher does: orders by msgspec, lines back as `protocol` structs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from gpuwatch.probe.protocol import AnyNodeMessage, AnyOrder, Died, Done, NodeSlot, Prepare, Ready, Step, Stop

ROOT = Path(__file__).parents[3]
PATIENCE_S = 240.0
_START = (
    "import json, os, sys;"
    "stdin = sys.stdin.buffer; config = json.loads(stdin.readline());"
    "out = os.fdopen(os.dup(1), 'wb'); os.dup2(2, 1);"
    "{before}"
    "from gpuwatch.probe.worker import run;"
    "os._exit(run(config, stdin, out))"
)
S = TypeVar("S", bound=AnyNodeMessage)


def wait_until(true: Callable[[], bool]) -> None:
    """Poll a condition that nothing tells of."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Worker:
    """One worker process, as on one node.

    Args:
        before: Python statements that run in it before anything is imported, each ending in `;`.
        store: The listening socket that it hosts the store on.
    """

    def __init__(self, before: str = "", store: socket.socket | None = None) -> None:
        fds = [store.fileno()] if store is not None else []
        argv = [os.environ.get("GPUWATCH_TEST_PYTHON", sys.executable), "-u", "-W", "error", "-c"]
        self.process = subprocess.Popen(
            [*argv, _START.format(before=before)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=fds,
        )
        self.received: list[AnyNodeMessage] = []
        self._news = threading.Condition()
        self._over = False
        self._write(json.dumps({"store_fd": fds[0] if fds else None, "deadline_s": 300}).encode())
        self.errors = b""
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._receive, self._hear_errors)
        ]
        for thread in self._threads:
            thread.start()

    def send(self, order: AnyOrder) -> None:
        self._write(msgspec.json.encode(order))

    def wait(self, enough: Callable[[list[AnyNodeMessage]], bool]) -> list[AnyNodeMessage]:
        """What was heard, as soon as it is enough; fails when the worker ends or time is over."""
        deadline = time.monotonic() + PATIENCE_S
        with self._news:
            while not enough(self.received):
                left = deadline - time.monotonic()
                assert left > 0 and not self._over, (self.received, self.errors)
                self._news.wait(left)
            return list(self.received)

    def close(self) -> int:
        """End its stdin and wait for it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return status

    def _write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def _receive(self) -> None:
        assert self.process.stdout is not None
        for line in filter(bytes.strip, self.process.stdout):
            message = msgspec.json.decode(line, type=AnyNodeMessage)
            with self._news:
                self.received.append(message)
                self._news.notify_all()
        with self._news:
            self._over = True
            self._news.notify_all()

    def _hear_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors = self.process.stderr.read()


class Cluster:
    """Workers that share one store, each with some ranks.

    Args:
        slots: Number of ranks of every worker.
        before: See `Worker`.
        first: The same, of the worker that hosts the store alone.
        missing: Ranks that are in the world, but have no slot.
        prepare: Fields of `Prepare` other than the defaults.
    """

    def __init__(
        self,
        slots: Sequence[int] = (2,),
        *,
        before: str = "",
        first: str = "",
        missing: int = 0,
        **prepare: Any,
    ) -> None:
        self._step = 0
        self.world = sum(slots) + missing
        with socket.create_server(("127.0.0.1", 0), backlog=64) as store:
            self.port = store.getsockname()[1]
            self.workers = [
                Worker(before if i else before + first, store if i == 0 else None) for i in range(len(slots))
            ]
        rank = 0
        for i, worker in enumerate(self.workers):
            gpus = prepare.get("backend") == "nccl"
            places = [
                NodeSlot(rank=each, local=each - rank, gpu=f"GPU-{each}" if gpus else None)
                for each in range(rank, rank + slots[i])
            ]
            rank += slots[i]
            reported = {"backend": "gloo", "timeout_s": 20.0, "iface": "lo", **prepare}
            worker.send(
                Prepare(
                    world_size=self.world,
                    slots=places,
                    store_address="127.0.0.1",
                    store_port=self.port,
                    store_here=i == 0,
                    **reported,
                )
            )

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ready(self) -> list[Ready]:
        return self.all_of(Ready, self.world)

    def do(self, what: str, *, answers: int | None = None, **fields: Any) -> list[Done]:
        """Tell all workers one step; what every rank answers to it, by rank."""
        step = self.step(what, **fields)
        for worker in self.workers:
            worker.send(step)
        return self.done(step.id, self.world if answers is None else answers)

    def step(self, what: str, **fields: Any) -> Step:
        self._step += 1
        return Step(id=self._step, what=what, **fields)  # type: ignore[arg-type]

    def done(self, step: int, count: int) -> list[Done]:
        return sorted(
            self.all_of(Done, count, lambda message: message.step == step), key=lambda message: message.rank
        )

    def all_of(self, kind: type[S], count: int, fits: Callable[[S], bool] = lambda _: True) -> list[S]:
        """Wait until the workers together have said so many lines of a kind."""

        def found() -> list[S]:
            received = [message for worker in self.workers for message in list(worker.received)]
            return [message for message in received if isinstance(message, kind) and fits(message)]

        deadline = time.monotonic() + PATIENCE_S
        while len(found()) < count:
            assert time.monotonic() < deadline, [worker.received for worker in self.workers]
            died = [
                message
                for worker in self.workers
                for message in list(worker.received)
                if isinstance(message, Died)
            ]
            assert all(worker.process.poll() is None for worker in self.workers), (
                died,
                [worker.errors for worker in self.workers],
            )
            time.sleep(0.01)
        return found()

    def stop(self) -> list[int]:
        for worker in self.workers:
            worker.send(Stop())
        return [worker.close() for worker in self.workers]

    def close(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.kill()
            worker.close()
