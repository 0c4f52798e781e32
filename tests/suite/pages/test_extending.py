"""docs/extending.md: the files that its recipes name exist, and their examples load and work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.rules.compiling.compile import compiled
from gpuwatch.rules.load import load_packs
from gpuwatch.rules.scoring.score import scan_excerpt
from gpuwatch.rules.scoring.score_progress import read_line
from gpuwatch.wire import AgentCost, GpuFast, GpuInfo

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "extending.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
PATH = re.compile(r"`((?:gpuwatch|tests|docs|packaging)/[\w/.-]+|[\w.]+\.(?:toml|yaml|md))`(?! \(new\))")


def examples(section: str) -> Iterator[tuple[str, str]]:
    """File and code of each Python block of a section."""
    for block in re.findall(r"```python\n(.*?)```", SECTIONS[section], re.DOTALL):
        head, _, code = block.partition("\n")
        yield head.removeprefix("# ").removesuffix(" (new)"), code


def loaded(section: str) -> dict[str, Any]:
    """The names that the examples of a section define, each run among the names of its own file."""
    made: dict[str, Any] = {}
    for path, code in examples(section):
        name = path.removesuffix(".py").replace("/", ".")
        there = {**vars(import_module(name)), **made} if (ROOT / path).exists() else {"__name__": name}
        names = dict(there)
        exec(code, names)  # noqa: S102 - the page is ours
        made |= {key: value for key, value in names.items() if there.get(key) is not value}
    return made


def test_files_that_the_recipes_name_exist() -> None:
    named = set(PATH.findall(PAGE))
    assert len(named) > 40
    new = set(re.findall(r"`(gpuwatch/tui/versions/[\w.]+)`", PAGE))
    assert [path for path in sorted(named - new) if not (ROOT / path).exists()] == []


def test_each_recipe_names_its_files_an_example_and_its_tests() -> None:
    anchors = set(re.findall(r"\]\(#([a-z-]+)\)", PAGE))
    assert {title.lower().replace(" ", "-") for title in SECTIONS} == anchors
    for title, text in SECTIONS.items():
        assert re.search(r"^1\. `", text, re.MULTILINE), title
        assert "```" in text, title
        assert re.search(r"^Guarded by `tests/", text, re.MULTILINE), title


@pytest.mark.parametrize("section", [title for title in SECTIONS if "```python" in SECTIONS[title]])
def test_the_examples_of_a_recipe_load(section: str) -> None:
    assert loaded(section)


def test_the_examples_do_what_they_say() -> None:
    fast = GpuFast(0.0, memory_total_bytes=80, memory_used_bytes=30)
    metric = loaded("A metric")["new_row"]
    assert metric.read(Gpu(GpuInfo("u", 0, "x"), "n", fast=fast), 0.0) == 50
    series = loaded("An exporter metric")["new_row"]
    assert series.exported(getattr(AgentCost(threads=7), series.field)) == 7
    codes, severity, title, remedy = loaded("An Xid")["new_row"]
    assert (codes, severity) == ((999,), "warning")
    assert title and remedy.endswith(".")
    assert loaded("A link")["PodmanDialer"](NodeSpec("box"))
    screen = loaded("A screen")["VersionsScreen"]
    assert screen.kind == "versions"


def test_the_rule_and_the_dialect_give_what_their_examples_say(tmp_path: Path) -> None:
    pack = tmp_path / "example.yaml"
    pack.write_text("".join(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)))
    packs = load_packs([pack])
    rule = packs.by_id["storage.scratch_purged"]
    named = {each.id: each for each in packs.dialects}
    dialect = named["progress.example"]
    rules = RuleSet(compiled([rule, dialect, named[dialect.like]]))
    found = [bool(scan_excerpt(rules, [line])) for line in (*rule.examples, *rule.negatives)]
    assert found == [True, False]
    for example in dialect.examples:
        wanted = {name: float(value) for name, value in example.gives.items()}
        assert read_line(rules, example.line) == wanted
