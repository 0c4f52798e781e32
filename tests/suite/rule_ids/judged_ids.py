"""Finds where code decides by the id of a rule, whatever names and collections the id passes through.

Example: `GENERIC_END = rule_ids.RANK_EXIT_ERROR` in one module and `alert.code != GENERIC_END` in another
one, which imports the name, is a decision by `rank.exit_error`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeAlias

Ids: TypeAlias = frozenset[str]
Name: TypeAlias = tuple[str, str]
"""A module and a name of it."""
COLLECTIONS = ("frozenset", "set", "tuple", "list", "sorted", "ClassSet")
ASKED = ("has", "startswith", "endswith")
"""Methods that answer whether something is of an id that they are passed."""
QUOTED = re.compile(r"""["']([a-z0-9_]+(?:\.[a-z0-9_]+)+)["']""")


@dataclass
class _Module:
    """A parsed module, and what its names stand for."""

    tree: ast.Module
    package: tuple[str, ...]
    names: dict[str, Ids] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    """Name -> the module that it may be."""


def judged_ids(sources: Mapping[str, str], rules: Ids) -> list[tuple[str, str, Ids]]:
    """Return (file, expression, ids) of each decision by an id of `rules`.

    Decisions are comparisons (without `is`), members of sets, keys of dictionaries, unions, cases of `match`
    and the methods of `ASKED`. `sources`: path of a file, from the folder that has the package -> its text.
    Only the names of modules are followed, not the variables of functions.
    """
    texts = {_dotted(path): (path, text) for path, text in sources.items()}
    modules: dict[str, _Module] = {}
    new = {name for name, (_, text) in texts.items() if not rules.isdisjoint(QUOTED.findall(text))}
    exported: set[Name] = set()
    while new:
        modules |= {name: _Module(ast.parse(texts[name][1]), _package(texts[name][0])) for name in new}
        before = -1
        while before != (before := sum(len(ids) for each in modules.values() for ids in each.names.values())):
            for each in modules.values():
                _take_names(each, modules, rules)
        known = {(module, name) for module, each in modules.items() for name in each.names}
        used = known - exported
        exported |= known
        new = {
            name
            for name, (_, text) in texts.items()
            if name not in modules and any(_may_use(text, *each) for each in used)
        }
    return [
        (texts[name][0], ast.unparse(node), found)
        for name, each in modules.items()
        for node in ast.walk(each.tree)
        if (found := _union(_decides(node), each, modules, rules))
    ]


def _dotted(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _package(path: str) -> tuple[str, ...]:
    return PurePosixPath(path).parent.parts


def _may_use(text: str, module: str, name: str) -> bool:
    last = module.rpartition(".")[2]
    return name in text and last in text and (f"{last} import" in text or f"{last}.{name}" in text)


def _decides(node: ast.AST) -> Sequence[ast.expr]:
    """Return the parts of a node by which it decides."""
    if isinstance(node, ast.Compare) and not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        return (node.left, *node.comparators)
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key is not None]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitOr, ast.BitAnd)):
        return node.left, node.right
    if isinstance(node, ast.MatchValue):
        return (node.value,)
    if isinstance(node, ast.Call):
        asked = getattr(node.func, "attr", "") in ASKED or getattr(node.func, "id", "") in (
            "set",
            "frozenset",
        )
        return node.args if asked else ()
    return node.elts if isinstance(node, ast.Set) else ()


def _take_names(module: _Module, modules: Mapping[str, _Module], rules: Ids) -> None:
    """Add what the names of a module stand for, as far as it is known of the others."""
    for node in _statements(module.tree):
        if isinstance(node, ast.ImportFrom):
            base = module.package[: len(module.package) - node.level + 1] if node.level else ()
            source = ".".join((*base, *filter(None, [node.module])))
            for alias in node.names:
                name = alias.asname or alias.name
                module.modules[name] = f"{source}.{alias.name}"
                if source in modules:
                    _add(module, name, modules[source].names.get(alias.name, frozenset()))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=False))
                else:
                    pairs = [(target, node.value)]
                for part, value in pairs:
                    if isinstance(part, ast.Name):
                        _add(module, part.id, _ids(value, module, modules, rules))


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements outside of functions, and all imports."""
    for node in tree.body:
        yield node
        if isinstance(node, (ast.ClassDef, ast.If, ast.Try)):
            yield from (each for each in node.body if not isinstance(each, ast.FunctionDef))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield from (each for each in ast.walk(node) if isinstance(each, ast.ImportFrom))


def _add(module: _Module, name: str, ids: Ids) -> None:
    if ids:
        module.names[name] = module.names.get(name, frozenset()) | ids


def _ids(node: ast.expr, module: _Module, modules: Mapping[str, _Module], rules: Ids) -> Ids:
    """Return the ids that an expression stands for, or holds."""
    if isinstance(node, ast.Constant):
        return frozenset((node.value,)) & rules if isinstance(node.value, str) else frozenset()
    if isinstance(node, ast.Name):
        return module.names.get(node.id, frozenset())
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        source = modules.get(module.modules.get(node.value.id, ""))
        return frozenset() if source is None else source.names.get(node.attr, frozenset())
    parts: list[ast.expr] = []
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        parts = node.elts
    elif isinstance(node, ast.Dict):
        parts = [key for key in node.keys if key is not None]
    elif isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    elif isinstance(node, ast.Starred):
        parts = [node.value]
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in COLLECTIONS:
        parts = [*node.args, *(keyword.value for keyword in node.keywords)]
    return _union(parts, module, modules, rules)


def _union(parts: Iterable[ast.expr], module: _Module, modules: Mapping[str, _Module], rules: Ids) -> Ids:
    return frozenset().union(*(_ids(part, module, modules, rules) for part in parts))
