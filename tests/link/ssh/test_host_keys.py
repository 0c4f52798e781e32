"""Host keys against the real `ssh` as oracle: the same known_hosts must give the same verdict."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.stream.carrier import CarrierError
from tests.link.ssh.dial import dialing, refusal, states
from tests.parts import need
from tests.sentences import Sentences
from tests.servers.sshd import Client, Sshd, make_key, public_key, sign_key

FAST = ("-o", "KexAlgorithms=curve25519-sha256")


@dataclass
class Bench:
    """Servers with every kind of host key, one client, and keys that nobody has."""

    client: Client
    servers: dict[str, Sshd]
    authority: str
    stranger: str

    def name(self, server: str) -> str:
        return f"[127.0.0.1]:{self.servers[server].port}"

    def words(self, server: str) -> dict[str, str]:
        """What stands in the table's braces."""
        name, own = (
            self.name(server),
            {key.name.removeprefix("host_"): key for key in self.servers[server].host_keys},
        )
        keys = {kind: public_key(key) for kind, key in own.items()}
        first = next(iter(keys.values()))
        return {
            **keys,
            "name": name,
            "hashed": hashed(name),
            "hashed_other": hashed("other"),
            "spaced": first.replace(" ", "   "),
            "blob": first.split()[1],
            "ca": self.authority,
            "stranger": self.stranger,
            "other_rsa": self.key("rsa", "rsa"),
        }

    def key(self, kind: str, server: str = "plain") -> str:
        return public_key(self.servers[server].folder / f"host_{kind}")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("host-keys")
    client = Client(folder / "client")
    authority = make_key(folder / "authority")
    stranger = make_key(folder / "stranger")
    certificates = {
        "certified": {"principals": "127.0.0.1,gpu-1.example"},
        "expired": {"principals": "127.0.0.1", "validity": "20200101:20210101"},
        "misnamed": {"principals": "other.example"},
        "unnamed": {},
    }
    with contextlib.ExitStack() as running:
        servers = {
            "plain": Sshd(folder / "plain", client=client, names=(), host_keys=("ed25519", "rsa", "ecdsa"))
        }
        for name, words in certificates.items():
            line = f"HostCertificate {folder / name / 'host_ed25519-cert.pub'}"
            servers[name] = Sshd(folder / name, client=client, names=(), lines=[line])
            sign_key(authority, folder / name / "host_ed25519", host=True, **words)
        line = f"HostCertificate {folder / 'rsa' / 'host_rsa-cert.pub'}"
        servers["rsa"] = Sshd(folder / "rsa", client=client, names=(), host_keys=("rsa",), lines=[line])
        sign_key(authority, folder / "rsa" / "host_rsa", host=True, principals="127.0.0.1")
        line = f"HostCertificate {folder / 'personal' / 'host_ed25519-cert.pub'}"
        servers["personal"] = Sshd(folder / "personal", client=client, names=(), lines=[line])
        sign_key(authority, folder / "personal" / "host_ed25519", principals="127.0.0.1")
        for server in servers.values():
            running.enter_context(server)
        yield Bench(client, servers, public_key(authority), public_key(stranger))


def hashed(name: str) -> str:
    salt = b"01234567890123456789"
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


