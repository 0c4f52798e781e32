"""A session over this machine that follows the logs of a job, in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpuwatch.hosts.builtin import local_plan
from gpuwatch.link.agent import agent_link
from gpuwatch.link.agent.start_method import StartMethod, agent_start
from gpuwatch.session import Session
from tests.agent.trees import own_proc
from tests.session.polling import until

TOKEN = "hf_abcdefghijklmnopqrstuvwxyz0123"  # noqa: S105 - no real one
OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
STEPS = 9_000
"""Lines of rank 0: more than two pages."""


def write_logs(folder: Path) -> list[Path]:
    """Rank 0 logs steps alone, rank 2 runs out of memory; a line steers the terminal and holds a token."""
    made, at = [], time.strftime("%Y-%m-%d %H:%M:%S")
    for rank in (0, 2):
        path = folder / f"rank_{rank}.log"
        lines = [
            f"{at},000 [rank{rank}] step {step} loss 2.{step}" for step in range(STEPS if rank == 0 else 300)
        ]
        if rank == 2:
            lines += [f"export HF_TOKEN={TOKEN} \x1b]52;c;AAAA\x07", "Traceback (most recent call last):"]
            lines += ['  File "train.py", line 3, in <module>', "    main()", OOM]
        path.write_text("\n".join(lines) + "\n")
        made.append(path)
    return made


@contextmanager
def live_session(folder: Path) -> Iterator[Session]:
    """Started, until the incident is there; its agent sees no process of other tests."""
    proc = own_proc(folder / "proc")

    def way(python: str | None, settings: Mapping[str, Any], *rest: Any) -> StartMethod:
        return agent_start(python, {**settings, "proc": proc}, *rest)

    write_logs(folder)
    plan = replace(local_plan(), log_options=(str(folder / "rank_*.log"),), discover=False)
    session = Session(plan)
    session.keep_stream()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent_link, "agent_start", way)
        with session:
            until(session, lambda: session.book.incidents)
            yield session


class Started:
    """The session for an app, which starts what it is given."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def start(self) -> None:
        """It is."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)
