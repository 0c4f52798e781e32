"""The addresses by which other nodes know this one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from gpuwatch.agent.host.addresses import ipv6, own_addresses
from tests.parts import need


def test_they_are_those_that_ip_shows() -> None:
    reported = json.loads(
        subprocess.check_output([need("ip"), "-j", "addr", "show", "scope", "global"], text=True)
    )
    shown = {
        one["local"]
        for link in reported
        if link.get("ifname", "").startswith(("eth", "en"))
        for one in link["addr_info"]
        if "local" in one
    }
    own = own_addresses()
    assert shown <= set(own)
    assert not any(one.startswith(("127.", "fe80:", "::1")) for one in own)


def test_ipv6_of_the_kernels_table() -> None:
    table = (
        "00000000000000000000000000000001 01 80 10 80       lo\n"
        "fe800000000000000242acfffe110002 02 40 20 80     eth0\n"
        "fd001234000000000000000000000007 02 40 00 80     eth0\n"
    )
    assert ipv6(table) == [("eth0", "fd00:1234::7")]


def test_a_node_without_such_a_table(tmp_path: Path) -> None:
    assert all(":" not in one for one in own_addresses(str(tmp_path)))