ALIAS = ("HostKeyAlias gpu-1.example",)
CASES = {
    # name: (server, known_hosts, lines for the Host block); {ed25519} and the like are the server's own keys
    "empty": ("plain", "", ()),
    "plain": ("plain", "{name} {ed25519}", ()),
    "only rsa is known": ("plain", "{name} {rsa}", ()),
    "only ecdsa is known": ("plain", "{name} {ecdsa}", ()),
    "several keys": ("plain", "{name} {rsa}\n{name} {ed25519} comment here", ()),
    "one right and one wrong of a type": ("plain", "{name} {stranger}\n{name} {ed25519}", ()),
    "changed": ("plain", "{name} {stranger}", ()),
    "changed, other type unknown": ("plain", "{name} {other_rsa}", ()),
    "hashed": ("plain", "{hashed} {ed25519}", ()),
    "hashed, other host": ("plain", "{hashed_other} {ed25519}", ()),
    "bad hash": ("plain", "|1|nonsense|more {ed25519}", ()),
    "bare name, any port": ("plain", "127.0.0.1 {ed25519}", ()),
    "bare name, changed": ("plain", "127.0.0.1 {stranger}", ()),
    "other port": ("plain", "[127.0.0.1]:1 {ed25519}", ()),
    "list of names": ("plain", "a.example,{name},b.example {ed25519}", ()),
    "wildcard": ("plain", "[127.0.*]:* {ed25519}", ()),
    "question mark": ("plain", "[127.0.0.?]:* {ed25519}", ()),
    "star": ("plain", "* {ed25519}", ()),
    "negation": ("plain", "*,!{name} {ed25519}", ()),
    "negation first": ("plain", "!{name},* {ed25519}", ()),
    "negation of another": ("plain", "!other,[127*]:* {ed25519}", ()),
    "only a negation": ("plain", "!other {ed25519}", ()),
    "two spaces and tabs": ("plain", "  {name}  \t{spaced}", ()),
    "malformed lines first": (
        "plain",
        "x\n@what {name} ssh-rsa\n{name} ssh-ed25519 !!!\n# c\n\n{name} {ed25519}",
        (),
    ),
    "type does not fit the key": ("plain", "{name} ssh-rsa {blob}", ()),
    "revoked and known": ("plain", "{name} {ed25519}\n@revoked {name} {ed25519}", ()),
    "revoked for all": ("plain", "@revoked * {ed25519}\n{name} {ed25519}", ()),
    "another key revoked": ("plain", "{name} {ed25519}\n@revoked * {stranger}", ()),
    "revoked for another host": ("plain", "{name} {ed25519}\n@revoked other {ed25519}", ()),
    "alias": ("plain", "gpu-1.example {ed25519}", ALIAS),
    "alias, known by address": ("plain", "{name} {ed25519}", ALIAS),
    "authority for a server without a certificate": ("plain", "@cert-authority * {ca}", ()),
    "authority": ("certified", "@cert-authority {name} {ca}", ()),
    "authority by pattern": ("certified", "@cert-authority [127.*]:* {ca}", ()),
    "authority, bare name": ("certified", "@cert-authority 127.0.0.1 {ca}", ()),
    "authority, alias is a principal": ("certified", "@cert-authority *.example {ca}", ALIAS),
    "authority for another host": ("certified", "@cert-authority x {ca}", ()),
    "another authority": ("certified", "@cert-authority * {stranger}", ()),
    "authority revoked": ("certified", "@cert-authority * {ca}\n@revoked * {ca}", ()),
    "certified key revoked": ("certified", "@cert-authority * {ca}\n@revoked * {ed25519}", ()),
    "certified key known as plain": ("certified", "{name} {ed25519}", ()),
    "the authority's key as a plain key": ("certified", "{name} {ca}", ()),
    "expired": ("expired", "@cert-authority * {ca}", ()),
    "expired, key known": ("expired", "@cert-authority * {ca}\n{name} {ed25519}", ()),
    "wrong principal": ("misnamed", "@cert-authority * {ca}", ()),
    "wrong principal, plain key changed": ("misnamed", "@cert-authority * {ca}\n{name} {stranger}", ()),
    "no principals": ("unnamed", "@cert-authority * {ca}", ()),
    "rsa authority": ("rsa", "@cert-authority * {ca}", ()),
    "user certificate as a host's": ("personal", "@cert-authority * {ca}", ()),
}


