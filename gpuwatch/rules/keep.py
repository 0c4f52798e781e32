"""Compiled rules kept in the cache folder: finding the literals of all patterns takes half a second."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpuwatch.rules.dialect import Dialect
from gpuwatch.rules.rule import Rule

KEPT = 4
"""Files that stay: the packs of this version with and without one's own, and those of the version before."""
_CODE = ("check.py", "compile.py", "literals.py", "dialect.py")


def compiled_or_kept(rules: Sequence[Rule | Dialect]) -> list[dict[str, Any]]:
    """As `compile.compiled`, from the cache folder where the same was made before.

    The file's name is a digest of the rules and of the code that compiles them, so it can never be stale. A
    folder that cannot be written, or a file that is not ours, only costs the time.
    """
    folder = cache_folder()
    file = folder / f"rules-{_digest(rules)}.json"
    with contextlib.suppress(OSError, msgspec.DecodeError):
        if file.stat().st_uid == os.geteuid():
            return msgspec.json.decode(file.read_bytes(), type=list[dict[str, Any]])
    from gpuwatch.rules.compile import compiled  # noqa: PLC0415 - not needed where the file is there

    made = compiled(rules)
    with contextlib.suppress(OSError):
        _write(folder, file, msgspec.json.encode(made))
    return made


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/gpuwatch`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path("~/.cache").expanduser()) / "gpuwatch"


def _digest(rules: Sequence[Rule | Dialect]) -> str:
    said = hashlib.sha256(sys.version.encode())
    for name in _CODE:
        said.update(Path(__file__).with_name(name).read_bytes())
    said.update(msgspec.json.encode(rules))
    return said.hexdigest()[:32]


def _write(folder: Path, file: Path, data: bytes) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, prefix=".rules-")
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(data)
        Path(name).replace(file)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    files = sorted(folder.glob("rules-*.json"), key=lambda each: each.stat().st_mtime)
    for old in files[:-KEPT]:
        old.unlink(missing_ok=True)
