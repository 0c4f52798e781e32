"""A receiver of alerts on a loopback socket that does what a test tells it, and incidents to deliver."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Literal

import msgspec

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.hosts.receivers import ReceiverSpec
from gpuwatch.report.delivery.delivery import Delivery
from gpuwatch.report.delivery.sender import Pace
from tests.servers.http_server import served

QUICK = Pace(settle_s=0.0, repeat_s=0.2, firing_s=0.3, first_wait_s=0.05)
SECRET = "T0K3N-of-the-hook"  # noqa: S105 - a test's
WAIT_S = 120.0
Mood = Literal["ok", "500", "garbage", "slow", "page", "redirect", "wait", "deep"]


@dataclass
class Receiver:
    """What came, and how the next request is answered."""

    url: str = ""
    mood: Mood = "ok"
    bodies: list[bytes] = field(default_factory=list)
    """Of requests that were answered with 200."""
    headers: list[dict[str, str]] = field(default_factory=list)
    asked: int = 0
    left: int = 0
    """Requests that a slow receiver has given up."""

    def json(self) -> list[Any]:
        return [msgspec.json.decode(body) for body in self.bodies]


@contextlib.contextmanager
def receiver(mood: Mood = "ok", port: int = 0) -> Iterator[Receiver]:
    known, released = Receiver(mood=mood), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            known.asked += 1
            if known.mood == "slow":
                released.wait(WAIT_S)
                known.left += 1
                return
            if known.mood == "garbage":
                self.wfile.write(b"\x16\x03\x01 not HTTP \xff\n\n")
                return
            answers: dict[str, tuple[int, bytes, dict[str, str]]] = {
                "500": (500, b"oops " + SECRET.encode(), {}),
                "page": (200, b"<html>please log in</html>", {}),
                "deep": (200, b"[" * 4000, {}),
                "redirect": (302, b"", {"Location": f"{known.url}/elsewhere"}),
                "wait": (429, b"", {"Retry-After": "1"}),
            }
            status, text, headers = answers.get(known.mood, (200, b"", {}))
            if known.mood in ("ok", "page"):
                known.bodies.append(body)
                known.headers.append(dict(self.headers))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - http.server's name
            pass

    with served(Handler, port) as known.url:
        try:
            yield known
        finally:
            released.set()


def incident(number: int = 1, **changes: object) -> Incident:
    values: dict[str, object] = {
        "id": f"i{number}",
        "number": number,
        "headline": f"rank {number} (gpu-003 GPU 1): Xid 79, GPU fell off the bus",
        "code": "xid",
        "severity": "critical",
        "first": time.time() - 5,
        "last": time.time(),
        "rank": number,
        "node": "gpu-003",
        "gpu": 1,
        "job": "411",
        "do": ("Drain the node: scontrol update nodename=gpu-003 state=drain",),
        **changes,
    }
    return Incident(**values)  # type: ignore[arg-type]


def over(one: Incident) -> Incident:
    return msgspec.structs.replace(one, over=True)


@contextlib.contextmanager
def delivery(folder: Path, *specs: ReceiverSpec, pace: Pace = QUICK) -> Iterator[Delivery]:
    made = Delivery(specs, "hosts.yaml", folder, pace)
    try:
        yield made
    finally:
        made.close()


def until(
    made: Delivery, incidents: list[Incident], holds: Callable[[], bool], seconds: float = WAIT_S
) -> None:
    """Poll as a session does, until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, made.trouble or [str(each) for each in made.status()]
        made.update(incidents)
        time.sleep(0.01)
