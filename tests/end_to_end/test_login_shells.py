"""A login shell may be anything and say anything: the real agent starts all the same, and leaves nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from gpuwatch.session import Session
from tests.end_to_end.cluster import plan_of, watch
from tests.end_to_end.shell_noise import RC_FILES
from tests.parts import need
from tests.servers.sshd import LoginUser, Sshd, login_user

SPEAKS = {"bash", "zsh", "fish", "tcsh"}
"""Shells that read their rc file for `ssh host command`; dash does not."""


def write_rc(user: LoginUser, shell: str) -> None:
    name, text = RC_FILES[shell]
    rc = user.home / name
    rc.parent.mkdir(parents=True, exist_ok=True)
    rc.write_text(text + "\n")
    for path in (rc, *rc.parents):
        if user.home in (path, *path.parents):
            path.chmod(0o755)


def processes_of(name: str) -> list[str]:
    """What was read in one go: a process that is leaving may be gone at the next question."""
    found = psutil.process_iter(["name", "username"])
    return [process.info["name"] for process in found if process.info["username"] == name]


def files_of(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shell", sorted(RC_FILES))
def test_a_noisy_login_shell(tmp_path: Path, shell: str) -> None:
    need("sshd")
    (tmp_path / "banner").write_text("AUTHORISED USE ONLY\n")
    with login_user(need(shell)) as user:
        write_rc(user, shell)
        lines = (f"Banner {tmp_path / 'banner'}",)
        with Sshd(tmp_path / "sshd", user=user, lines=lines) as sshd:
            before = files_of(user.home)
            with Session(plan_of(sshd.names), sshd.client.options()) as session:
                (node,) = session.fleet.nodes.values()
                watch(session, lambda _fleet, now: node.state(now) == "live" and node.host is not None)
                noise = node.link.noise
                assert node.hello is not None
                assert node.hello.host == os.uname().nodename
            deadline = time.monotonic() + 60
            while processes_of(user.name) and time.monotonic() < deadline:
                time.sleep(0.1)
            assert processes_of(user.name) == [], "nothing of ours runs on after the connection"
            written = set(files_of(user.home)) - set(before)
            assert not [name for name in written if "fish" not in name], "nothing is written on the node"
    assert "\x1b" not in noise
    if shell in SPEAKS:
        assert "WELCOME" in noise, "what the rc file printed is kept, for whoever looks for the cause"
