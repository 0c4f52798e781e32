"""Jobs of `stub_launcher`, and a session of quick agents that watches them on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.hosts.plan import NodeSpec, Plan, Thresholds
from gpuwatch.link.agent import agent_link
from gpuwatch.link.agent.start_method import StartMethod, agent_start
from gpuwatch.session import Session
from gpuwatch.wire import LogFile, Process
from tests.end_to_end.cluster import watch

LAUNCHER = Path(__file__).with_name("stub_launcher.py")
QUICK = Thresholds(hang_s=3.0, hold_s=2.0, clear_s=600.0)
MEDIUM_S = 0.5
"""Seconds between two lists of processes."""


@dataclass
class Launched:
    """A job, and what the session knows of it."""

    name: str
    folder: Path
    launcher: subprocess.Popen[bytes]
    session: Session

    def ranks(self) -> dict[int, Process]:
        """Its ranks that are listed now, by rank."""
        listed = [p for node in self.session.fleet.nodes.values() for p in node.processes]
        return {p.rank: p for p in listed if p.rank is not None and p.job == self.name}

    def files(self) -> dict[str, LogFile]:
        """Its folder's files that are followed, by their path below it."""
        listed = [one for node in self.session.fleet.nodes.values() for one in node.logs]
        here = f"{self.folder}/"
        return {one.path[len(here) :]: one for one in listed if one.path.startswith(here)}

    def incidents(self) -> list[Incident]:
        return [one for one in self.session.book.incidents if one.job == self.name]

    def until(self, true: Callable[[], object], seconds: float = 240.0) -> None:
        """Poll until it is true; else tell what was found instead."""
        try:
            watch(self.session, lambda _fleet, _now: bool(true()), seconds=seconds)
        except AssertionError as error:
            reported = [(one.code, one.rank, one.over, one.headline) for one in self.session.book.incidents]
            raise AssertionError(
                f"{error}; {sorted(self.ranks())} {sorted(self.files())} {reported}"
            ) from error

    def order(self, rank: int, word: str) -> None:
        """What a rank does next; see `stub_launcher`."""
        (self.folder / "ctl").mkdir(exist_ok=True)
        (self.folder / "ctl" / f"rank{rank}").write_text(word)

    def kill(self, rank: int) -> None:
        os.kill(self.ranks()[rank].pid, signal.SIGKILL)


@contextmanager
def quick_session(
    monkeypatch: pytest.MonkeyPatch,
    nodes: Sequence[str] = ("n1",),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    **plan: Any,
) -> Iterator[Session]:
    """A session whose agents list processes every `MEDIUM_S`; `settings`: node -> more of its agent's."""

    def way(python: str | None, wanted: Mapping[str, Any], *more: Any) -> StartMethod:
        own = (settings or {}).get(wanted["host"], {})
        return agent_start(python, {"kmsg": "/none", **wanted, "medium_s": MEDIUM_S, **own}, *more)

    monkeypatch.setattr(agent_link, "agent_start", way)
    plan.setdefault("thresholds", QUICK)
    specs = tuple(NodeSpec(name, link="local") for name in nodes)
    with Session(Plan(specs, interval_s=0.5, source="test", **plan)) as session:
        yield session


@contextmanager
def launched(session: Session, folder: Path, name: str, *options: str, wait: int = 2) -> Iterator[Launched]:
    """A job that is seen: `wait` of its ranks are listed."""
    folder.mkdir(parents=True, exist_ok=True)
    run = f"{name}-{os.getpid()}"
    argv = [sys.executable, str(LAUNCHER), str(folder), "--run-id", run, *options]
    with (folder / "launcher.out").open("ab") as words:
        process = subprocess.Popen(argv, stdout=words, stderr=words, start_new_session=True)
    try:
        job = Launched(run, folder, process, session)
        job.until(lambda: sum(place.job == run for place in session.book.places.ranks) >= wait)
        yield job
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def pause(session: Session, seconds: float) -> None:
    """Go on polling for so long."""
    until = time.monotonic() + seconds
    watch(session, lambda _fleet, now: now > until, seconds=seconds + 10)
