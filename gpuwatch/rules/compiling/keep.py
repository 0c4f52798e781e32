"""Caches compiled rules and patterns for shapes in the cache folder: each takes half a second to make."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.own_folders import cache_folder
from gpuwatch.rules.compiling.sealed_files import read_sealed, write_sealed
from gpuwatch.rules.compiling.shape_patterns import ShapePattern, shape_pattern
from gpuwatch.rules.model.dialect import Dialect
from gpuwatch.rules.model.rule import Rule

MAX_CACHE_FILES = 12
"""Number of files kept, the last used ones, of half a megabyte each.

A scan, agents and the demo each have one with and one without the user's packs, of this and of the previous
version.
"""
_SHAPES_CODE = ("check.py", "literals.py", "pattern_parts.py", "shape_parts.py", "shape_patterns.py")
MAX_SHAPES_FILES = 4
_CODE = ("check.py", "compile.py", "literals.py", "../model/dialect.py")


def compiled_or_kept(rules: Sequence[Rule | Dialect]) -> list[dict[str, Any]]:
    """Return the result of `compile.compiled`, from the cache folder if the same rules were compiled before.

    The file's name is a digest of the rules and of the code that compiles them, so it can never be stale; its
    first line is a digest of the rest. If the folder cannot be written, others may write the file, or its
    content is wrong, the rules are compiled again.
    """
    file = cache_folder() / f"rules-{_digest(rules)}.json"
    data = read_sealed(file)
    if data is not None:
        with contextlib.suppress(*DECODE_ERRORS):
            return msgspec.json.decode(data, type=list[dict[str, Any]])
    from gpuwatch.rules.compiling.compile import compiled  # noqa: PLC0415 - not needed where the file is there

    made = compiled(rules)
    write_sealed(file, msgspec.json.encode(made), MAX_CACHE_FILES)
    return made


def shape_patterns_or_kept(texts: Collection[str]) -> dict[str, ShapePattern | None]:
    """Return text -> result of `shape_pattern` (None: any shape may match), cached in the cache folder."""
    file = cache_folder() / f"shapes-{_digest(sorted(texts), _SHAPES_CODE)}.json"
    data = read_sealed(file)
    if data is not None:
        with contextlib.suppress(*DECODE_ERRORS):
            kept = msgspec.json.decode(data, type=dict[str, tuple[str, bool] | None])
            return {
                text: None if each is None else ShapePattern(each[0].encode(), each[1])
                for text, each in kept.items()
            }
    made = {text: shape_pattern(text) for text in texts}
    plain = {text: None if each is None else (each.text.decode(), each.folded) for text, each in made.items()}
    write_sealed(file, msgspec.json.encode(plain), MAX_SHAPES_FILES)
    return made


def kept_texts(
    kind: str, texts: Collection[str], code: Sequence[str], made_of: Callable[[str], str]
) -> dict[str, str]:
    """Return text -> result of `made_of`, from the cache folder if the texts were given before.

    `kind`: the beginning of the file's name; `code`: the modules that make a result, as paths from here.
    """
    file = cache_folder() / f"{kind}-{_digest(sorted(texts), code)}.json"
    data = read_sealed(file)
    if data is not None:
        with contextlib.suppress(*DECODE_ERRORS):
            return msgspec.json.decode(data, type=dict[str, str])
    made = {text: made_of(text) for text in texts}
    write_sealed(file, msgspec.json.encode(made), MAX_SHAPES_FILES)
    return made


def _digest(stated: Any, code: Sequence[str] = _CODE) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for name in code:
        digest.update((Path(__file__).parent / name).read_bytes())
    digest.update(msgspec.json.encode(stated))
    return digest.hexdigest()[:32]
