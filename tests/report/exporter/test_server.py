"""The exporter's HTTP server on a real socket."""

from __future__ import annotations

import base64
import contextlib
import gzip
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from datetime import datetime, timedelta, timezone
from pathlib import Path

import bcrypt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gpuwatch.cli.monitor import exporter
from gpuwatch.cli.serve import command as serve
from gpuwatch.hosts.validation.errors import HostsError
from gpuwatch.link.prometheus.series.tier_series import MetricFamily
from gpuwatch.report.exporter import connections as connections_module
from gpuwatch.report.exporter import server as server_module
from gpuwatch.report.exporter.connections import Connections
from gpuwatch.report.exporter.page import MetricsPage
from gpuwatch.report.exporter.server import MetricsServer
from gpuwatch.report.exporter.web_config import MAX_WAITING, WebConfig, read_web_config
from gpuwatch.report.output.listen_address import ListenError, is_loopback, parse_listen

FAMILY = MetricFamily("pages_total", "counter", "Pages that were made.")
WAIT_S = 0.05


@contextlib.contextmanager
def serving(
    config: WebConfig | None = None, *, answers: bool = True, faults: int = 0, labelled: str = ""
) -> Iterator[MetricsServer]:
    """A server whose owner answers, in a thread; the first pages raise an exception."""
    server, stop, made = MetricsServer("127.0.0.1:0", config), threading.Event(), 0

    def make() -> MetricsPage:
        nonlocal made
        made += 1
        if made <= faults:
            raise KeyError("gpu-003")
        page = MetricsPage()
        page.put(FAMILY, labelled, made)
        return page

    def own() -> None:
        while not stop.is_set():
            server.wait(WAIT_S)
            if answers:
                server.answer(make)

    owner = threading.Thread(target=own)
    server.start()
    owner.start()
    try:
        yield server
    finally:
        stop.set()
        owner.join()
        server.close()


def get(
    server: MetricsServer, path: str = "/metrics", context: ssl.SSLContext | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    port = int(server.url.rpartition(":")[2].partition("/")[0])
    line: http.client.HTTPConnection
    if context is None:
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    else:
        line = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
    with contextlib.closing(line):
        line.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = line.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def test_both_formats_compressed_or_not() -> None:
    with serving() as server:
        status, headers, body = get(server)
        assert status == 200
        assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert body.endswith(b"pages_total 1\n")
        _, headers, body = get(server, Accept="application/openmetrics-text;version=1.0.0;q=0.8,text/plain")
        assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        assert body.endswith(b"pages_total 1\n# EOF\n")  # the same page: it is not a second old
        _, headers, body = get(server, Accept_Encoding="gzip")
        assert gzip.decompress(body).startswith(b"# HELP pages_total ")


def test_other_paths_and_methods_are_refused() -> None:
    with serving() as server:
        assert get(server, "/")[0] == 200
        assert get(server, "/../../etc/passwd")[0] == 404
        with socket.create_connection(("127.0.0.1", int(server.url.split(":")[2].split("/")[0]))) as line:
            line.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
            assert b" 501 " in line.recv(1000)


def test_a_session_that_does_not_answer_is_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "PAGE_WAIT_S", 0.2)
    with serving(answers=False) as server:
        assert get(server)[0] == 503


def test_a_silent_client_holds_up_nobody(tmp_path: Path) -> None:
    context, config = with_tls(tmp_path)
    with serving(config) as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port)):
            assert get(server, context=context)[0] == 200


def dripping(port: int, secured: ssl.SSLContext | None = None) -> socket.socket:
    """A connection that has sent the beginning of a request (of a handshake where TLS is asked)."""
    line = socket.create_connection(("127.0.0.1", port), timeout=60)
    line.sendall(b"\x16\x03\x01" if secured else b"GET /metrics HTTP/1.1\r\nX-Slow: a")
    return line


def test_an_address_that_is_always_being_answered_keeps_no_other_out() -> None:
    held = Connections(8, 30.0, lambda: 0.0)
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(socket.socket()) for _ in range(20)]
        for line in lines[:8]:
            assert held.add(line, "10.0.0.9")
            held.note(line, is_answered=True)
        assert held.add(lines[8], "10.0.0.1")
        held.note(lines[8], is_answered=True)
        for line in lines[9:]:
            assert held.add(line, "10.0.0.9")
            held.note(line, is_answered=True)
        assert lines[8] in held._open
        few = Connections(4, 30.0, lambda: 0.0)
        for line in lines[:4]:
            few.add(line, "10.0.0.1")
            few.note(line, is_answered=True)
        assert not few.add(lines[5], "10.0.0.2"), "a few scrapes are nobody's flood"


def test_passwords_of_one_address_wait_in_a_short_line() -> None:
    config = WebConfig(users={"ada": bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()})
    right = "Basic " + base64.b64encode(b"ada:right").decode()
    with ThreadPoolExecutor(12) as pool, config._one:
        guesses = [
            pool.submit(config.allows, "Basic " + base64.b64encode(b"ada:%d" % n).decode(), "10.0.0.9")
            for n in range(12)
        ]
        _, waiting = wait(guesses, 60, return_when=FIRST_COMPLETED)
        while len(waiting) > MAX_WAITING:
            _, waiting = wait(waiting, 60, return_when=FIRST_COMPLETED)
    assert not any(guess.result() for guess in guesses)
    assert config.allows(right, "10.0.0.1")
    assert not config._waiting


