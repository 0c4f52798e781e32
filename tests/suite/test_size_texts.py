"""Sizes are formatted in one module, `gpuwatch/number_text.py`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "gpuwatch"
UNIT = re.compile(r" ?[KMGTkmgt]i?B\b(?!/s)")
ALONE = ("agent", "telemetry", "probe/launcher", "probe/ranks")
"""Run elsewhere, and import nothing of the rest; the formats of telemetry are documented."""
HOMES = {
    "number_text.py": "the home",
    "report/sessions/numbers.py": "the documented formats of session logs",
    "report/sessions/communication.py": "the documented formats of session logs",
}


def inline_sizes(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of f-strings in which a computed or formatted number stands before a unit of bytes."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, after in zip(node.values, node.values[1:], strict=False):
            text = after.value if isinstance(after, ast.Constant) else ""
            if not isinstance(value, ast.FormattedValue) or not UNIT.match(str(text)):
                continue
            if value.format_spec is not None or isinstance(value.value, ast.BinOp):
                yield node.lineno


def test_no_other_module_formats_sizes() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if (name := path.relative_to(PACKAGE).as_posix()) not in HOMES and not name.startswith(ALONE)
        for line in inline_sizes(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []
