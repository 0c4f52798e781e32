"""The tree has no circles, of files or of folders, and no folder is a heap; imports for types count, too."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_FILES = 12
"""Python files of one folder, `__init__.py` not counted."""
Graph = Mapping[str, Iterable[str]]


def module_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass(frozen=True)
class Source:
    """What the tests ask of one file."""

    file: Path
    lines: int
    documented: bool
    imports: tuple[ast.Import | ast.ImportFrom, ...]
    """At whatever place of its text."""
    classes: tuple[str, ...]
    assigned: tuple[str, ...]
    """Names of the module."""
    functions: tuple[tuple[str, int], ...]
    """Name and lines of code."""


@cache
def sources() -> dict[str, Source]:
    """Every module of gpuwatch, parsed once."""
    return {module_of(file): source_of(file) for file in (ROOT / "gpuwatch").rglob("*.py")}


def source_of(file: Path) -> Source:
    text = file.read_text()
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    targets = [
        target
        for node in tree.body
        for target in getattr(node, "targets", None) or [getattr(node, "target", None)]
        if target
    ]
    return Source(
        file,
        text.count("\n"),
        ast.get_docstring(tree) is not None,
        tuple(node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))),
        tuple(node.name for node in nodes if isinstance(node, ast.ClassDef)),
        tuple(node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)),
        tuple(
            (node.name, code_lines(node))
            for node in nodes
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        ),
    )


@cache
def imports() -> dict[str, frozenset[str]]:
    """Module of gpuwatch -> the modules of gpuwatch that it imports."""
    files = sources()
    found = {}
    for module, source in files.items():
        package = module if source.file.name == "__init__.py" else module.rpartition(".")[0]
        names: set[str] = set()
        for node in source.imports:
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                origin = resolve_name("." * node.level + (node.module or ""), package)
                inner = {f"{origin}.{alias.name}" for alias in node.names}
                names |= inner & set(files) or {origin}
        found[module] = frozenset(names & set(files) - {module})
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Nodes that reach each other: the strongly connected components of two nodes and more."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen, waiting = set(), [start]
        while waiting:
            for other in graph.get(waiting.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        reached[start] = seen
    rings = {
        tuple(sorted(other for other in reached[node] if node in reached.get(other, ())))
        for node in graph
        if node in reached[node]
    }
    return [list(ring) for ring in sorted(rings)]


def folders() -> dict[str, set[str]]:
    """Folder -> folders that its own files import from; a folder stands apart from those inside of it."""
    packages = {module_of(file) for file in (ROOT / "gpuwatch").rglob("__init__.py")}

    def folder(module: str) -> str:
        return module if module in packages else module.rpartition(".")[0]

    found: dict[str, set[str]] = defaultdict(set)
    for module, others in imports().items():
        if module != "gpuwatch.__main__":  # the program's entry: it stands beside what everything may import
            found[folder(module)] |= {folder(other) for other in others - packages} - {folder(module)}
    return found


def test_a_circle_is_found() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a"]}) == [["b", "c"]]


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circles(imports()) == []


def test_no_folders_import_each_other_in_a_circle() -> None:
    assert circles(folders()) == []


def test_no_module_gives_one_name_to_two_constants() -> None:
    twice = {
        module: [name for name, count in Counter(source.assigned).items() if count > 1 and name.isupper()]
        for module, source in sources().items()
    }
    assert {module: names for module, names in twice.items() if names} == {}


@pytest.mark.parametrize("top", ["gpuwatch", "tests"])
def test_no_folder_is_a_heap(top: str) -> None:
    sizes = Counter(
        file.parent.relative_to(ROOT) for file in (ROOT / top).rglob("*.py") if file.name != "__init__.py"
    )
    assert {str(folder): size for folder, size in sizes.items() if size > MAX_FILES} == {}


def test_every_folder_says_in_one_line_what_lives_there() -> None:
    packages = {file.parent for file in (ROOT / "gpuwatch").rglob("*.py")} - {ROOT / "gpuwatch"}
    assert [each for each in packages if not sources()[module_of(each / "__init__.py")].documented] == []


def test_no_class_name_has_two_meanings() -> None:
    """Also of those nested in another one, such as a widget's messages."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module, source in sources().items():
        for name in source.classes:
            homes[name].append(module)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


