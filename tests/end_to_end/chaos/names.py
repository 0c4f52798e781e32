"""Run where /etc/hosts may be replaced: a node's name stops resolving, then has another address. Prints JSON.

unshare --mount python -m tests.end_to_end.chaos.names FOLDER
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from gpuwatch.session import Session
from tests.end_to_end.chaos.simulated import FORCED, all_live, all_lost, reported, worst_age_s
from tests.end_to_end.cluster import plan_of, watch
from tests.link.watching import nothing_left
from tests.servers.sshd import Client, Sshd, public_key

NAME = "moved.gpuwatch.test"
BEFORE, AFTER = "127.0.0.1", "127.0.0.2"
RESOLVER = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"
"""Nobody answers there: what the hosts file does not name is not found, and soon."""


def bind(folder: Path, name: str, text: str) -> Path:
    """A file of ours in the place of /etc/NAME, for this process and its children."""
    file = folder / name
    file.write_text(text)
    subprocess.run(["mount", "--bind", str(file), f"/etc/{name}"], check=True)
    return file


def main(folder: Path) -> dict[str, object]:
    """Play the story."""
    hosts = bind(folder, "hosts", f"{BEFORE} localhost {NAME}\n")
    bind(folder, "resolv.conf", RESOLVER)
    client = Client(folder / "client")
    lines = (f"ListenAddress {AFTER}", FORCED)
    with nothing_left(), Sshd(folder / "sshd", client=client, names=["fixed"], lines=lines) as sshd:
        client.add_host("moved", sshd.port, sshd.user, f"HostName {NAME}")
        client.trust(f"[{NAME}]:{sshd.port} {public_key(sshd.host_keys[0])}")
        with Session(plan_of(["fixed", "moved"]), client.options()) as session:
            watch(session, partial(all_live, ["fixed", "moved"]), 60)
            hosts.write_text(f"{BEFORE} localhost\n")
            age_without_dns_s = worst_age_s(session, ["fixed", "moved"], 5.0)
            attempt = session.fleet.nodes["moved"].link.attempt
            sshd.kill_sessions()
            watch(session, lambda fleet, _now: NAME in fleet.nodes["moved"].link.reason)
            watch(session, partial(all_live, ["fixed"]))
            assert all_lost(["moved"], session.fleet, time.monotonic())
            age_of_fixed_s = worst_age_s(session, ["fixed"], 5.0)
            hosts.write_text(f"{BEFORE} localhost\n{AFTER} {NAME}\n")
            watch(session, partial(all_live, ["fixed", "moved"]), 120)
            codes = sorted(reported(session))
        log = sshd.log.read_text(errors="replace")
    return {
        "attempt_without_dns": attempt,
        "age_without_dns_s": age_without_dns_s,
        "age_of_fixed_s": age_of_fixed_s,
        "new_address": f" on {AFTER} port {sshd.port}" in log,
        "codes": codes,
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
