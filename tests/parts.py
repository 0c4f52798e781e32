"""The system parts that some tests need: a missing one skips the test, or fails it in CI.

What no package brings (root, a kernel's module, an old interpreter) is no part: such a test skips everywhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def need(part: str) -> str:
    """The path of a program on PATH (or in the sbin folders), else skip or fail this test."""
    path = shutil.which(part, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin")
    if path is None:
        missing(f"{part} is not installed")
    return path or ""


def missing(reason: str) -> None:
    """Skip with the reason; fail instead where GPUWATCH_REQUIRE_PARTS=1 says that nothing may be missing."""
    if os.environ.get("GPUWATCH_REQUIRE_PARTS") == "1":
        pytest.fail(f"a required part is missing: {reason}")
    pytest.skip(reason)


def need_module(name: str, remedy: str) -> None:
    """Skip or fail this test where a Python package is not installed."""
    if importlib.util.find_spec(name) is None:
        missing(f"{name} is not installed; {remedy}")


SEEN_BY_EVERY_AGENT = [
    pytest.mark.usefixtures("only_job"),
    pytest.mark.timeout(400),  # another suite's jobs may have to end first
]
"""`pytestmark` where a whole job runs: every agent on the machine sees its ranks, so one after the other."""


@contextlib.contextmanager
def the_only_job() -> Iterator[None]:
    """No ranks of another suite on this machine run meanwhile."""
    with (Path(tempfile.gettempdir()) / f"gpuwatch-tests-job-{os.getuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
