"""Logging in to a real sshd with keys, certificates, an agent; and what is said when it does not work."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.openssh.ssh_config import HostQuery, ResolvedHost
from gpuwatch.link.ssh.dialing import SshDialing
from gpuwatch.link.ssh.sockets.tcp import TcpStream
from tests.link.ssh.dial import dialing, read_all, refusal, states, until
from tests.link.ssh.login.asked import Asked
from tests.parts import need
from tests.sentences import Sentences
from tests.servers.sshd import Sshd, login_user, make_key, public_key, sign_key

OPENS = "open sesame"


def test_a_command_talks_both_ways(sshd: Sshd) -> None:
    with dialing(sshd.spec(), sshd.client.options()) as dial:
        carrier = dial("cat")
        carrier.send(b"hello\n")
        assert carrier.recv(100) == b"hello\n"
        carrier.close()


def test_the_end_of_the_command_is_the_end_of_the_stream(sshd: Sshd) -> None:
    with dialing(sshd.spec(), sshd.client.options()) as dial:
        carrier = dial("echo out; echo first >&2; echo last >&2")
        assert read_all(carrier) == b"out\n"
        assert carrier.stderr().endswith("first\nlast\n")
        carrier.close()


def test_a_flood_on_stderr_does_not_stop_stdout(sshd: Sshd) -> None:
    with dialing(sshd.spec(), sshd.client.options()) as dial:
        carrier = dial("for i in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/zero >&2; echo $i; done")
        assert read_all(carrier).split() == [str(n).encode() for n in range(1, 9)]
        assert len(carrier.stderr()) <= 4096
        carrier.close()


def test_facts_tell_how_it_got_in(sshd: Sshd) -> None:
    with dialing(sshd.spec(), sshd.client.options()) as dial:
        carrier = dial("true")
        facts = carrier.facts
        carrier.close()
    assert (facts.user, facts.hostname, facts.port, facts.jump) == (sshd.user, "127.0.0.1", sshd.port, None)
    assert facts.verified_by == f"key at {sshd.client.known_hosts}:1"
    assert facts.authenticated_by == f"publickey {sshd.client.identity}"


def test_the_hosts_file_wins_over_ssh_config(sshd: Sshd, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    with sshd.authorized_keys.open("a") as keys:
        keys.write(public_key(other) + "\n")
    sshd.client.add_host("misled", 1, "nobody", "IdentityFile /nonexistent")
    spec = NodeSpec("shown", address="misled", port=sshd.port, user=sshd.user, identity_file=(str(other),))
    with dialing(spec, sshd.client.options()) as dial:
        carrier = dial("true")
        assert carrier.facts.authenticated_by == f"publickey {other}"
        carrier.close()


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_key_types(sshd: Sshd, tmp_path: Path, kind: str) -> None:
    key = make_key(tmp_path / "key", kind)
    with sshd.authorized_keys.open("a") as keys:
        keys.write(public_key(key) + "\n")
    assert states(replace(sshd.spec(), identity_file=(str(key),)), sshd.client.options()) == "in"


@pytest.mark.parametrize("form", ["PEM", "PKCS8"])
def test_old_key_file_formats(sshd: Sshd, tmp_path: Path, form: str) -> None:
    key = make_key(tmp_path / "key", "rsa")
    subprocess.run([need("ssh-keygen"), "-q", "-p", "-N", "secret", "-m", form, "-f", str(key)], check=True)
    with sshd.authorized_keys.open("a") as keys:
        keys.write(public_key(key) + "\n")
    ask = Asked("secret")
    assert states(replace(sshd.spec(), identity_file=(str(key),)), sshd.client.options(), ask=ask) == "in"


def test_a_refused_login_says_what_to_do(sshd: Sshd, tmp_path: Path) -> None:
    stranger = make_key(tmp_path / "stranger")
    spec = replace(sshd.spec(), identity_file=(str(stranger), str(tmp_path / "missing")))
    error = refusal(spec, sshd.client.options())
    assert error.final
    for part in (
        f"{sshd.user}@127.0.0.1:{sshd.port}",
        "it offers publickey",
        str(stranger),
        f"{tmp_path / 'missing'}: it cannot be read",
        "authorized_keys",
    ):
        assert part in str(error)


def test_a_passphrase_is_asked_once_per_file(sshd: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "locked", passphrase=OPENS)
    with sshd.authorized_keys.open("a") as keys:
        keys.write(public_key(key) + "\n")
    sshd.client.add_host("second", sshd.port, sshd.user)
    specs = [NodeSpec(name, identity_file=(str(key),)) for name in ("node-1", "second")]
    ask = Asked("wrong", OPENS)
    everyone = SshDialing(specs, sshd.client.options(), ask)
    try:
        assert [question for question, _ in ask.questions] == [
            f"Passphrase for {key}: ",
            f"Wrong. Passphrase for {key}: ",
        ]
        assert all(secret for _, secret in ask.questions)
        for spec in specs:
            carrier = everyone.dialer(spec)("echo in")
            assert carrier.recv(10) == b"in\n"
            carrier.close()
    finally:
        everyone.close()
    assert len(ask.questions) == 2


def test_nobody_to_ask_for_a_passphrase(sshd: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "locked", passphrase=OPENS)
    error = refusal(replace(sshd.spec(), identity_file=(str(key),)), sshd.client.options())
    assert "ssh-add" in str(error)


def test_a_user_certificate(tmp_path: Path) -> None:
    authority = make_key(tmp_path / "authority")
    with Sshd(tmp_path / "sshd", lines=[f"TrustedUserCAKeys {authority}.pub"]) as sshd:
        sshd.authorized_keys.write_text("")
        sign_key(authority, sshd.client.identity, principals=sshd.user)
        with dialing(sshd.spec(), sshd.client.options()) as dial:
            carrier = dial("true")
            assert carrier.facts.authenticated_by == f"publickey {sshd.client.identity}-cert.pub"
            carrier.close()
        elsewhere = tmp_path / "my-cert.pub"
        Path(f"{sshd.client.identity}-cert.pub").rename(elsewhere)
        sshd.client.add_host("named", sshd.port, sshd.user, f"CertificateFile {elsewhere}")
        assert states(NodeSpec("named"), sshd.client.options()) == "in"


@contextlib.contextmanager
def ssh_agent(folder: Path) -> Iterator[str]:
    """A real agent, ended by its pid; gives its socket."""
    path = folder / "agent"
    agent = subprocess.Popen([need("ssh-agent"), "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    try:
        until(path.exists, "the agent listens")
        yield str(path)
    finally:
        agent.terminate()
        agent.wait(60)


def add_to_agent(agent: str, *keys: Path) -> None:
    subprocess.run(
        [need("ssh-add"), "-q", *map(str, keys)],
        check=True,
        env={**os.environ, "SSH_AUTH_SOCK": agent},
        capture_output=True,
    )


def test_an_agent_signs(sshd: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "mine", "rsa")
    with sshd.authorized_keys.open("a") as keys:
        keys.write(public_key(key) + "\n")
    with ssh_agent(tmp_path) as agent:
        add_to_agent(agent, key)
        key.unlink()
        sshd.client.add_host("by-agent", sshd.port, sshd.user, f"IdentityAgent {agent}", "IdentitiesOnly no")
        for named, label in ((key, str(key)), (tmp_path / "unrelated", "agent key mine")):
            with dialing(NodeSpec("by-agent", identity_file=(str(named),)), sshd.client.options()) as dial:
                carrier = dial("true")
                assert carrier.facts.authenticated_by == f"publickey {label}"
                carrier.close()


def test_a_certificate_for_a_key_that_only_the_agent_has(tmp_path: Path) -> None:
    authority, key = make_key(tmp_path / "authority"), make_key(tmp_path / "key", "rsa")
    with (
        Sshd(tmp_path / "sshd", lines=[f"TrustedUserCAKeys {authority}.pub"]) as sshd,
        ssh_agent(tmp_path) as agent,
    ):
        add_to_agent(agent, key)
        key.unlink()
        certificate = sign_key(authority, key, principals=sshd.user)
        sshd.client.add_host("both", sshd.port, sshd.user, f"IdentityAgent {agent}")
        with dialing(NodeSpec("both", identity_file=(str(key),)), sshd.client.options()) as dial:
            carrier = dial("true")
            assert carrier.facts.authenticated_by == f"publickey {certificate}"
            carrier.close()


def test_a_big_agent_does_not_use_up_the_attempts(sshd: Sshd, tmp_path: Path) -> None:
    with ssh_agent(tmp_path) as agent:
        add_to_agent(agent, *(make_key(tmp_path / f"k{n}") for n in range(8)))
        sshd.client.add_host("crowded", sshd.port, sshd.user, f"IdentityAgent {agent}", "IdentitiesOnly no")
        assert states(NodeSpec("crowded"), sshd.client.options()) == "in"
        error = refusal(NodeSpec("crowded", identity_file=(str(tmp_path / "none"),)), sshd.client.options())
        assert "MaxAuthTries" in str(error)


def test_identities_only_leaves_the_agents_other_keys_alone(sshd: Sshd, tmp_path: Path) -> None:
    locked = make_key(tmp_path / "locked", passphrase=OPENS)
    with sshd.authorized_keys.open("a") as keys:
        keys.write(public_key(locked) + "\n")
    with ssh_agent(tmp_path) as agent:
        add_to_agent(agent, sshd.client.identity)
        sshd.client.add_host("only", sshd.port, sshd.user, f"IdentityAgent {agent}", "IdentitiesOnly yes")
        error = refusal(NodeSpec("only", identity_file=(str(locked),)), sshd.client.options())
        assert "agent key" not in str(error)


def test_an_encrypted_key_in_the_agent_needs_no_passphrase(sshd: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    with sshd.authorized_keys.open("a") as keys:
        keys.write(public_key(key) + "\n")
    with ssh_agent(tmp_path) as agent:
        add_to_agent(agent, key)
        subprocess.run([need("ssh-keygen"), "-q", "-p", "-N", "secret", "-f", str(key)], check=True)
        sshd.client.add_host("held", sshd.port, sshd.user, f"IdentityAgent {agent}", "IdentitiesOnly yes")
        ask = Asked()
        assert states(NodeSpec("held", identity_file=(str(key),)), sshd.client.options(), ask=ask) == "in"
        assert ask.questions == []


def test_nobody_listens(sshd: Sshd) -> None:
    error = refusal(replace(sshd.spec(), port=1), sshd.client.options())
    assert not error.final
    assert "connection refused" in str(error)


def test_a_name_that_does_not_resolve(sshd: Sshd, sentences: Sentences) -> None:
    sshd.client.add_host("gone", 1, sshd.user, "HostName no-such-host.invalid")
    error = refusal(NodeSpec("gone"), sshd.client.options())
    sentences(str(error), but=r"(?<=resolve \()[^)]*")  # the words of the machine's resolver


def test_an_account_that_starts_no_command(tmp_path: Path, sentences: Sentences) -> None:
    with Sshd(tmp_path / "sshd", lines=["MaxSessions 0"]) as sshd:
        sentences(str(refusal(sshd.spec(), sshd.client.options())))


def test_force_command_and_banner(tmp_path: Path) -> None:
    (tmp_path / "banner").write_text("KEEP OUT\n")
    lines = [f"Banner {tmp_path / 'banner'}", "ForceCommand echo only this"]
    with Sshd(tmp_path / "sshd", lines=lines) as sshd:
        assert states(sshd.spec(), sshd.client.options()) == "only this"


@pytest.mark.parametrize("shell", ["sh", "bash", "fish", "tcsh"])
def test_login_shells_of_other_users(tmp_path: Path, shell: str) -> None:
    with login_user(need(shell)) as user, Sshd(tmp_path / "sshd", user=user) as sshd:
        assert states(sshd.spec(), sshd.client.options(), "id -un; echo $HOME") == f"{user.name}\n{user.home}"


def test_the_socket_is_made_for_small_messages_and_notices_a_dead_peer(sshd: Sshd) -> None:
    stream = TcpStream()
    query = HostQuery("node-1")
    stream.connect(ResolvedHost(query, "127.0.0.1", sshd.port, sshd.user), 10.0)
    try:
        assert stream.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert stream.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert 10_000 <= stream.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 15_000
    finally:
        stream.close()


def test_weak_algorithms_are_not_offered(tmp_path: Path, sentences: Sentences) -> None:
    lines = ["Ciphers aes128-cbc,3des-cbc", "MACs hmac-sha1"]
    with Sshd(tmp_path / "sshd", lines=lines) as sshd:
        sentences(str(refusal(sshd.spec(), sshd.client.options())))
