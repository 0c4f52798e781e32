"""A real Prometheus between the exporter and the link: what goes in comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import gpuwatch
from tests.link.prometheus.real import SCRAPE_S, exporter, prometheus, wait_for_nodes


def once(*source: str) -> dict[str, Any]:
    """The report of a source as JSON; the demo has its incident, so the exit status is 1."""
    done = gpuwatch("once", *source, "--json")
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.long
@pytest.mark.timeout(600)
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
