"""The log reader is a process that gets the modules that it imports, and no others."""

from __future__ import annotations

import ast
from pathlib import Path

from gpuwatch.agent.logs.ipc import child_process
from gpuwatch.agent.logs.ipc.child_process import SHIPPED_PACKAGES

LOGS = Path(child_process.__file__).parents[1]


def imported(path: Path) -> set[str]:
    """What a module imports of the agent outside of `logs`."""
    depth = len(path.relative_to(LOGS).parts) + 1
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            found |= {node.module.partition(".")[0]} if node.module else {name.name for name in node.names}
    return found


def test_every_module_that_the_log_reader_imports_is_shipped_with_it() -> None:
    found = {name for path in LOGS.rglob("*.py") for name in imported(path)}
    assert found == set(SHIPPED_PACKAGES)
