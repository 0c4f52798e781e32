"""The built-in packs: read from YAML once, then from the cache folder in a tenth of the time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from gpuwatch import __version__
from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.own_folders import cache_folder
from gpuwatch.rules.compiling.sealed_files import read_sealed, write_sealed
from gpuwatch.rules.model.dialect import Dialect
from gpuwatch.rules.model.failure_class import FailureClass, Families, Kind
from gpuwatch.rules.model.rule import Rule
from gpuwatch.rules.model.xid_codes import with_codes

BUILT_IN = Path(__file__).parent / "packs"
CLASSES = BUILT_IN / "classes.yaml"
"""The file with the kinds of families and the classes of conditions."""
LISTS = (
    "match",
    "literals",
    "unless",
    "do",
    "examples",
    "links",
    "sources",
    "not",
    "needs",
    "programs",
    "kinds",
    "explains",
)
"""Keys of a rule that may be one text or a list of texts."""
MAX_CACHE_FILES = 2
"""Number of files kept: of this version and of the previous one."""
_CODE = (
    "built_in.py",
    "model/rule.py",
    "model/failure_class.py",
    "model/dialect.py",
    "model/xid_codes.py",
    "../agent/kernel/xid_table.py",
)
"""The sources besides the packs that decide what is read."""


class BuiltIn(msgspec.Struct, frozen=True):
    """The built-in rules and dialects, each in the order of the packs."""

    rules: tuple[Rule, ...]
    dialects: tuple[Dialect, ...]
    packs: dict[str, str]
    """Rule id -> its file."""
    families: dict[str, tuple[Kind, ...]] = {}
    """Family -> the kinds of all its classes; the rules have them already."""
    conditions: dict[str, FailureClass] = {}
    """Code -> class, for codes that no rule has: conditions that gpuwatch observes itself."""

    def class_of(self, code: str) -> FailureClass:
        """Return the class of a code that no rule has."""
        return self.conditions.get(code, FailureClass()).with_families(code, self.families)


def built_in_packs() -> list[Path]:
    """Return the files of the built-in packs by name without the folder: rules are tried in this order."""
    files = (file for file in BUILT_IN.rglob("*.yaml") if file != CLASSES)
    return sorted(files, key=lambda file: file.name)


@cache
def built_in() -> BuiltIn:
    """Return the built-in packs, which are not checked again: the tests did that.

    The name of the file in the cache folder is a digest of the names, sizes and times of the packs and of the
    code that reads them; if it is missing or not ours, the packs are read.
    """
    files = built_in_packs()
    file = cache_folder() / f"packs-{_digest(files)}.json"
    data = read_sealed(file)
    if data is not None:
        try:
            return msgspec.json.decode(data, type=BuiltIn)
        except DECODE_ERRORS:
            pass  # a development version with other types wrote it; it is replaced
    found = read_built_in(files)
    write_sealed(file, msgspec.json.encode(found), MAX_CACHE_FILES)
    return found


@cache
def built_in_dialects() -> Mapping[str, Dialect]:
    """Return the built-in dialects by id."""
    return {each.id: each for each in built_in().dialects}


@cache
def built_in_rules() -> Mapping[str, Rule]:
    """Return the built-in rules by id."""
    return {each.id: each for each in built_in().rules}


def read_built_in(files: list[Path]) -> BuiltIn:
    """Return the rules and dialects in these pack files, with the classes in `CLASSES`."""
    import yaml  # noqa: PLC0415 - not needed where the cache has them

    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    stated: Any = yaml.load(CLASSES.read_bytes(), Loader=loader)  # noqa: S506 - it makes texts, lists, mappings
    families = msgspec.convert(stated["families"], dict[str, tuple[Kind, ...]])
    by_id: dict[str, Rule | Dialect] = {}
    packs: dict[str, str] = {}
    for file in files:
        pack: Any = yaml.load(file.read_bytes(), Loader=loader)  # noqa: S506 - as above
        for entry in pack["rules"] if isinstance(pack, dict) else pack:
            rule = _checked_before(entry, families)
            by_id[rule.id] = rule
            packs[rule.id] = str(file)
    rules = tuple(each for each in by_id.values() if isinstance(each, Rule))
    dialects = tuple(each for each in by_id.values() if isinstance(each, Dialect))
    conditions = msgspec.convert(stated["conditions"], dict[str, FailureClass])
    return BuiltIn(rules, dialects, packs, families, conditions)


def _digest(files: list[Path]) -> str:
    stated = hashlib.sha256(__version__.encode())
    for file in (*files, CLASSES, *(Path(__file__).parent / name for name in _CODE)):
        found = file.stat()
        stated.update(f"{file}\n{found.st_size} {found.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return stated.hexdigest()[:32]


def _checked_before(entry: dict[str, Any], families: Families) -> Rule | Dialect:
    listed: dict[str, Any] = {
        name: [value] for name, value in entry.items() if name in LISTS and isinstance(value, str)
    }
    if entry.get("kind") == "progress":
        return msgspec.convert({**entry, **listed}, Dialect, strict=False)
    same = entry.get("recovery", {}).get("same")
    if isinstance(same, str):
        listed["recovery"] = {**entry["recovery"], "same": [same]}
    rule = msgspec.convert({**entry, **listed, "explain": entry["explain"].strip()}, Rule, strict=False)
    return with_codes(rule.with_families(families))
