"""The command over a real sshd, with -F, and the prompt on a real terminal."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.cli.running import COMMAND, ROOT, environment, gpuwatch, read_until, terminal
from tests.parts import SEEN_BY_EVERY_AGENT, need
from tests.servers.sshd import Sshd

pytestmark = SEEN_BY_EVERY_AGENT

SECRET = "open sesame"  # noqa: S105  of a key that lives as long as this test


def test_a_node_over_ssh_is_healthy_and_leaves_stderr_empty(tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd", names=("node-1",)) as sshd:
        done = gpuwatch("once", "node-1", "-F", str(sshd.client.config), "--json", "--wait", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [node["state"] for node in json.loads(done.stdout)["nodes"]] == ["live"]
    assert done.stderr == ""


def test_an_unknown_host_key_is_refused_with_the_way_to_accept_it(tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd", names=("node-1",), trusted=False) as sshd:
        done = gpuwatch("once", "node-1", "-F", str(sshd.client.config), "--json", "--wait", "60")
    assert done.returncode == 1
    error = json.loads(done.stdout)["nodes"][0]["error"]
    assert "SHA256:" in error
    assert "ssh-keyscan" in error or "--accept-new-host-keys" in error


def test_the_passphrase_is_asked_for_on_the_terminal_and_never_shown(tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd", names=("node-1",)) as sshd:
        lock(sshd.client.identity)
        with terminal(columns=100) as (ours, theirs):
            child = subprocess.Popen(
                [*COMMAND, "once", "node-1", "-F", str(sshd.client.config), "--json", "--wait", "60"],
                cwd=ROOT,
                env=environment(),
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=theirs,
                start_new_session=True,
            )
            shown = read_until(ours, "assphrase")
            os.write(ours, f"{SECRET}\n".encode())
            out, _ = child.communicate(timeout=100)
    assert child.returncode == 0, out
    assert json.loads(out)["nodes"][0]["state"] == "live"
    assert SECRET not in shown


def lock(key: Path) -> None:
    argv = [need("ssh-keygen"), "-q", "-p", "-P", "", "-N", SECRET, "-f", str(key)]
    subprocess.run(argv, check=True, capture_output=True)
