"""The launcher of a probe gets the agent without its log reader: it must need nothing of that."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from importlib.util import resolve_name

from gpuwatch.probe.orchestration.nodes import shipping


def imported(module: str, source: str, shipped: Mapping[str, str]) -> Iterator[str]:
    """Names of gpuwatch's modules that a module imports when it runs."""
    is_folder = any(name.startswith(f"{module}.") for name in shipped)
    package = module if is_folder else module.rpartition(".")[0]
    tree = ast.parse(source)
    typing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in typing:
            source_of = resolve_name("." * node.level + (node.module or ""), package)
            names = {f"{source_of}.{each.name}" for each in node.names} & set(shipped)
            yield from names or {source_of}


def test_every_module_that_the_launcher_imports_travels_with_it() -> None:
    shipped = shipping._installed()
    waiting, seen = [shipping.ENTRY], set()
    while waiting:
        module = waiting.pop()
        if module in seen or not module.startswith("gpuwatch"):
            continue
        seen.add(module)
        assert module in shipped, module
        waiting += imported(module, shipped[module], shipped)
    assert "gpuwatch.agent.processes.spawned_ranks" in seen
