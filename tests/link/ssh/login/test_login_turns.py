"""Many links to one sshd that refuses more than a few logins at once (MaxStartups)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpuwatch.link.ssh import login_turns
from gpuwatch.link.ssh.dialing import SshDialing
from gpuwatch.link.ssh.login_turns import MAX_AT_ONCE
from gpuwatch.link.stream.carrier import CarrierError
from tests.link.ssh.dial import WAIT_S, read_all
from tests.servers.sshd import Sshd

LINKS = 30
ALL_IN_S = 3 * WAIT_S


@pytest.fixture(autouse=True)
def no_login_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_turns, "LEASE_S", ALL_IN_S)


def refusals_until_all_are_in(sshd: Sshd) -> int:
    """Dial every name at once, and again where the server refuses; how many refusals the server logged."""
    specs = [sshd.spec(name) for name in sshd.names]
    dialing = SshDialing(specs, sshd.client.options(), None)
    deadline = time.monotonic() + ALL_IN_S

    def log_in(name: str) -> str:
        while True:
            try:
                carrier = dialing.dialer(sshd.spec(name))("echo in")
            except CarrierError as error:
                assert not error.final, error
                assert time.monotonic() < deadline, error
                time.sleep(0.1)
                continue
            try:
                return read_all(carrier).decode().strip()
            finally:
                carrier.close()

    try:
        with ThreadPoolExecutor(LINKS) as pool:
            assert list(pool.map(log_in, sshd.names)) == ["in"] * len(sshd.names)
    finally:
        dialing.close()
    return sshd.log.read_text().count("drop connection")


@pytest.mark.parametrize("hop", [False, pytest.param(True, marks=pytest.mark.long)])
def test_an_sshd_that_admits_a_few_logins_at_once_refuses_none(tmp_path: Path, hop: bool) -> None:
    names = tuple(f"n{number}" for number in range(LINKS))
    limit = MAX_AT_ONCE + 6  # sshd counts a login for a moment longer than we do
    lines = (f"MaxStartups {limit}:100:{limit}",)
    with Sshd(tmp_path / "near", names=("hop",) if hop else names, lines=lines) as near:
        if not hop:
            assert refusals_until_all_are_in(near) == 0
            return
        with Sshd(tmp_path / "far", client=near.client, names=()) as far:
            through = f"ProxyCommand ssh -F {near.client.config} -W %h:%p hop"
            for name in names:
                near.client.add_host(name, far.port, far.user, through)
            far.names = names
            assert refusals_until_all_are_in(far) == 0
            assert near.log.read_text().count("drop connection") == 0


def test_where_fewer_are_admitted_all_get_in_with_few_refusals(tmp_path: Path) -> None:
    names = tuple(f"n{number}" for number in range(LINKS))
    with Sshd(tmp_path / "near", names=names, lines=("MaxStartups 3:100:3",)) as near:
        assert refusals_until_all_are_in(near) < 4 * LINKS
