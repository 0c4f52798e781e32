"""Run inside a network namespace: 8 ssh nodes, one of which loses every packet for a while. Prints JSON.

python -m tests.end_to_end.hostile.black_hole FOLDER
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from gpuwatch.session import Session
from tests.end_to_end.cluster import all_full, fake_driver, node_server, plan_of, watch
from tests.parts import need
from tests.servers.sshd import Client

OTHERS = tuple(f"gpu-{number:03d}" for number in range(1, 8))
VICTIM = "gpu-008"
HELD_S = 8.0


def rules(action: str, port: int) -> None:
    """Add (-A) or delete (-D) the rules that swallow every packet of one port, both ways."""
    for chain, which in (("INPUT", "--dport"), ("INPUT", "--sport")):
        argv = [need("iptables"), "-w", action, chain, "-p", "tcp", which, str(port), "-j", "DROP"]
        subprocess.run(argv, check=True)


def main(folder: Path) -> dict[str, float | str]:
    """Play the story; the figures are ticks (1 s each) except where named otherwise."""
    driver = fake_driver(folder)
    client = Client(folder / "client")
    with (
        node_server(folder / "others", client, OTHERS, driver),
        node_server(folder / "victim", client, (VICTIM,), driver) as victim,
        Session(plan_of((*OTHERS, VICTIM)), client.options()) as session,
    ):
        watch(session, all_full)
        node = session.fleet.nodes[VICTIM]
        rules("-A", victim.port)
        last_heard = node.received_at or 0.0
        stale_at, worst_other, worst_gap = 0.0, 0.0, 0.0
        began = time.monotonic()
        while time.monotonic() - began < HELD_S:
            gap_start = time.monotonic()
            session.poll()
            now = time.monotonic()
            if node.state(now) == "live":
                last_heard = node.received_at or last_heard
            elif not stale_at:
                stale_at = now
            ages = (session.fleet.nodes[name].age(now) for name in OTHERS)
            worst_other = max(worst_other, *(age or 0.0 for age in ages))
            time.sleep(0.05)
            worst_gap = max(worst_gap, time.monotonic() - gap_start)
        shown = node.state(time.monotonic())
        rules("-D", victim.port)
        recovered = watch(session, all_full)
    return {
        "stale_after": stale_at - last_heard if stale_at else -1.0,
        "shown": shown,
        "worst_other_age": worst_other,
        "worst_poll_gap_s": worst_gap,
        "recovered_after_s": recovered,
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
