"""Nodes behind real sshds, each of which sees its own processes only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.agent import agent_link
from gpuwatch.link.agent.start_method import StartMethod, agent_start
from gpuwatch.session import Session
from tests.end_to_end.launched import MEDIUM_S
from tests.servers.sshd import Client, Sshd

BOOT_ID = "sys/kernel/random/boot_id"


@dataclass
class SshNode:
    """A node, its sshd, and the /proc that its agent reads."""

    name: str
    sshd: Sshd
    proc: Path

    def see(self, *pids: int) -> None:
        """Add processes to those that the agent sees."""
        for pid in pids:
            (self.proc / str(pid)).symlink_to(f"/proc/{pid}")

    def boot(self, boot_id: str) -> None:
        """Give the node a boot id, and no process but what `see` adds."""
        for old in self.proc.glob("[0-9]*"):
            old.unlink()
        (self.proc / BOOT_ID).write_text(f"{boot_id}\n")


@contextmanager
def ssh_nodes(folder: Path, names: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[SshNode]]:
    """The nodes; agents list processes every `MEDIUM_S`."""
    procs = {name: _proc(folder / f"proc-{name}") for name in names}

    def way(python: str | None, wanted: Mapping[str, Any], *more: Any) -> StartMethod:
        own = {"proc": str(procs[wanted["host"]]), "kmsg": "/none", "medium_s": MEDIUM_S}
        return agent_start(python, {**wanted, **own}, *more)

    monkeypatch.setattr(agent_link, "agent_start", way)
    client = Client(folder / "client")
    with ExitStack() as stack:
        yield [
            SshNode(name, stack.enter_context(Sshd(folder / name, client=client, names=(name,))), procs[name])
            for name in names
        ]


@contextmanager
def session_over(nodes: Sequence[SshNode], **plan: Any) -> Iterator[Session]:
    """A session that watches them."""
    specs = tuple(NodeSpec(node.name) for node in nodes)
    options = nodes[0].sshd.client.options()
    with Session(Plan(specs, interval_s=0.5, source="test", **plan), options) as session:
        yield session


def _proc(folder: Path) -> Path:
    (folder / BOOT_ID).parent.mkdir(parents=True)
    (folder / BOOT_ID).write_text("11111111-0000-4000-8000-000000000001\n")
    for name in ("self", "stat", "meminfo", "loadavg", "uptime", "mounts"):
        (folder / name).symlink_to(f"/proc/{name}")
    return folder
