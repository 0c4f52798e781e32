"""The web server of `gpuwatch serve`: page, files and websocket, all behind a token in the URL."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import secrets
import socket
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Protocol
from urllib.parse import urlsplit

from aiohttp import WSMsgType, web

from gpuwatch.plain import plain
from gpuwatch.report.browser.page import FOCUS_SCRIPT, HEADERS, POLICY, assets, page
from gpuwatch.report.browser.viewer_process import ViewerProcess, bounded_size
from gpuwatch.report.output.listen_address import is_loopback, parse_listen, shown_host

TOKEN_BYTES = 24
MAX_MESSAGE_BYTES = 256 << 10
"""Maximum size of a message from a browser; pasted texts are the longest."""
QUIET_LOG = logging.getLogger("gpuwatch.browser")
"""Receives aiohttp's messages about invalid HTTP requests: anyone could fill the terminal with them."""
QUIET_LOG.setLevel(logging.CRITICAL + 1)
HEARTBEAT_S = 40.0
"""Seconds between pings; a browser must answer within half of that, which leaves room on a busy machine."""
REFUSED = "refused: the address lacks the token that gpuwatch serve has printed\n"
CLOSE_S = 2.0
MAX_UNKNOWN_CONNECTIONS = 64
"""Maximum number of connections that have not sent the token yet; a further one replaces the oldest."""
BACKLOG = 32
"""Length of the queue of connections that wait to be accepted; each takes a file descriptor."""


class StartViewer(Protocol):
    """A function that starts the screens of a viewer with this many columns and rows."""

    def __call__(self, size: tuple[int, int], /) -> Awaitable[ViewerProcess]:
        """Start the screens with this many columns and rows, and return their process."""
        ...


