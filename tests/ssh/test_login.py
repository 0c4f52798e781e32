"""Logging in to a real sshd and running a command there."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.link.ssh.dialing import SshDialing
from tests.ssh.dial import dialing, read_all
from tests.sshd import Sshd


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory):
    with Sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


def test_a_command_talks_both_ways_and_ends(sshd: Sshd) -> None:
    with dialing(sshd) as dial:
        carrier = dial("cat; echo trouble >&2")
        carrier.send(b"hello\n")
        assert carrier.recv(100) == b"hello\n"
        carrier.close()
        assert carrier.recv(100) == b""
