"""Caches compiled rules in the cache folder: finding the literals of all patterns takes half a second."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpuwatch.own_folders import cache_folder, make_own
from gpuwatch.rules.model.dialect import Dialect
from gpuwatch.rules.model.rule import Rule
from gpuwatch.whole_file import read_own, write_whole

MAX_CACHE_BYTES = 64 << 20
MAX_CACHE_FILES = 12
"""Number of files kept, the last used ones, of half a megabyte each.

A scan, agents and the demo each have one with and one without the user's packs, of this and of the previous
version.
"""
_CODE = ("check.py", "compile.py", "literals.py", "../model/dialect.py")


def compiled_or_kept(rules: Sequence[Rule | Dialect]) -> list[dict[str, Any]]:
    """Return the result of `compile.compiled`, from the cache folder if the same rules were compiled before.

    The file's name is a digest of the rules and of the code that compiles them, so it can never be stale; its
    first line is a digest of the rest. If the folder cannot be written, others may write the file, or its
    content is wrong, the rules are compiled again.
    """
    folder = cache_folder()
    name = _digest(rules)
    file = folder / f"rules-{name}.json"
    with contextlib.suppress(OSError, msgspec.DecodeError):
        digest, _, data = read_own(file, MAX_CACHE_BYTES, follow=False).partition(b"\n")
        if digest == _seal(name, data):
            os.utime(file)  # the files that are used stay
            return msgspec.json.decode(data, type=list[dict[str, Any]])
    from gpuwatch.rules.compiling.compile import compiled  # noqa: PLC0415 - not needed where the file is there

    made = compiled(rules)
    with contextlib.suppress(OSError):
        data = msgspec.json.encode(made)
        _write(folder, file, _seal(name, data) + b"\n" + data)
    return made


def _digest(rules: Sequence[Rule | Dialect]) -> str:
    stated = hashlib.sha256(sys.version.encode())
    for name in _CODE:
        stated.update((Path(__file__).parent / name).read_bytes())
    stated.update(msgspec.json.encode(rules))
    return stated.hexdigest()[:32]


def _seal(name: str, data: bytes) -> bytes:
    """Return a digest of compiled rules, bound to their name."""
    return hashlib.sha256(name.encode() + b"\n" + data).hexdigest().encode()


def _write(folder: Path, file: Path, data: bytes) -> None:
    make_own(folder)
    write_whole(file, data)
    files = sorted(folder.glob("rules-*.json"), key=lambda each: each.stat().st_mtime)
    for old in files[:-MAX_CACHE_FILES]:
        old.unlink(missing_ok=True)
