"""A real Prometheus over a real exporter of the demo."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from gpuwatch.link.prometheus.client import PrometheusError
from gpuwatch.link.prometheus.discovery import discover
from tests.cli.running import COMMAND, environment
from tests.parts import need

SCRAPE_S = 5
START_S = 90.0


@contextlib.contextmanager
def exporter(*options: str) -> Iterator[str]:
    """An exporter over the demo: its address."""
    argv = [*COMMAND, "exporter", "--demo", "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(argv, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://(\S+)/metrics", process.stderr.readline())
        assert found
        try:
            yield found[1]
        finally:
            process.terminate()
        assert process.wait(60) == 0


@contextlib.contextmanager
def prometheus(folder: Path, scraped: str, **relabelled: object) -> Iterator[str]:
    program = need("prometheus")
    job = {
        "job_name": "gpuwatch",
        "scrape_interval": f"{SCRAPE_S}s",
        "static_configs": [{"targets": [scraped]}],
        **relabelled,
    }
    (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": [job]}))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    argv += [f"--web.listen-address=127.0.0.1:{port}"]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def wait_for_nodes(url: str) -> None:
    """Until it has scraped twice: the interval is then known."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        with contextlib.suppress(PrometheusError):
            if discover(url, "", None)[0].interval_s == SCRAPE_S:
                return
        time.sleep(0.5)
    raise AssertionError("nothing was scraped")
