"""The web server of `gpuwatch serve` over real sockets; a small program stands in for the screens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("textual_serve", reason="needs textual-serve: pip install textual-serve")
aiohttp = pytest.importorskip("aiohttp")

from gpuwatch.report.browser import server as server_module  # noqa: E402 - behind the skip of the whole module
from gpuwatch.report.browser import viewer_process  # noqa: E402 - not without aiohttp
from gpuwatch.report.browser.server import BrowserServer  # noqa: E402 - behind the skip of the whole module
from gpuwatch.report.browser.viewer_process import ViewerProcess  # noqa: E402 - behind the skip of the whole module

WAIT_S = 240.0
SCREENS = """
import json, os, sys, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def packet(kind, data): os.write(1, kind + len(data).to_bytes(4, "big") + data)
os.write(1, b"__GANGLION__\\n")
packet(b"D", json.dumps([os.getpid(), os.environ["COLUMNS"], os.environ["ROWS"]]).encode())
while head := os.read(0, 5):
    data = os.read(0, int.from_bytes(head[1:], "big"))
    packet(b"D", head[:1] + data)
    if b"quit" in data and "stubborn" not in sys.argv: break
else:
    while "stubborn" in sys.argv: signal.pause()
"""


@asynccontextmanager
async def serving(*more: str, max_viewers: int = 2) -> AsyncIterator[BrowserServer]:
    """A server, and what it reported at the end."""

    async def start(size: tuple[int, int]) -> ViewerProcess:
        return await ViewerProcess.start([sys.executable, "-c", SCREENS, *more], (), os.environ, size)

    server = BrowserServer("127.0.0.1:0", "gpuwatch <b>hosts.yaml</b>", start, max_viewers)
    await server.start(lambda _: None)
    try:
        yield server
    finally:
        await server.close()


async def first_bytes(channel: Any) -> list[Any]:
    """Process number, columns and rows of a viewer's screens."""
    message = await channel.receive(timeout=WAIT_S)
    found: list[Any] = json.loads(message.data)
    return found


async def gone(pid: int) -> None:
    """Wait until a process has ended."""
    for _ in range(int(WAIT_S / 0.02)):
        if not Path(f"/proc/{pid}").exists():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(pid)


async def test_nothing_is_served_without_the_token() -> None:
    async with serving() as server, aiohttp.ClientSession() as client:
        base = server.url.removesuffix(f"{server.token}/")
        wrong = server.token[:-1] + ("a" if server.token[-1] != "a" else "b")
        for token in ("", wrong, f"{server.token}x", server.token.lower() + "%ff", "static", "%2e%2e"):
            for rest in ("/", "/ws", "/static/js/textual.js", "/focus.js", ""):
                async with client.get(f"{base}{token}{rest}") as answer:
                    assert answer.status == 403
                    assert server.token not in await answer.text()
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(f"{base}{wrong}/ws")
        assert refused.value.status == 403
        assert server.viewers == 0


async def test_the_page_asks_no_other_host_and_names_its_websocket() -> None:
    async with serving() as server, aiohttp.ClientSession() as client:
        async with client.get(server.url + "?fontsize=999") as answer:
            text, headers = await answer.text(), answer.headers
        host = server.url.split("/")[2]
        assert "<b>" not in text
        assert f"ws://{host}/{server.token}/ws" in text
        assert set(re.findall(r"\w+://[^/\"']+", text)) == {f"ws://{host}"}
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert "script-src 'self';" in headers["Content-Security-Policy"]
        for name in re.findall(r'(?:src=|href=|url\()"([a-z][^":]+)"', text):
            async with client.get(server.url + name) as answer:
                assert answer.status == 200, name
        for name in ("static/", "static/js/", "static/js/..%2f..%2fserver.py", "static/../server.py", "x/1"):
            async with client.get(server.url + name) as answer:
                assert answer.status in (403, 404), name


async def test_another_page_opens_no_websocket() -> None:
    async with serving() as server, aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(server.url + "ws", headers={"Origin": "http://elsewhere.example"})
        assert refused.value.status == 403


