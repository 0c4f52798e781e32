"""The ways to a node: ssh_config through `ssh -G`, jump hosts, ProxyCommand."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.openssh.ssh_config import ConfigError, HostQuery, resolve
from gpuwatch.link.ssh import fallback_config
from gpuwatch.link.ssh.dialing import SshDialing
from gpuwatch.link.ssh.fallback_config import read_plainly
from tests.link.ssh.dial import dialing, refusal, states, until
from tests.sentences import Sentences
from tests.servers.sshd import Client, Sshd, public_key

RELAY = (
    "import os,socket,sys,threading;"
    "s=socket.create_connection((sys.argv[1],int(sys.argv[2])));"
    "up=lambda:[s.sendall(d) for d in iter(lambda:os.read(0,65536),b'')];"
    "threading.Thread(target=up,daemon=True).start();"
    "[os.write(1,d) for d in iter(lambda:s.recv(65536),b'')]"
)


def test_include_and_match_are_read_as_ssh_reads_them(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "included").write_text(f"Host by-include\n  Port {sshd.port}\n")
    config = tmp_path / "config"
    config.write_text(
        f"Include {tmp_path / 'included'}\n"
        f'Match host by-* exec "test %n = by-match"\n  Port {sshd.port}\n'
        "Match localnetwork 203.0.113.0/24\n  User nobody-at-all\n"
        f"Host *\n  HostName 127.0.0.1\n  User {sshd.user}\n  IdentityFile {sshd.client.identity}\n"
        f"  IdentityAgent none\n  UserKnownHostsFile {sshd.client.known_hosts}\n"
    )
    # this ssh may be too old for `Match localnetwork`; then it says so, and so do we
    options = replace(sshd.client.options(), ssh_config=str(config))
    if "localnetwork" in sshd.client.ssh("-F", str(config), "-G", "x").stderr:
        assert "localnetwork" in str(refusal(NodeSpec("by-include"), options))
        config.write_text(
            config.read_text().replace("Match localnetwork 203.0.113.0/24\n  User nobody-at-all\n", "")
        )
    assert states(NodeSpec("by-include"), options) == "in"
    assert states(NodeSpec("by-match"), options) == "in"


def test_a_config_error_is_reported_for_the_node_and_not_raised_early(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Nonsense yes\n")
    error = refusal(NodeSpec("x"), replace(sshd.client.options(), ssh_config=str(tmp_path / "config")))
    assert error.final
    assert "nonsense" in str(error).lower()


def test_without_ssh_a_plain_config_works(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert states(sshd.spec(), sshd.client.options()) == "in"


@pytest.mark.parametrize("line", ["Include {file}", "Match localnetwork 10.0.0.0/8", "Match tagged x"])
def test_without_ssh_what_would_be_misread_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "more").write_text("")
    config = tmp_path / "config"
    config.write_text("Host a\n  Port 1\n" + line.format(file=tmp_path / "more") + "\n  User b\n")
    with pytest.raises(ConfigError, match=f"{config}:3"):
        read_plainly(HostQuery("a"), str(config))


def test_without_ssh_an_include_of_nothing_is_harmless(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"Include {tmp_path}/none/*.conf\nHost a\n  Port 77\n  HostName %h.example\n")
    host = resolve(read_plainly(HostQuery("a", user="u"), str(config)), HostQuery("a", user="u"))
    assert (host.hostname, host.port, host.user) == ("a.example", 77, "u")


def test_without_ssh_only_a_named_config_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(ConfigError, match=f"{missing} cannot be read: No such file"):
        read_plainly(HostQuery("a"), str(missing))
    assert read_plainly(HostQuery("a"), "none")["hostname"] == ["a"]
    # as on a machine that has neither of the default files
    monkeypatch.setattr(fallback_config, "read_bounded", lambda *_: missing.read_bytes())
    assert read_plainly(HostQuery("a"), None)["hostname"] == ["a"]


def test_a_host_name_never_reaches_a_shell(sshd: Sshd) -> None:
    with pytest.raises(ConfigError, match="a shell would interpret"):
        resolve({"proxycommand": ["nc %h %p"]}, HostQuery("evil$(id)"))
    assert refusal(NodeSpec("-oProxyCommand=id"), sshd.client.options()).final


def test_twenty_nodes_share_one_login_at_the_jump_host(tmp_path: Path) -> None:
    client = Client(tmp_path / "client")
    names = tuple(f"node-{n}" for n in range(20))
    with (
        Sshd(tmp_path / "bastion", client=client, names=("bastion",)) as bastion,
        Sshd(tmp_path / "node", client=client, names=names) as node,
    ):
        specs = [replace(node.spec(name), jump="bastion") for name in names]
        everyone = SshDialing(specs, client.options(), None)
        try:
            with ThreadPoolExecutor(len(specs)) as pool:
                carriers = list(pool.map(lambda spec: everyone.dialer(spec)("echo in; cat"), specs))
            assert [carrier.recv(10) for carrier in carriers] == [b"in\n"] * 20
            assert (bastion.logins(), node.logins()) == (1, 20)
            bastion.kill_sessions()  # the shared connection dies: all see the end, and all can come back
            assert {carrier.recv(10) for carrier in carriers} == {b""}
            for carrier in carriers:
                carrier.close()
            with ThreadPoolExecutor(len(specs)) as pool:
                carriers = list(pool.map(lambda spec: everyone.dialer(spec)("echo back"), specs))
            assert [carrier.recv(10) for carrier in carriers] == [b"back\n"] * 20
            assert bastion.logins() == 2
            for carrier in carriers:
                carrier.close()
        finally:
            everyone.close()


def test_a_chain_from_ssh_config(tmp_path: Path) -> None:
    client = Client(tmp_path / "client")
    with (
        Sshd(tmp_path / "a", client=client, names=("a",)) as first,
        Sshd(tmp_path / "b", client=client, names=("b",)) as second,
        Sshd(tmp_path / "node", client=client, names=()) as node,
    ):
        client.add_host("node-1", node.port, node.user, f"ProxyJump a,{second.user}@b:{second.port}")
        with dialing(NodeSpec("node-1"), client.options()) as dial:
            carrier = dial("echo in")
            assert carrier.recv(10) == b"in\n"
            assert carrier.facts.jump == (
                f"{first.user}@127.0.0.1:{first.port}, {second.user}@127.0.0.1:{second.port}"
            )
            carrier.close()
        assert (first.logins(), second.logins(), node.logins()) == (1, 1, 1)


def test_the_jump_hosts_key_is_checked_as_strictly(tmp_path: Path, sentences: Sentences) -> None:
    client = Client(tmp_path / "client")
    with (
        Sshd(tmp_path / "bastion", client=client, names=("bastion",), trusted=False) as bastion,
        Sshd(tmp_path / "node", client=client) as node,
    ):
        spec = replace(node.spec(), jump="bastion")
        error = refusal(spec, client.options())
        assert error.final
        sentences(str(error))
        assert bastion.logins() == 0
        assert states(spec, client.options(accept_new_host_keys=True)) == "in"


def test_a_jump_host_for_all_does_not_jump_through_itself(tmp_path: Path) -> None:
    client = Client(tmp_path / "client")
    with (
        Sshd(tmp_path / "bastion", client=client, names=("bastion",)) as bastion,
        Sshd(tmp_path / "node", client=client) as node,
    ):
        with client.config.open("a") as config:
            config.write("Host *\n  ProxyJump bastion\n")
        assert states(node.spec(), client.options()) == "in"
        assert (bastion.logins(), node.logins()) == (1, 1)
        assert states(replace(node.spec(), jump="none"), client.options()) == "in"
        assert bastion.logins() == 1


def test_a_node_that_the_jump_host_cannot_reach(tmp_path: Path, sentences: Sentences) -> None:
    client = Client(tmp_path / "client")
    with Sshd(tmp_path / "bastion", client=client, names=("bastion",)):
        client.add_host("down", 1, "x", "ProxyJump bastion")
        error = refusal(NodeSpec("down"), client.options())
        assert not error.final
        sentences(str(error))


@pytest.fixture
def children() -> Callable[[], list[int]]:
    """The child processes of this one that the test has started, other than the servers."""

    def running() -> set[int]:
        pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return {int(pid) for pid in pids if Path(f"/proc/{pid}/comm").read_text().strip() != "sshd"}

    earlier = running()
    return lambda: sorted(running() - earlier)


@pytest.mark.parametrize("kind", ["relay", "ssh -W"])
def test_a_proxy_command(sshd: Sshd, children: Callable[[], list[int]], kind: str) -> None:
    relay = f'{sys.executable} -c "{RELAY}" %h %p'
    through = f"ssh -F {sshd.client.config} -oBatchMode=yes -oKexAlgorithms=curve25519-sha256 -W %h:%p node-1"
    name = kind.replace(" ", "")
    sshd.client.add_host(name, sshd.port, sshd.user, f"ProxyCommand {relay if kind == 'relay' else through}")
    with dialing(NodeSpec(name), sshd.client.options()) as dial:
        carrier = dial("echo in; cat")
        assert carrier.recv(10) == b"in\n"
        (child,) = children()
        os.kill(child, signal.SIGKILL)
        assert carrier.recv(10) == b""
        carrier.close()
        assert children() == []

        carrier = dial("cat")
        assert len(children()) == 1
        carrier.close()
        assert children() == []


def test_what_a_failing_proxy_command_says_is_shown(
    sshd: Sshd, children: Callable[[], list[int]], sentences: Sentences
) -> None:
    sshd.client.add_host("broken", sshd.port, sshd.user, "ProxyCommand echo no way through >&2; exit 1")
    error = refusal(NodeSpec("broken"), sshd.client.options())
    sentences(str(error))
    until(lambda: children() == [], "the child is reaped")


def test_one_clients_key_for_two_servers(tmp_path: Path) -> None:
    client = Client(tmp_path / "client")
    with (
        Sshd(tmp_path / "a", client=client, names=("a",)) as first,
        Sshd(tmp_path / "b", client=client, names=("b",)),
    ):
        assert public_key(client.identity) in first.authorized_keys.read_text()
        assert [states(NodeSpec(name), client.options()) for name in ("a", "b")] == ["in", "in"]