def has_ended(line: socket.socket) -> bool:
    try:
        return line.recv(1000) == b""
    except ConnectionError:
        return True


def test_one_connection_more_takes_the_place_of_the_longest_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 3)
    with serving() as server, contextlib.ExitStack() as lines:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        idle = [lines.enter_context(dripping(port)) for _ in range(3)]
        for _ in range(6):  # each scrape is answered, whatever the others do
            assert get(server)[0] == 200
            idle.append(lines.enter_context(dripping(port)))
        assert has_ended(idle[0])
        assert server.refused == 0


def test_scrapes_that_are_answered_are_not_dropped_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 1)
    monkeypatch.setattr(server_module, "PAGE_WAIT_S", 60.0)
    with serving(answers=False) as server, contextlib.ExitStack() as lines:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        scrape = lines.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        scrape.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        server.wait(60.0)  # it waits for a page
        assert has_ended(lines.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60)))
        assert server.refused == 1
        server.answer(MetricsPage)
        assert b" 200 " in scrape.recv(1000)


def test_clients_that_take_no_answer_lose_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections_module, "SLOW_S", 0.3)
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 3)
    with serving(labelled=f'{{x="{"b" * 4_000_000}"}}') as server, contextlib.ExitStack() as lines:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        for _ in range(3):
            line = lines.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            line.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
        pause = threading.Event()
        for _ in range(300):  # at most 30 s
            with contextlib.suppress(OSError, http.client.HTTPException):
                assert get(server)[0] == 200
                break
            pause.wait(0.1)
        else:
            pytest.fail("no scrape is answered")


@pytest.mark.parametrize("with_a_handshake", [False, True])
def test_a_request_that_never_ends_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_a_handshake: bool
) -> None:
    monkeypatch.setattr(server_module, "CONNECTION_S", 1.5)
    context, config = with_tls(tmp_path) if with_a_handshake else (None, None)
    with serving(config) as server, dripping(int(server.url.split(":")[2].split("/")[0]), context) as line:
        line.settimeout(0.1)
        for _ in range(300):  # at most 30 s; each byte comes long before the longest silence
            try:
                line.sendall(b"a" if context is None else b"\x02")
                if has_ended(line):
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("it is still read")


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_basic_authentication(tmp_path: Path) -> None:
    hashed = bcrypt.hashpw(b"s3cret", bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yml").write_text(f"basic_auth_users:\n  prometheus: {hashed}\n")
    with serving(read_web_config(tmp_path / "web.yml")) as server:
        status, headers, body = get(server)
        assert (status, "WWW-Authenticate" in headers) == (401, True)
        assert b"pages_total" not in body
        for wrong in (basic("prometheus", "no"), basic("x", "s3cret"), "Basic !!", "Bearer s3cret"):
            assert get(server, Authorization=wrong)[0] == 401
        assert get(server, Authorization=basic("prometheus", "s3cret"))[0] == 200
        assert get(server, Authorization=basic("prometheus", "s3cret"))[0] == 200


def with_tls(folder: Path) -> tuple[ssl.SSLContext, WebConfig]:
    """A client's context and a server's configuration over a certificate of 127.0.0.1."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(timezone.utc)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpuwatch")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    (folder / "web.yml").write_text("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n")
    client = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    client.check_hostname = False
    return client, read_web_config(folder / "web.yml")


def test_tls(tmp_path: Path) -> None:
    context, config = with_tls(tmp_path)
    with serving(config) as server:
        assert server.url.startswith("https://")
        assert get(server, context=context)[0] == 200
        with pytest.raises((OSError, http.client.HTTPException)):
            get(server)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("tls_server_config: {cert_file: a.pem}", "key_file"),
        ("tls_server_config: {cert_file: a.pem, key_file: b.pem}", "tls_server_config"),
        ("basic_auth_users: {bob: plaintext}", "bcrypt"),
        ("basic_auth_user: {}", "basic_auth_users"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "web.yml").write_text(text)
    with pytest.raises(HostsError, match=line) as raised:
        read_web_config(tmp_path / "web.yml")
    assert "plaintext" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "9480", "host", "::1:9480", "h:99999", "h:x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ListenError):
        parse_listen(text)


def test_addresses() -> None:
    assert parse_listen("[::1]:9480") == ("::1", 9480)
    assert parse_listen(":9480") == ("", 9480)


@pytest.mark.parametrize("default", [exporter.DEFAULT_LISTEN, serve.DEFAULT_LISTEN])
def test_without_a_word_only_this_machine_reaches_it(default: str) -> None:
    assert is_loopback(parse_listen(default)[0])


def test_a_fault_in_a_page_ends_neither_the_server_nor_its_owner() -> None:
    with serving(faults=1) as server:
        assert get(server)[0] == 503
        assert "gpu-003" in server.fault
        assert get(server)[0] == 200
