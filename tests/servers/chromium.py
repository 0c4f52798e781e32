"""A headless Chromium over its DevTools protocol, and what its page of `gpuwatch serve` shows as text."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pyte

from tests.packages import path_of

COLUMNS, ROWS = 200, 60
"""More than any page has: what the screens paint beyond their size is nothing."""
START_S, WAIT_S = 120.0, 120.0
"""Bounds for a machine under load."""
SPECIAL = {
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "Tab": ("Tab", 9, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
}


class Page:
    """One tab. What its websockets bring is drawn on a terminal of our own, for xterm.js paints a canvas."""

    def __init__(self, channel: aiohttp.ClientWebSocketResponse) -> None:
        self._channel = channel
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self.problems: list[str] = []
        """Errors and warnings of the page: a refused script, a request to another host."""
        self.requested: list[str] = []
        """Every address that was asked for."""
        self._reader = asyncio.ensure_future(self._read())

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol, and its result."""
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        await self._channel.send_json({"id": number, "method": method, "params": parameters})
        message = await asyncio.wait_for(answer, WAIT_S)
        assert "error" not in message, message
        result: dict[str, Any] = message["result"]
        return result

    async def open(self, url: str) -> None:
        """Go to an address."""
        for domain in ("Page", "Network", "Runtime", "Log"):
            await self.call(f"{domain}.enable")
        await self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        await self.call("Page.navigate", url=url)

    async def evaluate(self, script: str) -> Any:
        """The value of an expression."""
        found = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        return found["result"].get("value")

    async def press(self, *keys: str) -> None:
        """Keys, by their characters or by the names of `SPECIAL`."""
        for key in keys:
            name, code, text = SPECIAL.get(key, (key, 0, key))
            facts = {"key": name, "windowsVirtualKeyCode": code}
            down = {"type": "keyDown" if text else "rawKeyDown", **facts, **({"text": text} if text else {})}
            await self.call("Input.dispatchKeyEvent", **down)
            await self.call("Input.dispatchKeyEvent", type="keyUp", **facts)

    def text(self) -> str:
        """What the screens have painted."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    async def shows(self, *words: str) -> str:
        """Wait until the screen holds all of these; its text."""
        return await self.until(lambda: all(word in self.text() for word in words), f"{words}")

    async def until(self, fits: Callable[[], bool], what: str) -> str:
        """Wait for something; the text of the screen then."""
        deadline = time.monotonic() + WAIT_S
        while not fits():
            assert time.monotonic() < deadline, f"no {what} in\n{self.text()}\n{self.problems}"
            await asyncio.sleep(0.25)
        return self.text()

    async def picture(self, path: Path) -> None:
        """Save what is seen as PNG."""
        found = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(found["data"]))

    async def _read(self) -> None:
        async for message in self._channel:
            facts = message.json()
            if "id" in facts:
                self._waiting.pop(facts["id"]).set_result(facts)
            else:
                self._take(facts["method"], facts["params"])

    def _take(self, method: str, facts: dict[str, Any]) -> None:
        match method:
            case "Network.webSocketFrameReceived" if facts["response"]["opcode"] == 2:
                self._stream.feed(base64.b64decode(facts["response"]["payloadData"]))
            case "Network.requestWillBeSent":
                self.requested.append(facts["request"]["url"])
            case "Network.webSocketCreated":
                self.requested.append(facts["url"])
            case "Log.entryAdded" if facts["entry"]["level"] == "error":
                self.problems.append(facts["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.problems.append(str(facts["exceptionDetails"]))


class Browser:
    """A running Chromium."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self._base = f"http://127.0.0.1:{port}"

    async def page(self, url: str) -> Page:
        """A new tab."""
        async with self._session.put(f"{self._base}/json/new?about:blank") as answer:
            facts = await answer.json()
        page = Page(await self._session.ws_connect(facts["webSocketDebuggerUrl"], max_msg_size=0))
        await page.open(url)
        return page


@contextlib.asynccontextmanager
async def chromium(folder: Path, size: tuple[int, int] = (1280, 800)) -> AsyncIterator[Browser]:
    """Start a Chromium with a profile in `folder`, and end it with its processes."""
    program = path_of("chromium")
    assert program is not None
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
    options += ["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"]
    options += [
        f"--window-size={size[0]},{size[1]}",
        f"--user-data-dir={folder}",
        "--remote-debugging-port=0",
    ]
    with (folder.parent / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            [program, *options],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "HOME": str(folder)},
        )
    try:
        marker, deadline = folder / "DevToolsActivePort", time.monotonic() + START_S
        while not (marker.exists() and marker.read_text().strip()):
            assert process.poll() is None, (folder.parent / "chromium.log").read_text()
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        async with aiohttp.ClientSession() as session:
            yield Browser(session, int(marker.read_text().split()[0]))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
