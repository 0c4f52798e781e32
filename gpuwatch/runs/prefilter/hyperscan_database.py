"""Compiles Hyperscan databases of all patterns once, and keeps them in the cache folder."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import platform
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gpuwatch.own_folders import cache_folder, make_own
from gpuwatch.rules.compiling.sealed_files import read_sealed, write_sealed

MAX_CACHE_FILES = 24
"""Most files in the cache folder: the databases of about three sets of rules."""


def installed() -> bool:
    """Return True if the extra `hyperscan` is installed."""
    return importlib.util.find_spec("hyperscan") is not None


def databases_of(batches: Sequence[Sequence[tuple[bytes, bool]]], *, may_compile: bool) -> list[Any]:
    """Return the database of each batch of expressions; [] while one of them is not compiled yet."""
    found = []
    for expressions in batches:
        database = database_of(expressions, may_compile=may_compile)
        if database is None:
            return []
        found.append(database)
    return found


def database_of(expressions: Sequence[tuple[bytes, bool]], *, may_compile: bool) -> Any:  # noqa: ANN401 - no types
    """Return the database of expressions, each with its flag "ignore case"; None: not compiled yet.

    A database takes seconds to compile and is kept in the cache folder; only one process compiles it. The
    file's name is a digest of the expressions, of Hyperscan's version and of the processor, whose
    instructions the database uses.
    """
    import hyperscan  # noqa: PLC0415 - an extra, needed on request only

    stated = [
        version("hyperscan"),
        platform.machine(),
        processor(),
        repr([tuple(each) for each in expressions]),
    ]
    name = hashlib.sha256("\n".join(stated).encode()).hexdigest()[:32]
    file = cache_folder() / f"patterns-{name}.hyperscan"
    database, kept = None, read_sealed(file)
    if kept is not None:
        with contextlib.suppress(hyperscan.HyperscanError):
            database = hyperscan.loadb(kept, hyperscan.HS_MODE_BLOCK)
    if database is None and may_compile:
        with alone(file.with_suffix(".lock")) as first:
            if not first:
                return None
            database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
            database.compile(
                expressions=[text for text, _ in expressions],
                ids=list(range(len(expressions))),
                elements=len(expressions),
                flags=[hyperscan.HS_FLAG_CASELESS if folded else 0 for _, folded in expressions],
            )
            write_sealed(file, hyperscan.dumpb(database), MAX_CACHE_FILES)
    if database is not None:
        database.scratch = hyperscan.Scratch(database)
    return database


def database_of_texts(texts: Sequence[bytes]) -> Any:  # noqa: ANN401 - no types
    """Return a small database that finds any of these texts; it takes milliseconds to compile."""
    import hyperscan  # noqa: PLC0415 - an extra, needed on request only

    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[re.escape(text) for text in texts],
        ids=list(range(len(texts))),
        elements=len(texts),
        flags=[0] * len(texts),
    )
    database.scratch = hyperscan.Scratch(database)
    return database


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[bool]:
    """Yield True if no other process holds this lock file, or if the file cannot be created."""
    try:
        make_own(lock.parent)
        held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        yield True
        return
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
            lock.unlink(missing_ok=True)
    finally:
        os.close(held)


def processor() -> str:
    """Return the processor's instruction sets (flags) as Linux lists them; "" elsewhere."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123 - one line of many
            return next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return ""