class BrowserServer:
    """The web server. Its constructor binds the address; it serves between `start` and `close`."""

    def __init__(self, listen: str, title: str, start_viewer: StartViewer, max_viewers: int) -> None:
        """Bind the address.

        Raises:
            ListenError: `listen` is not a valid address.
            OSError: it cannot be bound.
        """
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self._title = title
        self._start_viewer = start_viewer
        self._max_viewers = max_viewers
        self._viewers: set[asyncio.Task[None]] = set()
        self._report: Callable[[str], None] = lambda _text: None
        host, port = parse_listen(listen)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family)
        self._runner: Any = None
        self._listening: asyncio.Server | None = None
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()
        """Transports of connections that have stated the token."""

    @property
    def url(self) -> str:
        """URL of the page, with the token."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{shown_host(str(host))}:{port}/{self.token}/"

    @property
    def exposed(self) -> bool:
        """True if it listens on an address that other machines can reach."""
        return not is_loopback(str(self._socket.getsockname()[0]))

    @property
    def viewers(self) -> int:
        """Number of open websockets."""
        return len(self._viewers)

    async def start(self, report: Callable[[str], None]) -> None:
        """Start serving in the running event loop; `report` receives a line about each viewer that fails."""
        self._report = report

        async def guard(request: Any, handler: Any) -> Any:
            return await self._guard(request, handler)

        app = web.Application(middlewares=[web.middleware(guard)], client_max_size=1 << 16)
        app.router.add_get("/{token}/", self._page)
        app.router.add_get("/{token}/focus.js", self._script)
        app.router.add_get("/{token}/ws", self._websocket)
        app.router.add_get("/{token}/static/{folder:js|css|fonts}/{name:[A-Za-z0-9_.-]+}", self._file)
        self._runner = web.AppRunner(
            app, handle_signals=False, access_log=None, logger=QUIET_LOG, shutdown_timeout=CLOSE_S
        )
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._trouble)
        self._listening = await loop.create_server(self._accepted, sock=self._socket, backlog=BACKLOG)

    async def close(self) -> None:
        """Stop every viewer, and stop listening."""
        tasks = list(self._viewers)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listening is not None:
            self._listening.close()
        if self._runner is not None:
            await self._runner.cleanup()
        self._socket.close()

    def _accepted(self) -> asyncio.BaseProtocol:
        """Return the protocol for a new connection.

        If too many connections have not sent the token yet, the oldest of them are closed.
        """
        held = [each for each in self._runner.server.connections if each.transport is not None]
        unknown = [each.transport for each in held if each.transport not in self._known]
        for transport in unknown[: max(0, len(unknown) - MAX_UNKNOWN_CONNECTIONS + 1)]:
            transport.abort()
        made: asyncio.BaseProtocol = self._runner.server()
        return made

    def _trouble(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an exception of the event loop; ignore OSErrors, which any client can cause."""
        if not isinstance(context.get("exception"), OSError):
            loop.default_exception_handler(context)

    async def _guard(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Answer a request: 403 without the token, before anything else is checked; errors as a status."""
        given = request.path.removeprefix("/").partition("/")[0]  # `*` and `a:1` have no slash
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode()):
            response = web.Response(status=403, text=REFUSED)
        else:
            self._known.add(request.transport)
            try:
                response = await handler(request)
            except web.HTTPException as error:
                response = web.Response(status=error.status, text=f"{error.reason}\n")
            except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as error:
                self._report(f"a request failed: {type(error).__name__}")
                response = web.Response(status=500, text="internal error\n")
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    async def _page(self, request: Any) -> Any:
        if len(self._viewers) >= self._max_viewers:
            return web.Response(status=503, text=f"{self._full()}\n")
        scheme = "wss" if request.secure else "ws"
        origin = f"{scheme}://{request.host}"
        text = page(self._title, f"{origin}/{self.token}/ws", request.query.get("fontsize", ""))
        headers = {"Content-Security-Policy": POLICY.format(socket=origin)}
        return web.Response(text=text, content_type="text/html", headers=headers)

    async def _script(self, _request: Any) -> Any:
        return web.Response(text=FOCUS_SCRIPT, content_type="text/javascript")

    async def _file(self, request: Any) -> Any:
        """Serve a file of textual-serve; the route allows no other folder."""
        folder = assets()
        path = None if folder is None else folder / request.match_info["folder"] / request.match_info["name"]
        if path is None or not path.is_file():
            return web.Response(status=404, text="not found\n")
        return web.FileResponse(path)

    async def _websocket(self, request: Any) -> Any:
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            return web.Response(status=403, text="refused: the request comes from another web page\n")
        if len(self._viewers) >= self._max_viewers:
            return web.Response(status=503, text=f"{self._full()}\n")
        channel = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE_BYTES)
        task = asyncio.ensure_future(self._view(request, channel))
        self._viewers.add(task)
        try:
            await task
        except asyncio.CancelledError:
            await asyncio.gather(task, return_exceptions=True)
        finally:
            self._viewers.discard(task)
        return channel

    async def _view(self, request: Any, channel: Any) -> None:
        """Serve one viewer, from its first message to its end."""
        await channel.prepare(request)
        size = bounded_size(_number(request.query.get("width"), 80), _number(request.query.get("height"), 24))
        process = await self._start_viewer(size)
        painting = asyncio.ensure_future(self._paint(process, channel))
        try:
            async for message in channel:
                if message.type == WSMsgType.TEXT and not await _take(process, channel, message.data):
                    break
        finally:
            try:
                await process.end()
            finally:
                process.kill()
                with contextlib.suppress(asyncio.CancelledError):
                    await painting
                await channel.close()

    async def _paint(self, process: ViewerProcess, channel: Any) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            trouble = await process.follow(channel.send_bytes)
            if trouble:
                self._report(f"a viewer ended: {plain(trouble.splitlines()[-1])[:300]}")
        with contextlib.suppress(ConnectionError, RuntimeError):
            await channel.close()

    def _full(self) -> str:
        return f"no more viewers: the limit is {self._max_viewers} (--max-viewers)"


async def _take(process: ViewerProcess, channel: Any, text: str) -> bool:
    """Handle a message of the browser; return False if it is malformed, or the viewer is gone."""
    try:
        what, facts = (*json.loads(text), None)[:2]
        if what == "stdin":
            await process.type(str(facts))
        elif what == "resize":
            columns, rows = bounded_size(int(facts["width"]), int(facts["height"]))
            await process.tell("resize", width=columns, height=rows)
        elif what == "ping":
            await channel.send_json(["pong", facts])
        elif what in ("focus", "blur"):
            await process.tell(what)
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError):
        return False
    except ConnectionError:
        return False
    return True


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 6 else default
