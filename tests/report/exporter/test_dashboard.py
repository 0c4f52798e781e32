"""The Grafana dashboard in docs: its form, and that the exporter emits what it asks for."""

from __future__ import annotations

import copy
import importlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.link.prometheus.series import gpu, host, job
from gpuwatch.link.prometheus.series.tier_series import MetricFamily, TierSeries
from gpuwatch.report.exporter import alert_metrics, scrape
from tests.parts import need

ROOT = Path(__file__).parents[3]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
BESIDE_SCHEMA = "/definition"
"""The text of a variable's query; Grafana writes it, and its schema leaves it out."""
COLUMNS = 24
"""Of Grafana's grid."""
METRIC = re.compile(r"\bgpuwatch_\w+")


def families() -> Iterator[MetricFamily]:
    """Every family that the exporter writes under gpuwatch's own names."""
    for module in (gpu, host, job, alert_metrics, scrape):
        for value in vars(module).values():
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, TierSeries):
                    yield each.family
                elif isinstance(each, MetricFamily):
                    yield each


def expressions() -> list[str]:
    return [target["expr"] for panel in PANELS for target in panel.get("targets", ())]


def test_every_metric_of_the_dashboard_the_rules_and_the_docs_is_emitted() -> None:
    emitted = {family.name for family in families()}
    variables = [each.get("definition", "") for each in DASHBOARD["templating"]["list"]]
    assert {name for text in [*expressions(), *variables] for name in METRIC.findall(text)} <= emitted
    rules = (ROOT / "docs" / "gpuwatch.rules.yml").read_text()
    assert set(METRIC.findall(rules)) <= emitted
    named = {
        name for name in METRIC.findall((ROOT / "docs" / "prometheus.md").read_text()) if name[-1] != "_"
    }
    assert named <= emitted


def test_every_family_has_a_name_by_the_conventions_and_a_help() -> None:
    found = list(families())
    assert len({family.name for family in found}) == len(set(found))
    for family in found:
        assert family.name.startswith("gpuwatch_")
        assert family.name.endswith("_total") == (family.kind == "counter"), family.name
        assert family.name.endswith("_info") == (family.kind == "info"), family.name
        assert family.help.endswith("."), family.name


def test_panels_have_what_grafana_needs_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < COLUMNS
        taken |= cells
        if panel["type"] != "row":
            assert panel["targets"]
            assert panel["datasource"]["uid"] == "${datasource}"
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_prometheus_takes_every_expression(tmp_path: Path) -> None:
    promtool = need("promtool")
    filled = [each.replace("$__rate_interval", "5m") for each in expressions()]
    rules = [{"record": f"x:y{number}", "expr": each} for number, each in enumerate(filled)]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "x", "rules": rules}]}))
    argv = [promtool, "check", "rules", str(tmp_path / "rules.yml")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def lost(before: Any, after: Any, place: str = "") -> list[str]:
    """The places of a document that another one lacks or states otherwise."""
    if isinstance(before, dict) and isinstance(after, dict):
        missing = [f"{place}/{key}" for key in before if key not in after]
        return missing + [
            each for key in before.keys() & after for each in lost(before[key], after[key], f"{place}/{key}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [each for at, (one, other) in pairs for each in lost(one, other, f"{place}/{at}")]
    return [] if before == after else [place]


def through_grafana(document: dict[str, Any]) -> dict[str, Any]:
    """The dashboard as the types that Grafana generates from its schema read and write it."""
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard", reason="grafana-foundation-sdk")
    encoder = importlib.import_module("grafana_foundation_sdk.cog.encoder")
    importlib.import_module("grafana_foundation_sdk.cog.plugins").register_default_plugins()
    written: dict[str, Any] = json.loads(encoder.JSONEncoder().encode(models.Dashboard.from_json(document)))
    return written


def test_grafanas_schema_knows_all_that_the_dashboard_states() -> None:
    unknown = lost(DASHBOARD, through_grafana(DASHBOARD))
    assert [each for each in unknown if not each.endswith(BESIDE_SCHEMA)] == []
    misspelt = copy.deepcopy(DASHBOARD)
    panel = next(each for each in misspelt["panels"] if each.get("targets"))
    panel["targets"][0]["exprr"] = panel["options"]["legendd"] = ""
    assert len(lost(misspelt, through_grafana(misspelt))) == 2 + len(unknown)
