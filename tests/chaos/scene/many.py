"""200 nodes over real ssh, with simulated agents: half of them behind one sshd, half behind another."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpuwatch.session import Session
from tests.bench.live import simulated_agent
from tests.chaos.scene.control import Control
from tests.chaos.scene.polling import Polling
from tests.chaos.scene.scene import command_line, pids
from tests.end_to_end.cluster import plan_of
from tests.servers.sshd import Client, Sshd

FORCED = f"ForceCommand {sys.executable} {Path(simulated_agent.__file__)}"
"""The line of sshd_config that starts the simulated agent in place of the real one."""
HALF = 100
KEPT, CUT = (tuple(f"{side}-{number:03d}" for number in range(HALF)) for side in ("kept", "cut"))


class ManyNodes:
    """The sshd `cut` can be stopped and started again."""

    session: Session
    polling: Polling

    def __init__(self, kept: Sshd, cut: Sshd, control: Control) -> None:
        self.names: Sequence[str] = (*KEPT, *CUT)
        self.running: Sequence[int] = ()
        self.kept, self.cut, self.control = kept, cut, control

    @contextmanager
    def watched(self) -> Iterator[None]:
        """All nodes are live inside."""
        with Session(plan_of(self.names), self.kept.client.options()) as self.session:
            self.polling = Polling(self.session, self.names)
            self.polling.until(self.polling.live, "all live")
            yield

    def step(self, rank: int) -> int:
        """There are no ranks."""
        raise NotImplementedError(rank)

    def agents(self) -> int:
        """Those that logins have started; the control's has another parent."""
        agent = str(Path(simulated_agent.__file__)).encode()
        return sum(agent in command_line(pid) for pid in pids()) - 1

    def files(self) -> set[Path]:
        """What lies in the homes of both."""
        return {path for sshd in (self.kept, self.cut) for path in sshd.home.rglob("*")}


@contextmanager
def many_nodes(folder: Path) -> Iterator[ManyNodes]:
    """The servers and the control; they end with it."""
    control = Control()  # forks: before any thread
    client = Client(folder / "client")
    try:
        with (
            Sshd(folder / "kept", client=client, names=KEPT, lines=(FORCED,)) as kept,
            Sshd(folder / "cut", client=client, names=CUT, lines=(FORCED,)) as cut,
        ):
            yield ManyNodes(kept, cut, control)
    finally:
        control.close()
