"""Every test that SECURITY.md names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_the_tests_of_the_security_table_exist() -> None:
    named = NAMED.findall((ROOT / "SECURITY.md").read_text())
    assert len(named) > 25
    for file, name in named:
        assert re.search(rf"def {name}\(", (ROOT / file).read_text()), f"{file}::{name}"
