"""`gpuwatch exporter` over 64 simulated nodes, scraped every 15 s; a start over a simulated Prometheus."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.report.exporter.scrape import Scraper
from gpuwatch.session import Session
from tests.bench.cpu import Row, rss_bytes, running_s
from tests.link.prometheus.start_cost import NODES, start_cost

WATCHED, SCRAPE_S, SCRAPES = 64, 15.0, 4


def rows(folder: Path) -> Sequence[Row]:
    """What a page costs; what the whole process costs by how often nodes are sampled; a start."""
    page, samples = page_cost()
    share = page / SCRAPE_S
    found = [
        Row(
            f"exporter: a page of {samples:,} samples every {SCRAPE_S:.0f} s, {WATCHED} nodes x 8 GPUs",
            f"{share:.2%} of a core",
            "<= 1 %",
            share <= 0.01,
            share,
        )
    ]
    for tick_s in (SCRAPE_S, 1.0):
        busy, resident = whole_cost(folder, tick_s)
        what = f"the whole process, nodes sampled every {tick_s:.0f} s, scraped ({resident / 1e6:.0f} MB)"
        goal = "<= 1 %" if tick_s == SCRAPE_S else ""
        found.append(Row(what, f"{busy:.2%} of a core", goal, busy <= 0.01 if goal else None, busy))
    cost = start_cost()
    what, took = (
        f"--prometheus: start, {NODES:,} nodes x 8 GPUs",
        f"{cost.wall_s:.2f} s, {cost.cpu_s:.2f} s of CPU",
    )
    return [*found, Row(what, took, "<= 2 s", cost.wall_s <= 2.0, cost.wall_s)]


def page_cost() -> tuple[float, int]:
    """CPU seconds of one page as Prometheus asks for it, and its samples: the demo's job on 64 nodes."""
    nodes = tuple(NodeSpec(f"gpu-{number:03d}", link="demo", slots=8) for number in range(1, WATCHED + 1))
    scraper, pages = Scraper(), 10
    with Session(replace(demo_plan(), nodes=nodes)) as session:
        end = time.monotonic() + 15.0
        while time.monotonic() < end:
            session.poll()
            time.sleep(0.2)
        began = time.thread_time()
        for _ in range(pages):
            page = scraper.page(session.fleet, session.book, time.monotonic(), time.time())
            text = page.text(openmetrics=True)
            gzip.compress(text, 1)
        return (time.thread_time() - began) / pages, text.count(b"\ngpuwatch_")


def whole_cost(folder: Path, tick_s: float) -> tuple[float, int]:
    """Share of a core, and resident bytes, of an exporter over simulated agents."""
    agent = [sys.executable, str(Path(__file__).with_name("simulated_agent.py"))]
    hosts = {"hosts": [{"name": f"gpu-[001-{WATCHED:03d}]", "link": {"command": agent}}], "discover": False}
    (folder / "hosts.yaml").write_text(json.dumps(hosts))
    argv = [sys.executable, "-m", "gpuwatch", "exporter", str(folder / "hosts.yaml")]
    argv += ["--listen", "127.0.0.1:0", "-d", str(tick_s)]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+/metrics", process.stderr.readline())
        assert found
        wait_until_live(found[0])
        busy, resident = share_of(process.pid, [found[0]]), rss_bytes(process.pid)
        process.terminate()
    return busy, resident


def scraped(url: str) -> bytes:
    """One page, as Prometheus asks for it."""
    accept = {"Accept": "application/openmetrics-text;version=1.0.0", "Accept-Encoding": "gzip"}
    request = urllib.request.Request(url, headers=accept)  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - loopback
        data: bytes = answer.read()
    return gzip.decompress(data)


def wait_until_live(url: str) -> None:
    """Until every node is there."""
    end = time.monotonic() + 120
    while scraped(url).count(b"gpuwatch_node_state{") == 0 or b'state="connecting"' in scraped(url):
        assert time.monotonic() < end
        time.sleep(1.0)


def share_of(pid: int, urls: Sequence[str]) -> float:
    """Share of a core over some scrapes of these pages."""
    before, began = running_s(pid), time.monotonic()
    for _ in range(SCRAPES):
        for url in urls:
            scraped(url)
        time.sleep(SCRAPE_S)
    return (running_s(pid) - before) / (time.monotonic() - began)
