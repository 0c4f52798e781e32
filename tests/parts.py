"""The parts that some tests need: a missing one skips the test, or fails it in CI.

What no package brings (root, a kernel's module, an old interpreter) is no part: such a test skips everywhere.
Every test that lacks the same part gives the same reason, so pytest's summary has one line for each part.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packages import C_HEADERS, LONG_PACKAGE_OF, PACKAGE_OF, has_c_headers, path_of
from tests.workers.isolation import ISOLATED


def need(part: str) -> str:
    """The path of a program on PATH (or in the sbin folders), else skip or fail this test."""
    path = path_of(part)
    if path is None:
        package = PACKAGE_OF.get(part) or LONG_PACKAGE_OF.get(part)
        missing(f"{part} is not installed" + (f" (Debian package {package})" if package else ""))
    return path or ""


def need_compiler() -> None:
    """Skip or fail this test where no C program can be compiled."""
    need("gcc")
    if not has_c_headers():
        missing(f"the headers of the C library are not installed (Debian package {C_HEADERS})")


def need_torch() -> None:
    """Skip or fail this test where torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        missing("torch is not installed (pip has no wheel of it for this Python, or: pip install torch)")


def missing(reason: str) -> None:
    """Skip with the reason; fail instead where GPUWATCH_REQUIRE_PARTS=1 says that nothing may be missing."""
    if os.environ.get("GPUWATCH_REQUIRE_PARTS") == "1":
        pytest.fail(f"a required part is missing: {reason}")
    pytest.skip(reason)


SEEN_BY_EVERY_AGENT = [
    pytest.mark.usefixtures("only_job"),
    pytest.mark.timeout(600),  # another suite's jobs may have to end first
]
"""`pytestmark` where a whole job runs: every agent on the machine sees its ranks, so one after the other."""


@contextlib.contextmanager
def the_only_job() -> Iterator[None]:
    """No ranks of another suite on this machine run meanwhile."""
    if ISOLATED in os.environ:
        yield
        return
    with (Path(tempfile.gettempdir()) / f"gpuwatch-tests-job-{os.getuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