MIN_LINES = 36
"""A file under this length that only one other file imports is folded into that one."""
ALONE = {
    "gpuwatch.__main__": "`python -m gpuwatch`",
    "gpuwatch.tui.browser_driver": "only `serve` loads Textual's driver for browsers",
    "gpuwatch.report.output.read_progress": "as `gpuwatch.report.scan.progress`",
    "gpuwatch.report.scan.progress": "`cli/analysis/scan` uses it, but only `tui` and `report` import rich",
}
"""Why a small file stands alone."""


def test_no_small_file_serves_one_other_file_alone() -> None:
    importers = Counter(other for others in imports().values() for other in others)
    small = {
        module
        for module, source in sources().items()
        if source.file.name != "__init__.py" and source.lines < MIN_LINES and importers[module] <= 1
    }
    assert small == ALONE.keys()


WITHOUT_NOUN = re.compile(
    r"_*(ABOVE|ALL|ALONE|BESIDE|BIG|ENOUGH|FAR|FEW|FIRST|HALF|HELD|KEPT|LARGE|LARGEST|LAST|LATE|LATER|LEAST|LIMIT"
    r"|LISTED|LONG|LONGEST|MANY|MAX|MIN|MORE|MOST|NAMED|NEAR|NEW|NEXT|NONE|OFTEN|OLD|READ|RECENT|ROOMY|SHORT|SHOWN"
    r"|SMALL|SOME|SURE|TIMES|TOLD|TOP|WIDE)(?:_S)?_*"
)
"""Names of constants that leave open what is counted and in which unit."""


def test_constants_say_of_what_they_are() -> None:
    bare = {
        f"{module}.{name}"
        for module, source in sources().items()
        for name in source.assigned
        if WITHOUT_NOUN.fullmatch(name)
    }
    assert sorted(bare) == []


TOP_TO_BOTTOM = (
    "cli tui report session diagnose probe runs fleet link rules hosts blocks wire agent telemetry"
)
PACKAGES = TOP_TO_BOTTOM.split()
MARKS = {(False, True): "●", (False, False): " ", (True, True): "\\", (True, False): "\\"}
"""(whether it is the package itself, whether it imports) -> mark."""
SINGLE_FILES = "files"
"""The column of the single files that every package may use: `plain`, `clock` and so on."""


def picture() -> str:
    """A row for each package, with a mark where it imports from the package of the column."""
    edges = {
        (package_of(module), package_of(other)) for module, others in imports().items() for other in others
    }
    columns = [*PACKAGES[1:], SINGLE_FILES]
    lines = ["imports     " + " ".join(columns)]
    for importer in PACKAGES:
        marks = " ".join(
            MARKS[importer == column, (importer, column) in edges].center(len(column)) for column in columns
        )
        lines.append(f"{importer:12}{marks}".rstrip())
    return "\n".join(lines)


def package_of(module: str) -> str:
    """`diagnose` of `gpuwatch.diagnose.hang.answer`."""
    name = module.removeprefix("gpuwatch.").partition(".")[0]
    return name if name in PACKAGES else SINGLE_FILES


def test_the_picture_of_the_packages_is_the_import_graph() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert f"```text\n{picture()}\n```" in page, picture()


