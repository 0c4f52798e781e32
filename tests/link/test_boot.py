"""The loader and the bundle, run for real in every shell and on every interpreter that is here."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import secrets
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import gpuwatch.agent
from gpuwatch.link.agent.start_method import agent_start
from gpuwatch.link.start import bundle as bundle_module
from gpuwatch.link.start.bundle import (
    NO_PYTHON,
    bundle,
    loader_argv,
    loader_command,
    pynvml_source,
    sources,
    without_prose,
    without_unused,
)
from gpuwatch.link.start.node_start import PACKAGE
from tests.link.interpreters import interpreters
from tests.parts import need
from tests.sentences import Sentences

ROOT = Path(__file__).parents[2]
TELL = """
import json, sys
from .inner import deep
def run(config, stdin, stdout):
    print("stray words")
    facts = [config, stdin.readline().decode(), list(sys.version_info[:2]), __file__]
    stdout.write(json.dumps(facts).encode())
    stdout.flush()
    return deep(config)
"""
INNER = """
def deep(config):
    if config["fail"]:
        raise ValueError("d\\u00e9j\\u00e0 vu")  # the line to quote: \u00e9
    return 7
"""
MODULES = {"gpuwatch_agent": "", "gpuwatch_agent.main": TELL, "gpuwatch_agent.inner": INNER}


def _start(
    argv: list[str], *, fail: bool = False, path: str | None = None
) -> subprocess.CompletedProcess[bytes]:
    stdin = bundle({"nonce": "n\u00e9", "fail": fail}, MODULES) + b"request\n"
    env = dict(os.environ) if path is None else {**os.environ, "PATH": path}
    return subprocess.run(argv, input=stdin, capture_output=True, env=env, timeout=60, check=False)


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "fish", "tcsh", "csh"])
def test_one_loader_line_starts_the_bundle_in_every_login_shell(shell: str) -> None:
    done = _start([need(shell), "-c", loader_command(sys.executable)])
    config, request, _version, file = json.loads(done.stdout)
    assert (config["nonce"], request, file) == ("n\u00e9", "request\n", "gpuwatch_agent/main.py")
    assert done.returncode == 7
    assert done.stderr == b"stray words\n"


@pytest.mark.parametrize("python", interpreters())
def test_the_bundle_starts_on_every_python_3(python: str) -> None:
    done = _start(["/bin/sh", "-c", loader_command(python)])
    assert json.loads(done.stdout)[2] >= [3, 6]
    assert done.returncode == 7


def test_the_usual_names_find_a_python() -> None:
    done = _start(["/bin/sh", "-c", loader_command(None)])
    assert done.returncode == 7


def test_python_2_is_refused_politely() -> None:
    python2 = next(iter(Path("~/.pyenv/versions").expanduser().glob("2.*/bin/python")), None)
    if python2 is None:
        pytest.skip("no Python 2 under ~/.pyenv/versions")
    done = _start(["/bin/sh", "-c", loader_command(str(python2))])
    assert (done.stdout.decode().strip(), done.stderr) == (NO_PYTHON, b"")


def test_a_broken_candidate_gives_way_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "python3").write_text("#!/bin/sh\necho 'shim: no version is set' >&2\nexit 127\n")
    (tmp_path / "python3").chmod(0o755)
    (tmp_path / "python3.9").symlink_to(sys.executable)
    done = _start(["/bin/sh", "-c", loader_command(None)], path=str(tmp_path))
    assert done.returncode == 7
    assert b"shim" not in done.stderr


def test_a_node_without_python_says_so(tmp_path: Path) -> None:
    done = _start(["/bin/sh", "-c", loader_command("/nowhere/python3")], path=str(tmp_path))
    assert done.stdout.decode().strip() == NO_PYTHON


def test_a_failure_on_the_node_quotes_the_shipped_line(sentences: Sentences) -> None:
    done = _start(loader_argv(sys.executable), fail=True)
    assert done.returncode == 1
    text = done.stderr.decode()
    sentences(text)
    assert text.endswith("ValueError: d\u00e9j\u00e0 vu\n")


@pytest.mark.parametrize("python", ["/opt/a b/python", "python3;id", "$(id)", "a'b", 'a"b', "p`id`", ""])
def test_an_interpreter_path_that_a_shell_could_read_is_refused(python: str) -> None:
    with pytest.raises(ValueError, match="interpreter path"):
        loader_command(python)


def test_the_loader_holds_nothing_that_a_shell_changes() -> None:
    inner = re.fullmatch(r"exec /bin/sh -c '([^'\\!\n]+)'", loader_command(None))
    assert inner is not None
    assert "`" not in inner[1]


def test_the_installed_bundle_holds_the_agent_and_pynvml_and_is_small() -> None:
    shipped = bundle({"nonce": "x"})
    again = bundle({"nonce": "y"})
    length, _, rest = shipped.partition(b"\n")
    assert rest[: int(length)] == again.partition(b"\n")[2][: int(length)]
    assert json.loads(rest[int(length) :]) == {"nonce": "x"}
    assert len(shipped) < 228 * 1024


def test_the_shipped_binding_has_every_function_that_the_agent_names() -> None:
    agent = " ".join(sources(Path(gpuwatch.agent.__file__).parent, "agent").values())
    whole = pynvml_source()
    names = functions(whole).intersection(re.findall(r"\w+", agent))
    assert len(names) > 30
    assert names <= functions(without_unused(whole, [agent])) < functions(whole)


def test_a_function_that_a_kept_one_calls_is_kept_with_its_decorators() -> None:
    source = "def a():\n    return b()\n\n@c\ndef b():\n    return 1\n\ndef c(f):\n    return f\n\n"
    assert without_unused(source + "def d():\n    pass\n", ["a()"]) == source


def functions(source: str) -> set[str]:
    return {each.name for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)}


class Untyped(ast.NodeTransformer):
    """Removes the types of arguments, results and variables."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return node
        return ast.copy_location(ast.Assign([node.target], self.visit(node.value)), node)


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def statements(source: str) -> tuple[str, list[int]]:
    """The syntax tree without docstrings and types; the line of each of its nodes."""
    tree = Untyped().visit(ast.parse(source))
    tree.body = [each for each in tree.body if "TYPE_CHECKING" not in ast.unparse(each).partition("\n")[0]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [each for each in node.body if not is_docstring(each)]
    nodes = list(ast.walk(tree))
    return ast.dump(tree), [node.lineno for node in nodes if isinstance(node, (ast.stmt, ast.expr))]


SHIPPED = {**sources(ROOT / "gpuwatch/agent", PACKAGE), "pynvml": pynvml_source()}


@pytest.mark.parametrize("module", SHIPPED)
def test_a_module_without_its_prose_runs_the_same_statements_on_the_same_lines(module: str) -> None:
    assert statements(without_prose(SHIPPED[module])) == statements(SHIPPED[module])


def test_links_keep_no_bundle_each() -> None:
    settings = {"rules": "x" * 100_000}
    size = len(agent_start(None, settings, None).first())
    tracemalloc.start()
    kept = [agent_start(None, settings, None) for _ in range(10)]
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < len(kept) * size / 20


def test_links_that_start_at_once_share_one_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    packing = threading.Barrier(2)

    def packed(_modules: object, _entry: str) -> bytes:
        with contextlib.suppress(threading.BrokenBarrierError):
            packing.wait(0.05)  # a second thread that packs, too, comes in meanwhile
        return secrets.token_bytes(8)

    monkeypatch.setattr(bundle_module, "packed", packed)
    bundle_module.installed_body.cache_clear()
    with ThreadPoolExecutor(8) as links:
        bodies = set(links.map(lambda _: bundle_module.agent_body(), range(8)))
    bundle_module.installed_body.cache_clear()
    assert len(bodies) == 1
