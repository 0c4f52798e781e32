"""A server on loopback that speaks the part of the Kubernetes API that a real kubectl needs here.

No package brings an API server (`real_api_server` needs one that was built). kubectl comes with one, and what
it sends and takes is real.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

RESOURCES = (("pods", "Pod", True), ("events", "Event", True), ("nodes", "Node", False))
VERBS = ["create", "delete", "get", "list", "patch", "watch"]


@dataclass
class ApiServer:
    """The objects that it knows, and what was asked."""

    pods: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    logs: dict[str, list[str]] = field(default_factory=dict)
    """Pod -> the lines that its container has printed, each with its time."""
    mood: str = "ok"
    """ok, 500, garbage or slow."""
    asked: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    url: str = ""

    def config(self, folder: Path) -> Path:
        """A kubeconfig that names this server and the namespace `ml`."""
        path = folder / "kubeconfig"
        entry = {"name": "drill", "context": {"cluster": "drill", "user": "jane", "namespace": "ml"}}
        clusters = [{"name": "drill", "cluster": {"server": self.url}}]
        users = [{"name": "jane", "user": {}}]
        stated = {"clusters": clusters, "users": users, "contexts": [entry], "current-context": "drill"}
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **stated}))
        return path


def status(code: int, reason: str, message: str) -> dict[str, Any]:
    """An error as the API server reports it."""
    about = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**about, "code": code, "reason": reason, "message": message}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    known: ApiServer

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""

    def do_GET(self) -> None:
        known, parts = self.known, urlsplit(self.path)
        known.asked.append(self.path)
        if known.mood == "slow":
            time.sleep(3)
        if known.mood == "500":
            self._answer(status(500, "InternalError", "etcdserver: request timed out"), 500)
        elif known.mood == "garbage":
            self._bytes(b"<html>proxy</html>", 200, "text/html")
        elif parts.path.endswith("/exec"):
            self._forbid()
        elif parts.path.endswith("/log"):
            self._follow(parts.path.split("/")[-2], parse_qs(parts.query))
        else:
            found = self._found(parts.path, parse_qs(parts.query))
            missing = status(404, "NotFound", f"{parts.path} was not found")
            self._answer(missing if found is None else found, 404 if found is None else 200)

    def do_POST(self) -> None:
        self.known.asked.append(self.path)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._forbid()

    def do_PATCH(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._change()

    def do_DELETE(self) -> None:
        self.do_PATCH()

    def _change(self) -> None:
        path = urlsplit(self.path).path
        self.known.changed.append(f"{self.command} {path}")
        self._answer(self._found(path, {}) or status(200, "", ""), 200)

    def _forbid(self) -> None:
        message = 'pods "run7" is forbidden: User "jane" cannot create resource "pods/exec" in API group ""'
        self._answer(status(403, "Forbidden", message), 403)

    def _found(self, path: str, query: dict[str, list[str]]) -> dict[str, Any] | None:
        known, last = self.known, path.rpartition("/")[2]
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": []}
        if path == "/api/v1":
            listed = [
                {"name": name, "singularName": "", "namespaced": inside, "kind": kind, "verbs": VERBS}
                for name, kind, inside in RESOURCES
            ]
            return {"kind": "APIResourceList", "groupVersion": "v1", "resources": listed}
        if path.endswith("/pods"):
            wanted = query.get("labelSelector", [""])[0].partition("=")
            chosen = [each for each in known.pods if each["metadata"]["labels"].get(wanted[0]) == wanted[2]]
            return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": chosen}
        if path.endswith("/events"):
            return {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": known.events}
        if "/nodes/" in path:
            return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": last}, "spec": {}, "status": {}}
        one = next((each for each in known.pods if each["metadata"]["name"] == last), None)
        return None if one is None else {"kind": "Pod", "apiVersion": "v1", **one}

    def _follow(self, pod: str, query: dict[str, list[str]]) -> None:
        since = query.get("sinceTime", [""])[0]
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        sent, end = 0, time.monotonic() + 120
        with contextlib.suppress(OSError):
            while time.monotonic() < end:
                lines = [each for each in self.known.logs.get(pod, []) if each[:20] >= since[:19]]
                for line in lines[sent:]:
                    data = line.encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()
                sent = len(lines)
                time.sleep(0.1)
            self.wfile.write(b"0\r\n\r\n")

    def _answer(self, what: dict[str, Any], code: int) -> None:
        self._bytes(json.dumps(what).encode(), code, "application/json")

    def _bytes(self, data: bytes, code: int, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(data)


@contextlib.contextmanager
def api_server() -> Iterator[ApiServer]:
    """A running one."""
    known = ApiServer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"known": known}))
    server.daemon_threads = True
    known.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield known
    finally:
        server.shutdown()
        server.server_close()