MAX_LINES = 350
MAX_CODE_LINES = 60
"""Of a function, its docstring not counted."""
NOQA = re.compile(r"#\s*(?:ruff: )?noqa(?P<what>.*)")
WITH_REASON = re.compile(r": [A-Z]+\d+(?:, ?[A-Z]+\d+)* +(?:- )?\S")
UNTYPED = re.compile(r"# type: ignore(?P<what>.*)")
TYPED_WITH_REASON = re.compile(r"\[[\w, -]+\] +# \S")


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[0]
    text = first.end_lineno if ast.get_docstring(function) is not None else None
    return (function.end_lineno or 0) - function.lineno + 1 - ((text or first.lineno) - first.lineno)


def test_no_file_and_no_function_is_too_long_to_read() -> None:
    long = [module for module, source in sources().items() if source.lines > MAX_LINES]
    long += [
        f"{module}.{name}"
        for module, source in sources().items()
        for name, lines in source.functions
        if lines > MAX_CODE_LINES
    ]
    assert long == []


MAX_PARAMETERS = 6
"""Of a function; `self` and `cls` not counted. Commands of click take every option."""
WITH_MORE = {
    "runs.traces.rank_trace.add": "called for each of millions of events of a trace",
    "telemetry.logs.rank_logging.setup_rank_logging": "the library's interface: a script names what it sets",
    "telemetry.tracker.tracker.step": "the library's interface: a script names what it measured",
    "tui.toolkit.keys.row": "a row of a table, as Textual's `Binding`",
}


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = node.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    of_object = bool(named) and named[0].arg in ("self", "cls")
    return len(named) - of_object + sum(each is not None for each in (given.vararg, given.kwarg))


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("click." in ast.unparse(each) for each in node.decorator_list)


def test_functions_group_what_they_are_given() -> None:
    many = {
        f"{module.removeprefix('gpuwatch.')}.{node.name}"
        for module, source in sources().items()
        for node in ast.walk(ast.parse(source.file.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if parameters(node) > MAX_PARAMETERS and not is_command(node)
    }
    assert many == WITH_MORE.keys()


def test_every_silenced_rule_of_the_linter_has_its_reason() -> None:
    bare = []
    for file in (*(ROOT / "gpuwatch").rglob("*.py"), *(ROOT / "tests").rglob("*.py")):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            found = NOQA.search(line)
            if found and file != Path(__file__) and not WITH_REASON.match(found["what"]):
                bare.append(f"{file.relative_to(ROOT)}:{number}")
    assert bare == []


def test_every_silenced_error_of_types_has_its_reason() -> None:
    bare = [
        f"{module}:{number}"
        for module, source in sources().items()
        for number, line in enumerate(source.file.read_text().splitlines(), 1)
        if (found := UNTYPED.search(line)) and not TYPED_WITH_REASON.match(found["what"])
    ]
    assert bare == []


HARD = """
    agent.logs.matching.prefilter diagnose.alerts.deduplication.deduplicator
    diagnose.alerts.deduplication.occurrence diagnose.alerts.deduplication.same_event
    diagnose.alerts.deduplication.unexplained diagnose.alerts.placement.finding_place
    diagnose.error_outcome.consequence diagnose.error_outcome.refutation diagnose.hang.classifier
    diagnose.hang.combined_verdict diagnose.hang.hang_watch diagnose.hang.stacks.compare
    diagnose.incidents.builder diagnose.incidents.causes.alert_job
    diagnose.incidents.causes.cause_precedence diagnose.incidents.causes.explaining_error
    diagnose.incidents.causes.grouping diagnose.incidents.causes.root_cause
    diagnose.incidents.culprits.culprit diagnose.incidents.culprits.culprit_rank
    diagnose.job_end.job_end diagnose.model.rank_index probe.judging.links.attribution
"""
"""Modules that weigh evidence: each opens with a worked example."""


@pytest.mark.parametrize("module", HARD.split())
def test_a_hard_module_opens_with_a_worked_example(module: str) -> None:
    source = ROOT / "gpuwatch" / f"{module.replace('.', '/')}.py"
    assert re.search("Example|example", ast.get_docstring(ast.parse(source.read_text())) or "")
