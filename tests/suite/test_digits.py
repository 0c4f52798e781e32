"""No text is tested with `isdigit`, which accepts "\u00b2" and other signs that `int` refuses."""

from __future__ import annotations

import ast
from pathlib import Path

CODE = Path(__file__).parents[2] / "gpuwatch"
BYTES = {"agent/kernel/kernel_sources.py", "agent/hang_evidence/profile.py", "link/kube/log_copy.py"}
"""Files in which bytes are tested: these have no `isdecimal`, and `isdigit` takes 0 to 9 alone."""


def test_text_is_tested_for_what_int_reads() -> None:
    found = {
        str(file.relative_to(CODE))
        for file in CODE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("isdigit", "isnumeric")
    }
    assert found == BYTES
