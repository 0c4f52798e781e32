"""Real agents that read real files, and rules for them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from gpuwatch.rules.compiling.compile import compiled
from gpuwatch.rules.model.rule import Rule
from gpuwatch.wire import AnyFrame, Finding, Lines, LogFile, Logs
from tests.agent.running import RunningAgent
from tests.waiting import alive

BOOM = Rule(
    id="test.boom",
    severity="error",
    title="",
    match=(r"BOOM code=(?P<code>\d+)",),
    explain="",
    do=(),
    examples=(),
)
ENDLESS = Rule(
    id="test.endless",
    severity="error",
    title="",
    match=(r"ENDLESS (?:a+)+b",),
    explain="",
    do=(),
    examples=(),
    literals=("ENDLESS",),
)
T = TypeVar("T")


class LogAgent(RunningAgent):
    """An agent that follows `folder/*.log`, with answers to what tests ask of it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        settings.setdefault("logs", [f"{folder}/*.log"])
        settings.setdefault("kmsg", "/none")
        rules = compiled(settings.pop("rules", (BOOM,)))
        super().__init__(dict(os.environ), rules=rules, **settings)
        self.folder = folder

    def found(self, fits: Callable[[Finding], bool] = lambda _: True, after: int = 0) -> Finding:
        """The first finding that fits."""
        return self.until(
            lambda fs: _first(fs, Finding, lambda one: self._own(one) and fits(one)), "such finding", after
        )

    def findings(self) -> list[Finding]:
        """All findings so far."""
        return [frame for frame in self.frames if isinstance(frame, Finding) and self._own(frame)]

    def _own(self, finding: Finding) -> bool:
        """Return False for a finding of another test's job: an agent finds every job on its machine."""
        return "/pytest-" not in finding.file or finding.file.startswith(str(self.folder.parent))

    def file(self, path: Path | str, fits: Callable[[LogFile], bool] = lambda _: True) -> LogFile:
        """What the newest list says of a file, once it fits."""

        def look(frames: Sequence[AnyFrame]) -> LogFile | None:
            newest = next((f for f in reversed(frames) if isinstance(f, Logs)), None)
            listed = [one for one in newest.files if one.path == str(path)] if newest else []
            return listed[0] if listed and fits(listed[0]) else None

        return self.until(look, f"such {path}")

    def lines(self, number: int, enough: Callable[[list[Lines]], bool] | None = None) -> list[Lines]:
        """The frames that answer a request: all of them, or those until it is `enough`."""

        def look(frames: Sequence[AnyFrame]) -> list[Lines] | None:
            mine = [frame for frame in frames if isinstance(frame, Lines) and frame.id == number]
            good = enough(mine) if enough else bool(mine) and mine[-1].done
            return mine if mine and good else None

        return self.until(look, f"lines for {number}")

    def reader(self) -> int:
        """The log reader's pid."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for pid in children(self.process.pid):
                return pid
            time.sleep(0.01)
        raise AssertionError("there is no log reader")


def texts(frames: Sequence[Lines]) -> list[str]:
    """The text of all lines."""
    return [line.text for frame in frames for line in frame.lines]


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


@contextmanager
def stopped(pids: Sequence[int]) -> Iterator[None]:
    """Processes stand still inside of the block."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def wait_for(what: Callable[[], T], why: str, seconds: float = 240.0) -> T:
    """Wait until something is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(why)


def append(path: Path, text: str) -> None:
    """Add to a file."""
    with path.open("a") as file:
        file.write(text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the logs are."""
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


@pytest.fixture
def agent_of(folder: Path) -> Iterator[Callable[..., LogAgent]]:
    """Starts agents; they and their readers must be gone when the test is over."""
    with agents_in(folder) as begin:
        yield begin


@contextmanager
def agents_in(folder: Path) -> Iterator[Callable[..., LogAgent]]:
    """Starts agents that follow the logs of a folder, and ends them."""
    started: list[LogAgent] = []

    def begin(**settings: Any) -> LogAgent:
        started.append(LogAgent(folder, **settings))
        return started[-1]

    yield begin
    for agent in started:
        pids = children(agent.process.pid)
        agent.end()
        wait_for(lambda pids=pids: not any(alive(pid) for pid in pids), "a reader outlives its agent")  # type: ignore[misc]


F = TypeVar("F")


def _first(frames: Sequence[AnyFrame], kind: type[F], fits: Callable[[F], bool]) -> F | None:
    return next((f for f in frames if isinstance(f, kind) and fits(f)), None)
