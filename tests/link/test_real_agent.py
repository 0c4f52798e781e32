"""The real agent over real links, on every interpreter that is here."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.options import LinkOptions
from gpuwatch.session import Session
from tests.link.interpreters import interpreters
from tests.link.watching import nothing_left, until
from tests.sentences import Sentences


def _live(session: Session, name: str) -> bool:
    session.poll()
    node = session.fleet.nodes[name]
    return node.hello is not None and node.host is not None and node.clock is not None


def test_this_machine_is_seen_and_left_alone() -> None:
    with nothing_left(), Session(Plan((NodeSpec("here", link="local"),), interval_s=0.5)) as session:
        until(lambda: _live(session, "here"), "a hello, a host sample and a clock reading")
        node = session.fleet.nodes["here"]
        assert node.state(time.monotonic()) == "live"
        assert node.hello is not None
        assert node.hello.python.startswith(f"{sys.version_info[0]}.{sys.version_info[1]}")
        agent = node.hello.pid
    assert not psutil.pid_exists(agent)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("python", interpreters())
def test_the_agent_serves_a_link_on_every_python_3(python: str, tmp_path: Path) -> None:
    # An empty working folder and home: whatever the agent wrote would be found there.
    command = ("env", f"--chdir={tmp_path}", f"HOME={tmp_path}", "PYTHONDONTWRITEBYTECODE=")
    specs = (NodeSpec("n1", link="command", command=command, python=python),)
    with nothing_left(), Session(Plan(specs, interval_s=0.5), LinkOptions()) as session:
        until(lambda: _live(session, "n1"), f"the agent on {python}: {session.fleet.nodes['n1'].link}")
        assert session.fleet.nodes["n1"].refused == 0
    assert list(tmp_path.iterdir()) == []


def test_a_killed_agent_comes_back() -> None:
    with nothing_left(), Session(Plan((NodeSpec("here", link="local"),), interval_s=0.5)) as session:
        until(lambda: _live(session, "here"), "the first agent")
        node = session.fleet.nodes["here"]
        first = node.hello.pid if node.hello else 0
        os.kill(first, signal.SIGKILL)
        until(lambda: session.poll() and node.link.phase == "lost", "the loss")
        until(
            lambda: session.poll() and node.hello is not None and node.hello.pid != first, "the second agent"
        )


def test_a_node_without_python_is_lost_with_the_remedy(tmp_path: Path, sentences: Sentences) -> None:
    command = (shutil.which("env") or "env", f"PATH={tmp_path}")
    specs = (NodeSpec("n1", link="command", command=command, python="python3"),)
    with nothing_left(), Session(Plan(specs)) as session:
        node = session.fleet.nodes["n1"]
        until(lambda: session.poll() and node.link.phase == "lost", "the loss")
        sentences(node.link.reason)
