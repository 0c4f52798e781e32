"""A cluster in one kernel: a network namespace a host, a switch between them, links far slower than the CPU.

A host's own end of its cable shapes what leaves it, the switch's end what comes to it. Everything is in the
namespaces, so that deleting them removes it all, whatever a test did.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gpuwatch.hosts.plan import NodeSpec, Plan
from tests.packages import path_of
from tests.parts import need

GOOD_MBIT = 200
BAD_MBIT = 100
BURST = "64kb"
"""Small against the 2 MiB and more that a probe sends: what fits into it looks faster than the link."""
_numbers = itertools.count()


class Lab:
    """Hosts `host-0` to `host-N` with an `eth0` each, all on one switch."""

    def __init__(self, hosts: int) -> None:
        self.prefix = f"gwlab-{os.getpid()}-{next(_numbers)}"
        self.switch = f"{self.prefix}-sw"
        self.count = hosts

    def build(self) -> None:
        """Make the namespaces and cables; `close` removes whatever of it there is."""
        run("ip", "netns", "add", self.switch)
        run("ip", "-n", self.switch, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", self.switch, "link", "set", "br0", "up")
        for host in range(self.count):
            space, port = self.space(host), f"p{host}"
            run("ip", "netns", "add", space)
            run(
                "ip",
                "-n",
                space,
                "link",
                "add",
                "eth0",
                "type",
                "veth",
                "peer",
                "name",
                port,
                "netns",
                self.switch,
            )
            run("ip", "-n", space, "address", "add", f"{address(host)}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "lo", "up")
            run("ip", "-n", space, "link", "set", "eth0", "up")
            run("ip", "-n", self.switch, "link", "set", port, "master", "br0", "up")
            shape(space, "eth0", GOOD_MBIT)
            shape(self.switch, port, GOOD_MBIT)

    def close(self) -> None:
        """Remove everything; the cables go with their ends."""
        for space in [*map(self.space, range(self.count)), self.switch]:
            subprocess.run(
                [need("ip"), "netns", "delete", space], capture_output=True, check=False, timeout=60
            )

    def space(self, host: int) -> str:
        """The name of a host's namespace."""
        return f"{self.prefix}-{host}"

    def plan(self) -> Plan:
        """The hosts as nodes that a command reaches."""
        return Plan(
            tuple(
                NodeSpec(
                    f"host-{host}",
                    link="command",
                    command=("ip", "netns", "exec", self.space(host)),
                    python=sys.executable,
                )
                for host in range(self.count)
            ),
            source="a lab of network namespaces",
        )

    def slow_egress(self, host: int) -> None:
        """What leaves this host is slow."""
        shape(self.space(host), "eth0", BAD_MBIT)

    def slow_node(self, host: int) -> None:
        """Both ways are slow."""
        self.slow_egress(host)
        shape(self.switch, f"p{host}", BAD_MBIT)

    def slow_link(self, src: int, dst: int) -> None:
        """Only what goes from one host to the other is slow."""
        space = self.space(src)
        run(
            "tc",
            "-n",
            space,
            "qdisc",
            "replace",
            "dev",
            "eth0",
            "root",
            "handle",
            "1:",
            "htb",
            "default",
            "1",
        )
        for number, rate in ((1, GOOD_MBIT), (2, BAD_MBIT)):
            run(
                *("tc", "-n", space, "class", "add", "dev", "eth0", "parent", "1:", "classid", f"1:{number}"),
                *("htb", "rate", f"{rate}mbit", "burst", BURST, "cburst", BURST),
            )
        run(
            *("tc", "-n", space, "filter", "add", "dev", "eth0", "parent", "1:", "protocol", "ip", "u32"),
            *("match", "ip", "dst", f"{address(dst)}/32", "flowid", "1:2"),
        )

    def cut(self, one: int, other: int) -> None:
        """Whatever the two send to each other is dropped without a word."""
        for here, there in ((one, other), (other, one)):
            drop = ("iptables", "-A", "OUTPUT", "-d", address(there), "-j", "DROP")
            run("ip", "netns", "exec", self.space(here), *drop)

    def processes(self) -> list[int]:
        """Process ids in all of its namespaces."""
        found = []
        for space in [*map(self.space, range(self.count)), self.switch]:
            reported = subprocess.run(
                [need("ip"), "netns", "pids", space], capture_output=True, text=True, check=False
            )
            found += [int(pid) for pid in reported.stdout.split()]
        return found


def address(host: int) -> str:
    """A host's address."""
    return f"10.77.0.{10 + host}"


def shape(space: str, device: str, mbit: int) -> None:
    """Let a device send no faster than this."""
    run(
        *("tc", "-n", space, "qdisc", "replace", "dev", device, "root", "tbf"),
        *("rate", f"{mbit}mbit", "burst", BURST, "latency", "100ms"),
    )


def run(*argv: str) -> None:
    """Run one command of the lab.

    Raises:
        RuntimeError: it failed; with its words.
    """
    program = path_of(argv[0]) or argv[0]
    done = subprocess.run([program, *argv[1:]], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")


@contextlib.contextmanager
def lab(hosts: int) -> Iterator[Lab]:
    """A lab for the time of a test; skips where the kernel or the user cannot make one."""
    for part in ("ip", "tc", "iptables"):
        need(part)
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    made = Lab(hosts)
    try:
        try:
            made.build()
        except RuntimeError as error:
            pytest.skip(f"no network namespaces with shaped links here ({error})")
        yield made
    finally:
        made.close()
