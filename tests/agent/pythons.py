"""The Pythons that a node may have, and two of them at work at a time."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

VERSIONS = tuple(f"3.{minor}" for minor in range(6, 14))
T = TypeVar("T")


def interpreter(version: str) -> str:
    """A Python of this version: this one, one under pyenv or on PATH; else the test is skipped."""
    if sys.version_info[:2] == tuple(int(part) for part in version.split(".")):
        return sys.executable
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for folder in sorted(root.glob(f"{version}.*")):
        if (folder / "bin/python").exists():
            return str(folder / "bin/python")
    found = shutil.which(f"python{version}")
    if found is None or "shims" in found:
        assert version not in os.environ.get("GPUWATCH_REQUIRE_PYTHONS", "").split(), f"no Python {version}"
        pytest.skip(f"Python {version} is not here")
    return str(found)


def all_at_work(request: pytest.FixtureRequest, work: Callable[[str], T]) -> Iterator[dict[str, Future[T]]]:
    """Do the same with every version that a chosen test of the module asks for, two at a time.

    What is missing or fails is raised by its `result()`.
    """
    asking = [item for item in request.session.items if item.path == request.path]
    params = [item.callspec.params for item in asking if hasattr(item, "callspec")]
    wanted = {each["version"] for each in params if "version" in each}
    with ThreadPoolExecutor(2) as pool:
        yield {version: pool.submit(work, version) for version in VERSIONS if version in wanted}
