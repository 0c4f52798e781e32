"""What `import gpuwatch.telemetry` brings into a training process."""

from __future__ import annotations

import ast
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.cluster import ROOT

SOURCES = sorted((ROOT / "gpuwatch" / "telemetry").rglob("*.py"))
MAX_MODULES = 105
"""Of the library and of the standard library beyond an interpreter without site; 98 with Python 3.11."""
USE = "from gpuwatch.telemetry import TelemetrySettings, TelemetryTracker, setup_rank_logging"


def imported(*options: str) -> set[str]:
    """Modules that the use of the library loads; `options` are those of the interpreter."""
    code = f"import sys; before = {{*sys.modules}}\n{USE}\nprint(*({{*sys.modules}} - before))"
    argv = [sys.executable, *options, "-c", code]
    return {*subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()}


def test_nothing_heavy_is_imported() -> None:
    modules = imported()
    found = {name.partition(".")[0] for name in modules}
    assert (
        found & {"torch", "textual", "rich", "paramiko", "numpy", "msgspec", "yaml", "click", "psutil"}
        == set()
    )
    later = {
        "ctypes",
        "dataclasses",
        "inspect",
        "lzma",
        "pickle",
        "platform",
        "queue",
        "random",
        "socket",
        "tempfile",
    }
    assert found & later == set(), "loaded when they are used"
    assert len(imported("-S")) <= MAX_MODULES, "what site loads differs between environments"
    ours = {name for name in modules if name.startswith("gpuwatch.")}
    assert {name for name in ours if not name.startswith("gpuwatch.telemetry")} == set()


def test_every_public_name_is_there() -> None:
    """Document 001, line 210."""
    code = "import gpuwatch.telemetry as t\nfor name in t.__all__: getattr(t, name)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT / "gpuwatch")))
def test_a_source_parses_as_python_3_8_and_imports_the_library_alone(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=(3, 8))
    absolute = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0]
    named = {str(node.module).partition(".")[0] for node in absolute}
    named |= {
        alias.name.partition(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names
    }
    assert "gpuwatch" not in named, "the wheel of the library has no other part"


def cpu_s(code: str) -> float:
    """User and system seconds of a program, the best of some runs."""
    best = float("inf")
    for _ in range(9):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


@pytest.mark.long
def test_the_import_costs_little() -> None:
    """0.7 and 1.4 times the CPU of modules that every training imports, slowed as much by a busy machine."""
    usual = cpu_s("import json, logging, pathlib, threading, typing")
    assert cpu_s("import gpuwatch.telemetry") <= usual
    assert cpu_s(USE) <= 2 * usual
