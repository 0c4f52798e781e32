"""Runs tasks on all cores, in processes that may die, hang or be stopped without affecting each other."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from gpuwatch.agent.logs.ipc.lifeline import die_with
from gpuwatch.number_text import limit_text
from gpuwatch.own_process import worker_context

Task = TypeVar("Task")
Result = TypeVar("Result")

POLL_S = 0.1
STOP_S = 3.0
"""Seconds that running tasks have to stop before their processes are killed."""
OUT_OF_MEMORY = 77
"""Exit status of a process that reached its memory limit."""
HOW = "fork" if sys.platform == "linux" else "spawn"
"""Start method of the processes; forking takes milliseconds, and happens before any thread is started."""


class Dial(Protocol):
    """The connection of a task to its parent: reports progress, and shows whether to stop."""

    def read(self, size: int) -> None:
        """Report that `size` more bytes are done."""

    @property
    def stopping(self) -> bool:
        """True if the task should stop and return the result so far."""


class Counter:
    """The `Dial` of a task in this process."""

    def __init__(self) -> None:
        self.bytes = 0
        self.stopping = False

    def read(self, size: int) -> None:
        """Report that `size` more bytes are done."""
        self.bytes += size


class SharedDial:
    """The `Dial` of a task in a worker; each worker has its own counter, so that none waits for a lock."""

    def __init__(self, counts: Any, stop: Any, number: int) -> None:  # noqa: ANN401  ctypes in shared memory
        self._counts, self._stop, self._number = counts, stop, number

    def read(self, size: int) -> None:
        """Report that `size` more bytes are done."""
        self._counts[self._number] += size

    @property
    def stopping(self) -> bool:
        """True if the task should stop and return the result so far."""
        return bool(self._stop.value)


@dataclass
class FinishedTask(Generic[Task, Result]):
    """A finished task. `result` is None if its process died."""

    task: Task
    result: Result | None
    fault: str | None = None


@dataclass
class _Worker(Generic[Task]):
    process: Any
    pipe: Connection
    number: int
    task: Task | None = None


class Workers(Generic[Task, Result]):
    """Worker processes for tasks; `read_bytes` and `stop` may be used while `results` runs."""

    def __init__(
        self,
        count: int,
        start: Callable[[], Callable[[Task, Dial], Result]],
        task_cpu_s: int | None = None,
        memory: int | None = None,
    ) -> None:
        """Start the processes.

        Args:
            count: Number of processes.
            start: Runs once in each process and returns the function that does a task there.
            task_cpu_s: Limit of a task's CPU time (seconds); a task that exceeds it fails, and its process
                ends.
            memory: Limit of the memory for a process's tasks (bytes); exceeding it has the same effect.
        """
        self._task_cpu_s = task_cpu_s
        self._memory = memory
        self._context = worker_context(HOW)
        self._start = start
        self._counts = self._context.Array("q", count, lock=False)
        self._stop = self._context.Value("b", 0, lock=False)
        self._workers = [self._begin(number) for number in range(count)]

    @property
    def read_bytes(self) -> int:
        """Bytes that all tasks have read."""
        return sum(self._counts)

    def stop(self) -> None:
        """Start no new tasks; running tasks return their results so far."""
        self._stop.value = 1

    def results(
        self, tasks: Sequence[Task], report: Callable[[int], None]
    ) -> Iterator[FinishedTask[Task, Result]]:
        """Yield the tasks as they finish. `report` receives the bytes done, about ten times a second.

        After `stop`, tasks that have not started are left out, and those that do not finish are abandoned.
        """
        waiting = list(reversed(tasks))
        given_up = None
        while waiting or any(worker.task is not None for worker in self._workers):
            if self._stop.value:
                waiting.clear()
                given_up = given_up or time.monotonic() + STOP_S
                if time.monotonic() > given_up:
                    return
            for worker in self._workers:
                if worker.task is None and waiting:
                    worker.task = waiting.pop()
                    worker.pipe.send(worker.task)
            report(self.read_bytes)
            yield from self._ended()
        report(self.read_bytes)

    def close(self) -> None:
        """End the processes and wait for them."""
        for worker in self._workers:
            worker.pipe.close()
            worker.process.join(timeout=0.2)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()

    def _ended(self) -> Iterator[FinishedTask[Task, Result]]:
        busy = {worker.pipe: worker for worker in self._workers if worker.task is not None}
        for pipe in wait(list(busy), timeout=POLL_S):
            assert isinstance(pipe, Connection)  # noqa: S101  what was put in comes out
            worker = busy[pipe]
            task, worker.task = worker.task, None
            assert task is not None  # noqa: S101  only busy ones are waited for
            try:
                result: Result = pipe.recv()
            except (EOFError, OSError):
                worker.process.join()
                code = worker.process.exitcode or 0
                fault = self._fault(code)
                self._workers[worker.number] = self._begin(worker.number)
                yield FinishedTask(task, None, fault)
            else:
                yield FinishedTask(task, result)

    def _fault(self, code: int) -> str:
        """Return why a task has no result, from the exit code of its process."""
        if code == OUT_OF_MEMORY:
            return f"needs more than {limit_text(self._memory or 0)} of memory: given up"
        if code == -signal.SIGXCPU:
            return f"needs more than {self._task_cpu_s} s of CPU time: given up"
        return f"its reader was terminated by signal {-code}" if code < 0 else "its reader ended early"

    def _begin(self, number: int) -> _Worker[Task]:
        ours, theirs = self._context.Pipe()
        dial = SharedDial(self._counts, self._stop, number)
        process = self._context.Process(
            target=_work,
            args=(theirs, self._start, dial, self._task_cpu_s, self._memory, os.getpid()),
            daemon=True,
        )
        process.start()
        theirs.close()
        return _Worker(process, ours, number)


def _work(
    pipe: Connection,
    start: Callable[[], Callable[[Any, Dial], Any]],
    dial: Dial,
    task_cpu_s: int | None,
    memory: int | None,
    parent: int,
) -> None:
    """Main loop of a worker. It ignores Ctrl-C (the parent handles it) and exits with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":
        die_with(parent)
    do = start()
    if memory is not None:
        limit_memory(memory)
    try:
        while True:
            task = pipe.recv()
            if task_cpu_s is not None:
                _limit_cpu(task_cpu_s)
            pipe.send(do(task, dial))
    except (EOFError, OSError):
        return
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def limit_memory(size: int) -> None:
    """Limit the address space of this process to `size` bytes more than it uses now; only on Linux."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # not Linux
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * resource.getpagesize() + size
    resource.setrlimit(
        resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
    )


def _limit_cpu(seconds: int) -> None:
    """Have the kernel end this process (SIGXCPU) after this many more seconds of CPU time."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = int(time.process_time()) + 1 + seconds
    resource.setrlimit(
        resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
    )
