"""What docs/hosts.md shows is what gpuwatch does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuwatch.hosts.load import load_source, parse_plan

PAGE = (Path(__file__).parents[2] / "docs" / "hosts.md").read_text()
TABLE = PAGE.partition("| written | is |\n|---|---|\n")[2].partition("\n\n")[0]
RANGES = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|$", TABLE, re.MULTILINE)


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_a_hosts_file_of_the_page_loads(block: str) -> None:
    assert parse_plan(block, "hosts.yaml").nodes


@pytest.mark.parametrize(("written", "names"), RANGES)
def test_a_range_of_the_page_is_these_nodes_on_the_command_line(written: str, names: str) -> None:
    assert [node.name for node in load_source(written).nodes] == names.split()


def test_the_table_of_ranges_was_found() -> None:
    assert len(RANGES) == 8
