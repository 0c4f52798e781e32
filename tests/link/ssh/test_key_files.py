"""Files that are named as keys and are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.openssh.known_hosts import revoked_blobs
from gpuwatch.link.openssh.known_hosts_file import HostKeyListError, lines_about
from gpuwatch.link.openssh.ssh_config import ConfigError, HostQuery
from gpuwatch.link.ssh.fallback_config import read_plainly
from gpuwatch.link.ssh.keys.key_files import KeyFileError, certificates, public_key, read_key_file
from tests.link.ssh.dial import refusal
from tests.link.ssh.login.asking_server import Asking, asking_server
from tests.servers.sshd import Client, make_key
from tests.servers.sshd import public_key as public_text


@pytest.mark.timeout(10)
def test_a_device_as_key_is_read_to_a_bound() -> None:
    zero = Path("/dev/zero")
    with pytest.raises(KeyFileError):
        read_key_file(zero).load(None)
    assert public_key(zero) is None
    assert certificates(zero, (zero,)) == []


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A named pipe without a writer: who opens it to read waits for ever."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.mark.timeout(10)
def test_a_named_pipe_as_key_is_refused_with_its_remedy(pipe: Path) -> None:
    with pytest.raises(KeyFileError, match=r"named pipe.*private key"):
        read_key_file(pipe)
    assert public_key(pipe) is None
    assert certificates(pipe, (pipe,)) == []


@pytest.mark.timeout(10)
@pytest.mark.parametrize("device", [None, Path("/dev/zero")])
def test_no_host_key_is_trusted_by_a_list_without_an_end(pipe: Path, device: Path | None) -> None:
    file = device or pipe
    for read in (lambda: lines_about(file, "node"), lambda: revoked_blobs(file)):
        with pytest.raises(HostKeyListError, match="UserKnownHostsFile"):
            read()


def test_an_empty_device_is_an_empty_list() -> None:
    assert lines_about(Path("/dev/null"), "node") == ()


@pytest.mark.timeout(10)
@pytest.mark.parametrize("device", [None, Path("/dev/zero")])
def test_a_configuration_without_an_end_is_refused(pipe: Path, device: Path | None) -> None:
    with pytest.raises(ConfigError):
        read_plainly(HostQuery("node"), str(device or pipe))


@pytest.mark.timeout(30)
def test_a_node_whose_key_is_a_named_pipe_is_refused_and_names_it(tmp_path: Path, pipe: Path) -> None:
    key, client = make_key(tmp_path / "host"), Client(tmp_path / "client")
    with asking_server(Asking(methods="publickey"), key) as asking:
        client.add_host("node", asking.port, "ada")
        client.trust(f"[127.0.0.1]:{asking.port} {public_text(key)}")
        spec = replace(NodeSpec("node"), identity_file=(str(pipe),))
        assert str(pipe) in str(refusal(spec, client.options()))


@pytest.mark.timeout(30)
def test_a_node_whose_known_hosts_is_a_named_pipe_is_refused_and_names_it(tmp_path: Path, pipe: Path) -> None:
    key, client = make_key(tmp_path / "host"), Client(tmp_path / "client")
    with asking_server(Asking(), key) as asking:
        client.add_host("node", asking.port, "ada", f"UserKnownHostsFile {pipe}")
        error = refusal(NodeSpec("node"), client.options(accept_new_host_keys=True))
        assert error.final
        assert str(pipe) in str(error)
