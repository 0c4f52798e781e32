"""Jobs that ended before, of whose users no shell is left: the accounting and the journal lead to them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.link.start.log_settings import VARIABLE
from tests.agent.trees import wait_until
from tests.drills.namespaces import Cluster, Node, nodes
from tests.end_to_end.cluster import watch
from tests.parts import missing, need

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
UID = 48211
SUCCEEDS = """
from datetime import datetime
for step in range(1, 41):
    print(f"{datetime.now():%Y-%m-%d %H:%M:%S} step {step}/1000 loss {3 - step / 1000:.4f}")
"""
FAILS = SUCCEEDS + 'raise RuntimeError("CUDA error: an illegal memory access was encountered")'
LAUNCHER = """#!{python}
import os, subprocess, sys
folder = sys.argv[1]
os.makedirs(folder)
for rank, code in enumerate(({succeeds!r}, {fails!r})):
    with open(folder + "/rank%d.log" % rank, "wb") as log:
        subprocess.run([{python!r}, "-c", code], stdout=log, stderr=log)
os.setuid({uid})
"""
"""Ends as the user: the accounting has the user of a process at its end."""
ACCOUNT = "import ctypes, sys; sys.exit(ctypes.CDLL(None).acct(b'/var/log/account/pacct') != 0)"
JOURNALD = Path("/usr/lib/systemd/systemd-journald")
SOCKET = "/run/systemd/journal/socket"
SAY = """
import socket, sys
from pathlib import Path
Path("/proc/self/comm").write_text("sudo")
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
to.connect("/run/systemd/journal/socket")
to.send(b"SYSLOG_IDENTIFIER=sudo\\nMESSAGE=" + sys.argv[1].encode() + b"\\n")
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A node with an empty /home, and with a user who has an account there."""
    monkeypatch.setenv(VARIABLE, "on")
    passwd = tmp_path / "passwd"
    passwd.write_text(Path("/etc/passwd").read_text() + f"alice:x:{UID}:{UID}::/home/alice:/bin/sh\n")
    launcher = tmp_path / "torchrun"
    launcher.write_text(LAUNCHER.format(python=sys.executable, succeeds=SUCCEEDS, fails=FAILS, uid=UID))
    launcher.chmod(0o755)
    with nodes(tmp_path / "nodes", ("n1",)) as found:
        inside(found["n1"], f"mount --bind {passwd} /etc/passwd")
        inside(found["n1"], "for each in /home /run /var/log; do mount -t tmpfs none $each; done")
        inside(found["n1"], "mkdir -p /run/sshd /run/systemd/journal /run/log/journal /var/log/account")
        yield found


def inside(node: Node, script: str) -> None:
    subprocess.run([*node.entry, "sh", "-ec", script], check=True)


def until_named(cluster: Cluster) -> None:
    """Wait for the incident of the job `night` in a session that is opened now."""
    with cluster.session() as session:

        def named() -> list[tuple[str, int | None]]:
            return [(e.code, e.rank) for e in session.book.incidents if "night" in (e.job or "")]

        watch(session, lambda _fleet, _now: named() == [("cuda.illegal_access", 1)], seconds=120.0)


def test_a_user_s_last_launcher_in_the_accounting_leads_to_the_job(cluster: Cluster, tmp_path: Path) -> None:
    """By the kernel's own records; the node's passwd names the user's home folder."""
    node = cluster["n1"]
    inside(node, "touch /var/log/account/pacct")
    if subprocess.run([*node.entry, sys.executable, "-c", ACCOUNT], check=False).returncode:
        missing("process accounting is not permitted here")
    node.start([str(tmp_path / "torchrun"), "/home/alice/runs/night"]).wait()
    until_named(cluster)


def test_a_command_of_sudo_in_the_journal_leads_to_the_job(cluster: Cluster, tmp_path: Path) -> None:
    """By systemd's own journal; the folder belongs to no user who has a process."""
    need("journalctl")
    if not JOURNALD.exists():
        missing("systemd is not installed")
    node = cluster["n1"]
    node.start([str(tmp_path / "torchrun"), "/home/project/night"]).wait()
    node.start([str(JOURNALD)])
    ready = [*node.entry, "test", "-S", SOCKET]
    assert wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, time.sleep)
    line = "alice : TTY=pts/0 ; PWD=/home/project/night ; USER=root ; COMMAND=/usr/bin/torchrun train.py"
    node.start([sys.executable, "-c", SAY, line]).wait()
    until_named(cluster)