async def test_keys_and_sizes_reach_the_screens_and_they_end_with_the_page() -> None:
    async with serving() as server, aiohttp.ClientSession() as client:
        channel = await client.ws_connect(server.url + "ws?width=120&height=99999999")
        pid, columns, rows = await first_bytes(channel)
        assert (columns, int(rows) <= viewer_process.MAX_SIDE) == ("120", True)
        await channel.send_json(["stdin", "q\u00e9"])
        assert (await channel.receive(timeout=WAIT_S)).data == "Dq\u00e9".encode()
        await channel.send_json(["resize", {"width": 10**9, "height": -4}])
        resized = (await channel.receive(timeout=WAIT_S)).data
        assert resized == b'M{"type": "resize", "width": 2000, "height": 1}'
        await channel.send_json(["ping", 7])
        assert (await channel.receive(timeout=WAIT_S)).json() == ["pong", 7]
        await channel.close()
        await gone(pid)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", ["no json", "[]", '["resize", 5]', "[" * 5000])
async def test_a_message_of_no_browser_ends_its_viewer_alone(text: str) -> None:
    async with serving() as server, aiohttp.ClientSession() as client:
        good, bad = [await client.ws_connect(server.url + "ws") for _ in range(2)]
        await first_bytes(good)
        pid, *_ = await first_bytes(bad)
        await bad.send_str(text)
        await gone(pid)
        await good.send_json(["stdin", "x"])
        assert (await good.receive(timeout=WAIT_S)).data == b"Dx"


async def test_viewers_over_the_limit_are_refused_until_one_leaves() -> None:
    async with serving(max_viewers=1) as server, aiohttp.ClientSession() as client:
        first = await client.ws_connect(server.url + "ws")
        pid, *_ = await first_bytes(first)
        async with client.get(server.url) as answer:
            assert answer.status == 503
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(server.url + "ws")
        assert refused.value.status == 503
        await first.close()
        await gone(pid)
        status = 503
        while status == 503:  # its place is free a moment after its process has ended
            await asyncio.sleep(0.05)
            async with client.get(server.url) as answer:
                status = answer.status
        assert status == 200


async def test_screens_that_do_not_leave_are_killed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer_process, "END_S", 0.2)
    async with aiohttp.ClientSession() as client:
        async with serving("stubborn") as server:
            channel = await client.ws_connect(server.url + "ws")
            pid, *_ = await first_bytes(channel)
        await gone(pid)


@pytest.mark.parametrize(
    "head",
    [
        "OPTIONS * HTTP/1.1",
        "CONNECT a:1 HTTP/1.1",
        "GET a HTTP/1.1",
        "GET",
        "\x00\xff x",
        "GET /\x01 HTTP/9.9",
    ],
)
def test_a_strangers_request_leaves_no_word_on_the_terminal(
    head: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def ask() -> bytes:
        async with serving() as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(server.url).port)
            writer.write(head.encode("latin-1") + b"\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = await asyncio.wait_for(reader.read(), WAIT_S)
            writer.close()
            return answer

    answer = asyncio.run(ask())
    assert answer[9:12] in (b"400", b"403", b"404", b"405", b"")
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_silent_connections_take_the_places_of_each_other_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_UNKNOWN_CONNECTIONS", 3)

    async def fill() -> tuple[list[bytes], bytes]:
        async with serving() as server:
            port = urlsplit(server.url).port
            known = await asyncio.open_connection("127.0.0.1", port)
            known[1].write(f"GET /{server.token}/focus.js HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await asyncio.wait_for(known[0].readuntil(b"\r\n\r\n"), WAIT_S)
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
            ended = []
            for reader, _ in silent[:2]:
                with contextlib.suppress(ConnectionError):
                    ended.append(await asyncio.wait_for(reader.read(), WAIT_S))
            known[1].write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = await asyncio.wait_for(known[0].read(), WAIT_S)
            for _, writer in [known, *silent]:
                writer.close()
            return ended, answer

    ended, answer = asyncio.run(fill())
    assert not any(ended)
    assert b"403" in answer
