"""A real Prometheus between the exporter and the link: what goes in comes out."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.link.prometheus.client import PrometheusError
from gpuwatch.link.prometheus.discovery import discover
from tests.cli.running import COMMAND, environment, run
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


def once(*source: str) -> dict[str, Any]:
    """The report of a source as JSON; the demo has its incident, so the exit status is 1."""
    done = run([*COMMAND, "once", *source, "--json"])
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("names", ["gpuwatch", "dcgm"])
def test_the_demo_through_a_prometheus(tmp_path: Path, names: str) -> None:
    relabelled: dict[str, object] = {}
    if names == "dcgm":  # as if only dcgm-exporter were scraped
        keep = {"source_labels": ["__name__"], "regex": "DCGM_.*", "action": "keep"}
        relabelled["metric_relabel_configs"] = [keep]
    with exporter("--dcgm-names") as scraped, prometheus(tmp_path, scraped, **relabelled) as url:
        wait_for_nodes(url)
        through, itself = once("--prometheus", url), once("--demo")
    assert [node["name"] for node in through["nodes"]] == [node["name"] for node in itself["nodes"]]
    assert {node["state"] for node in through["nodes"]} == {"live"}
    for read, shown in zip(through["nodes"], itself["nodes"], strict=True):
        pairs = list(zip(read["gpus"], shown["gpus"], strict=True))
        assert [one["index"] for one, _ in pairs] == [other["index"] for _, other in pairs]
        for one, other in pairs:
            assert one["name"] == other["name"]
            assert abs(one["memory_total_bytes"] - other["memory_total_bytes"]) < 2 << 20
            if one["state"] == other["state"] == "ok":
                assert abs(one["temperature_c"] - other["temperature_c"]) < 40
                assert one["sm_clock_mhz"] == pytest.approx(other["sm_clock_mhz"], rel=0.5)
                assert one["power_limit_w"] == other["power_limit_w"]
                assert one["age_s"] < 4 * SCRAPE_S
        if names == "gpuwatch":
            assert read["host"]["memory_total_bytes"] == shown["host"]["memory_total_bytes"]
            assert [port["device"] for port in read["host"]["ib"]] == [
                port["device"] for port in shown["host"]["ib"]
            ]
    assert through["interval_s"] == SCRAPE_S