@pytest.mark.parametrize("case", CASES)
def test_same_verdict_as_ssh(bench: Bench, case: str) -> None:
    server, known_hosts, options = CASES[case]
    sshd, name = bench.servers[server], f"node-{list(CASES).index(case)}"
    bench.client.add_host(name, sshd.port, sshd.user, *options)
    bench.client.known_hosts.write_text(known_hosts.format(**bench.words(server)) + "\n")

    oracle = bench.client.ssh("-o", "StrictHostKeyChecking=yes", *FAST, name, "echo in")
    assert (oracle.stdout == "in\n") != ("verification failed" in oracle.stderr)
    try:
        ours = states(NodeSpec(name), bench.client.options())
    except CarrierError as error:
        assert error.final
        ours = ""

    assert ours == oracle.stdout.strip(), oracle.stderr


def test_keys_of_every_file_count(bench: Bench, tmp_path: Path) -> None:
    sshd = bench.servers["plain"]
    bench.client.known_hosts.write_text("")
    (tmp_path / "more").write_text(f"{bench.name('plain')} {bench.key('ed25519')}\n")
    (tmp_path / "global").write_text(f"@revoked * {bench.stranger}\n")
    bench.client.add_host(
        "two-files",
        sshd.port,
        sshd.user,
        f"UserKnownHostsFile {bench.client.known_hosts} {tmp_path / 'more'}",
        f"GlobalKnownHostsFile {tmp_path / 'global'}",
    )
    with dialing(NodeSpec("two-files"), bench.client.options()) as dial:
        carrier = dial("true")
        assert carrier.facts.verified_by == f"key at {tmp_path / 'more'}:1"
        assert carrier.facts.host_key.startswith("ED25519 SHA256:")
        carrier.close()


def test_a_global_revocation_beats_the_users_file(bench: Bench, tmp_path: Path) -> None:
    sshd = bench.servers["plain"]
    bench.client.known_hosts.write_text(f"{bench.name('plain')} {bench.key('ed25519')}\n")
    (tmp_path / "global").write_text(f"@revoked * {bench.key('ed25519')}\n")
    bench.client.add_host("revoked", sshd.port, sshd.user, f"GlobalKnownHostsFile {tmp_path / 'global'}")
    error = refusal(NodeSpec("revoked"), bench.client.options(accept_new_host_keys=True))
    assert error.final
    assert f"revoked at {tmp_path / 'global'}:1" in str(error)


def test_revoked_host_keys_file(bench: Bench, tmp_path: Path) -> None:
    sshd = bench.servers["plain"]
    bench.client.known_hosts.write_text(f"{bench.name('plain')} {bench.key('ed25519')}\n")
    (tmp_path / "revoked").write_text(f"{bench.stranger}\n{bench.key('ed25519')} lost\n")
    bench.client.add_host("listed", sshd.port, sshd.user, f"RevokedHostKeys {tmp_path / 'revoked'}")
    bench.client.add_host("binary", sshd.port, sshd.user, f"RevokedHostKeys {tmp_path / 'krl'}")
    subprocess.run(
        [need("ssh-keygen"), "-q", "-k", "-f", str(tmp_path / "krl"), str(tmp_path / "revoked")], check=True
    )
    assert "revoked" in str(refusal(NodeSpec("listed"), bench.client.options()))
    assert "binary list" in str(refusal(NodeSpec("binary"), bench.client.options()))


def test_an_unknown_key_is_named_with_the_command_that_accepts_it(bench: Bench, sentences: Sentences) -> None:
    sshd = bench.servers["plain"]
    bench.client.known_hosts.write_text("")
    bench.client.add_host("unknown", sshd.port, sshd.user)
    error = refusal(NodeSpec("unknown"), bench.client.options())
    shown = subprocess.run(
        [need("ssh-keygen"), "-lf", str(sshd.host_keys[0])], check=True, capture_output=True, text=True
    ).stdout.split()[1]
    assert error.final
    assert shown in str(error)
    sentences(str(error))
    assert "--accept-new-host-keys" in str(error)
    assert bench.client.known_hosts.read_text() == ""


