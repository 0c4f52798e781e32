"""One plain sshd for the tests of this folder that need nothing special of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.sshd import Sshd


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with Sshd(tmp_path_factory.mktemp("sshd"), host_keys=("ed25519", "rsa", "ecdsa")) as server:
        yield server
