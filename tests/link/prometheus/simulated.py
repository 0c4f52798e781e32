"""A simulated Prometheus: the few forms of queries that the link sends, over series that a test states."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

from tests.servers.http_server import served

SCRAPE_S = 15.0
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"')
SELECTOR = re.compile(r"(\w*)\{(.*?)\}")
OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda value, text: value == text,
    "!=": lambda value, text: value != text,
    "=~": lambda value, text: bool(re.fullmatch(text, value)),
    "!~": lambda value, text: not re.fullmatch(text, value),
}
Labels = dict[str, str]


@dataclass
class SimulatedSeries:
    labels: Labels
    value: float
    scraped_ago_s: float = 0.0


@dataclass
class SimulatedPrometheus:
    series: list[SimulatedSeries] = field(default_factory=list)
    mood: str = "ok"
    """ok, 500, garbage, html, error, drop (closes without an answer) or slow (waits until `held` is set)."""
    held: threading.Event = field(default_factory=threading.Event)
    url: str = ""
    queries: list[str] = field(default_factory=list)
    authorization: set[str | None] = field(default_factory=set)
    skew_s: float = 0.0
    """The server's clock minus ours."""
    cache: dict[tuple[str, float], bytes] = field(default_factory=dict)
    caching: bool = False

    def add(self, metric: str, value: float, **labels: str) -> None:
        self.series.append(SimulatedSeries({"__name__": metric, **labels}, value))

    def gpu(self, node: int, index: int, **values: float) -> None:
        """One GPU of dcgm-exporter."""
        known = {"GPU_UTIL": 97.0, "GPU_TEMP": 61.0, "POWER_USAGE": 640.5, "SM_CLOCK": 1980.0}
        known |= {"FB_USED": 70_000.0, "FB_FREE": 11_000.0, **values}
        labels = {
            "gpu": str(index),
            "UUID": f"GPU-{node:04}-{index}",
            "Hostname": f"gpu-{node:03}",
            "instance": f"10.0.0.{node}:9400",
            "modelName": "NVIDIA H100 80GB HBM3",
        }
        for name, value in known.items():
            self.add(f"DCGM_FI_DEV_{name}", value, **labels)

    def evaluate(self, query: str, now: float) -> list[dict[str, Any]]:
        if query == "vector(1)":
            return [{"metric": {}, "value": [now, "1"]}]
        found = SELECTOR.search(query)
        assert found, query
        name, inside = found.groups()
        matchers = [*MATCHER.findall(inside), *([("__name__", "=", name)] if name else [])]
        known = [
            each
            for each in self.series
            if all(OPERATORS[how](each.labels.get(label, ""), text) for label, how, text in matchers)
        ]
        if query.endswith("!= 0"):
            known = [each for each in known if each.value != 0]
        if query.endswith("[300s]"):
            times = [now - each * SCRAPE_S for each in range(19, -1, -1)]
            return [
                {"metric": each.labels, "values": [[at, str(each.value)] for at in times]} for each in known
            ]
        by = re.match(r"(count|group|max) by \((.*?)\) ", query)
        if by is None:
            return [{"metric": each.labels, "value": [now, repr(each.value)]} for each in known]
        groups: dict[tuple[str, ...], float] = {}
        names = by[2].split(", ")
        for each in known:
            key = tuple(each.labels.get(label, "") for label in names)
            at = now - each.scraped_ago_s
            groups[key] = max(at, groups.get(key, 0.0)) if by[1] == "max" else 1.0
        return [
            {"metric": dict(zip(names, key, strict=True)), "value": [now, repr(value)]}
            for key, value in groups.items()
        ]

    def answer(self, path: str, given: dict[str, list[str]]) -> bytes:
        query, now = given["query"][0], time.time() + self.skew_s
        self.queries.append(query)
        if path.endswith("query_range"):
            start, end, step = (float(given[name][0]) for name in ("start", "end", "step"))
            times = [start + step * each for each in range(int((end - start) / step) + 1)]
            result = [
                {"metric": each["metric"], "values": [[at, each["value"][1]] for at in times]}
                for each in self.evaluate(query, now)
            ]
        elif self.caching and (query, now // SCRAPE_S) in self.cache:
            return self.cache[query, now // SCRAPE_S]
        else:
            result = self.evaluate(query, now)
        data = json.dumps({"status": "success", "data": {"resultType": "x", "result": result}}).encode()
        if self.caching:
            self.cache[query, now // SCRAPE_S] = data
        return data


@contextlib.contextmanager
def simulated() -> Iterator[SimulatedPrometheus]:
    known = SimulatedPrometheus()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            given = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            known.authorization.add(self.headers.get("Authorization"))
            if known.mood == "slow":
                known.held.wait(60)
            if known.mood == "drop":
                return
            if known.mood == "garbage":
                self.wfile.write(b"\x00\xff not HTTP\n\n")
                return
            refused = json.dumps({"status": "error", "error": "parse error: \x1b[31munexpected"}).encode()
            moods = {"500": (500, b"oops"), "html": (200, b"<html>"), "error": (400, refused)}
            status, data = moods.get(known.mood) or (200, known.answer(self.path, given))
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - http.server's name
            pass

    with served(Handler) as known.url:
        yield known
