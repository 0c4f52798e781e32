"""`gpuwatch serve` as a real command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual_serve", reason="needs textual-serve: pip install textual-serve")
aiohttp = pytest.importorskip("aiohttp")

from tests.cli.running import COMMAND, ROOT, environment, run  # noqa: E402 - behind the skip of the whole module
from tests.link.recording.recordings import recorded_demo  # noqa: E402 - behind the skip of the whole module
from tests.parts import need  # noqa: E402 - behind the skip of the whole module
from tests.servers.chromium import chromium  # noqa: E402 - not without aiohttp
from tests.servers.sshd import Sshd  # noqa: E402 - behind the skip of the whole module

WAIT_S = 100.0
COLOURS = re.compile(rb"\x1b\[[0-9;]*m")


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command on a free port, and the address that it printed."""
    process = subprocess.Popen(
        [*COMMAND, "serve", *arguments, "--listen", "127.0.0.1:0", "--hz", "2"],
        cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), process.communicate()
        yield process, url
    finally:
        process.kill()
        process.communicate()


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def ended(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def wait_for(pids: list[int]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not ended(pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


async def painted(channel: Any, words: bytes) -> None:
    """Wait until a viewer's screens have painted these words, whatever their colours."""
    seen = b""
    while words not in seen:
        seen = COLOURS.sub(b"", seen[-100_000:] + await channel.receive_bytes(timeout=WAIT_S))


@asynccontextmanager
async def viewers(url: str, count: int) -> AsyncIterator[list[Any]]:
    """So many websockets whose screens have painted."""
    async with aiohttp.ClientSession() as client, contextlib.AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(client.ws_connect(url + "ws")) for _ in range(count)]
        await asyncio.gather(*(each.receive_bytes(timeout=WAIT_S) for each in opened))
        yield list(opened)


def test_without_the_extra_one_line_states_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'textual_serve' else find(name, *more)\n"
    )
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    done = run([*COMMAND, "serve", "--demo"], changes={"PYTHONPATH": path})
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "pip install" in done.stderr


@pytest.mark.parametrize("listen", ["nowhere", "192.0.2.7:9"])
def test_an_address_that_cannot_be_bound_is_wrong_usage(listen: str) -> None:
    done = run([*COMMAND, "serve", "--demo", "--listen", listen])
    assert done.returncode == 2
    assert "--listen" in done.stderr


async def test_ctrl_c_ends_every_viewer() -> None:
    with serving("--demo") as (process, url):
        async with viewers(url, 1):
            started = children(process.pid)
            assert len(started) == 1
            process.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(process.wait, WAIT_S) == 0
            assert ended(started)


@pytest.mark.long
@pytest.mark.parametrize("recorded", [False, True])
async def test_a_kill_ends_every_viewer_too(recorded: bool) -> None:
    with serving(str(recorded_demo().path) if recorded else "--demo") as (process, url):
        async with viewers(url, 2):
            started = children(process.pid)
            process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(wait_for, started)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_a_browser_walks_from_the_fleet_to_the_log_line(tmp_path: Path) -> None:
    """Document 004, line 740."""
    need("chromium")

    (tmp_path / "profile").mkdir()
    with serving("--demo") as (process, url):
        async with chromium(tmp_path / "profile") as browser:
            page = await browser.page(url)
            await page.shows("READ-ONLY", "DEMO", "16 live")
            await page.shows("Xid 79", "ALLREDUCE")
            await page.press("4")
            await page.shows("Timeline", "Confidence")
            await page.press("a")
            await page.shows("read-only")
            await page.press("Enter")
            await page.shows("NVRM: Xid (PCI:0000:c3:00): 79", "rank_085.log")
            await page.press("R")
            await page.shows("not in a shared view")
            await page.picture(tmp_path / "line.png")
            assert (tmp_path / "line.png").stat().st_size > 20_000
            other = await browser.page(url)
            await other.shows("Xid 79", "ALLREDUCE")
            assert page.problems == other.problems == []
            host = url.split("/")[2]
            assert {each.split("/")[2] for each in page.requested if "://" in each} == {host}
            assert len(children(process.pid)) == 2
            await other.press("q")
            await other.until(lambda: len(children(process.pid)) == 1, "end of a viewer")
            assert await other.evaluate("document.body.classList.contains('-closed')")


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_each_viewer_plays_a_recording_by_itself() -> None:
    with serving(str(recorded_demo().path), "--at", "1s ago") as (process, url):
        async with viewers(url, 2):
            assert len(children(process.pid)) == 2
            process.terminate()
            assert await asyncio.to_thread(process.wait, WAIT_S) == 0


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_five_viewers_need_no_more_connections_than_one(tmp_path: Path) -> None:
    names = ("node-1", "node-2", "node-3")
    with (
        Sshd(tmp_path / "sshd", names=names) as sshd,
        serving("node-[1-3]", "-F", str(sshd.client.config)) as (process, url),
    ):
        async with viewers(url, 1) as (first,):
            await painted(first, b"3 live")
            assert sshd.logins() == len(names)
            reading = asyncio.ensure_future(painted(first, b"never"))  # it answers the server's pings
            async with viewers(url, 4) as more:
                await asyncio.gather(*(painted(each, b"3 live") for each in more))
                reading.cancel()
                assert len(children(process.pid)) == 5
                assert sshd.logins() == len(names)
        process.terminate()
        assert await asyncio.to_thread(process.wait, WAIT_S) == 0