@pytest.mark.parametrize("hash_names", ["yes", "no"])
def test_accepting_records_a_line_that_ssh_understands(bench: Bench, hash_names: str) -> None:
    sshd, name = bench.servers["plain"], f"accept-{hash_names}"
    bench.client.known_hosts.unlink()
    bench.client.add_host(name, sshd.port, sshd.user, f"HashKnownHosts {hash_names}")
    spec = NodeSpec(name)
    assert states(spec, bench.client.options(accept_new_host_keys=True)) == "in"
    recorded = bench.client.known_hosts.read_text()
    assert bench.client.known_hosts.stat().st_mode & 0o777 == 0o600
    assert (bench.name("plain") in recorded) == (hash_names == "no")
    assert states(spec, bench.client.options()) == "in"
    assert bench.client.ssh("-o", "StrictHostKeyChecking=yes", *FAST, name, "echo in").stdout == "in\n"
    assert states(spec, bench.client.options(accept_new_host_keys=True)) == "in"
    assert bench.client.known_hosts.read_text() == recorded


def test_a_key_that_is_accepted_now_is_not_called_verified(bench: Bench) -> None:
    sshd = bench.servers["plain"]
    bench.client.known_hosts.unlink()
    bench.client.add_host("first", sshd.port, sshd.user)
    place = f"{bench.client.known_hosts}:1"
    for verified_by, accepted_at in ((None, place), (f"key at {place}", None)):
        with dialing(NodeSpec("first"), bench.client.options(accept_new_host_keys=True)) as dial:
            carrier = dial("true")
            assert (carrier.facts.verified_by, carrier.facts.accepted_at) == (verified_by, accepted_at)
            carrier.close()


def test_accepting_ends_an_unfinished_line_first(bench: Bench) -> None:
    sshd = bench.servers["plain"]
    bench.client.add_host("append", sshd.port, sshd.user)
    bench.client.known_hosts.write_text(f"other.example {bench.stranger}")
    assert states(NodeSpec("append"), bench.client.options(accept_new_host_keys=True)) == "in"
    first, second = bench.client.known_hosts.read_text().splitlines()
    assert first == f"other.example {bench.stranger}"
    assert second.startswith(bench.name("plain"))


def test_a_changed_key_is_refused_even_when_new_ones_are_accepted(bench: Bench) -> None:
    sshd = bench.servers["plain"]
    bench.client.add_host("changed", sshd.port, sshd.user)
    before = f"# mine\n{bench.name('plain')} {bench.stranger}\n"
    bench.client.known_hosts.write_text(before)
    error = refusal(NodeSpec("changed"), bench.client.options(accept_new_host_keys=True))
    assert error.final
    assert f"{bench.client.known_hosts}:2" in str(error)
    assert f"ssh-keygen -f {bench.client.known_hosts} -R '{bench.name('plain')}'" in str(error)
    assert bench.client.known_hosts.read_text() == before


def test_a_certificate_is_named_in_the_facts(bench: Bench, sentences: Sentences) -> None:
    sshd = bench.servers["certified"]
    bench.client.add_host("by-authority", sshd.port, sshd.user)
    bench.client.known_hosts.write_text(f"@cert-authority [127.*]:* {bench.authority}\n")
    with dialing(NodeSpec("by-authority"), bench.client.options()) as dial:
        carrier = dial("true")
        sentences(carrier.facts.verified_by)
        carrier.close()


def test_the_reason_why_a_certificate_does_not_help_is_stated(bench: Bench, sentences: Sentences) -> None:
    sshd = bench.servers["expired"]
    bench.client.add_host("too-old", sshd.port, sshd.user)
    bench.client.known_hosts.write_text(f"@cert-authority * {bench.authority}\n")
    sentences(str(refusal(NodeSpec("too-old"), bench.client.options())))
