"""What holds for every test: no settings of the person who runs them, and none left behind for them.

And who runs it: the tests of a file stay in one process. Each test process sees only its own processes;
where the kernel forbids that, all files with whole jobs run in one.
"""

from __future__ import annotations

import gc
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from gpuwatch.link.start.log_settings import VARIABLE as DISCOVER
from gpuwatch.session.history.incident_memory import VARIABLE as HISTORY
from gpuwatch.tui.toolkit.faults import fault_file
from tests.kernel_log import VARIABLE, empty_kernel_log
from tests.packs import compile_once, share_begins
from tests.parts import the_only_job
from tests.sentences import Sentences, golden_file
from tests.tui.toolkit.parsed_css import share_parsed_css
from tests.workers.file_order import by_share
from tests.workers.isolation import DRIVER_PIDS, ISOLATED, isolated_python

ROOT = Path(__file__).resolve().parent.parent
JOB_MARK = re.compile(r"^pytestmark = (\[\*)?SEEN_BY_EVERY_AGENT\b", re.MULTILINE)


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A person's rules and silences, and this machine's kernel log, would change what is found.

    Child processes inherit this, too.
    """
    machine = tmp_path_factory.mktemp("machine")
    every = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        every = every.parent
    cache = every / "cache"  # of all test processes: what one has compiled, no other compiles again
    cache.mkdir(mode=0o700, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch, empty_kernel_log(machine) as kernel_log:
        patch.setenv(VARIABLE, kernel_log)
        patch.setenv(DRIVER_PIDS, "own")
        patch.setenv(DISCOVER, "off")  # what other tests leave behind are logs of ended jobs
        patch.setenv(HISTORY, "off")  # a test's incidents are no earlier ones of another
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("settings")))
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        share_begins(patch)
        share_parsed_css(patch)
        if "PYTEST_XDIST_WORKER" in os.environ:
            compile_once(cache)
        yield


@pytest.fixture(scope="module", autouse=True)
def nothing_kept_by_other_files() -> None:
    """Remove what sessions of a whole file have kept: those end after its last test."""
    _remove_kept()


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """Remove what sessions keep for later ones: failed jobs, followed logs, silences, settings.

    A later test has nodes and ranks of the same names.
    """
    yield
    _remove_kept()


def _remove_kept() -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        for folder in Path(os.environ[name]).glob("*"):
            rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def no_faults(request: pytest.FixtureRequest) -> Iterator[None]:
    """A fault that a screen survives fails the test, unless it is marked `faults_expected`."""
    yield
    file = fault_file()
    if file.exists():
        text = file.read_text()
        file.unlink()
        assert request.node.get_closest_marker("faults_expected"), text


@pytest.fixture
def sentences(request: pytest.FixtureRequest) -> Iterator[Sentences]:
    """Compare the wording of the product with the package's golden file when the test ends."""
    folders = {str(request.getfixturevalue("tmp_path_factory").getbasetemp()): "<base>"}
    if "tmp_path" in request.fixturenames:
        folders = {str(request.getfixturevalue("tmp_path")): "<tmp>", **folders}
    file = golden_file(request.path)
    met = Sentences(f"{request.path.relative_to(file.parent)}::{request.node.name}", folders)
    yield met
    if request.config.getoption("--update-sentences"):
        met.update(file)
    elif difference := met.difference(file):
        pytest.fail(difference, pytrace=False)


@pytest.fixture(scope="module")
def only_job() -> Iterator[None]:
    with the_only_job():
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-sentences", action="store_true", help="write the sentences that tests meet as golden"
    )
    parser.addoption("--update-snapshots", action="store_true", help="write the pictures of the screens anew")


def pytest_configure(config: pytest.Config) -> None:
    """Name a file that is not there: with test processes pytest itself only says that no tests ran.

    A busy machine is slow: examples of hypothesis have no limit of time, and are the same in each run but for
    those of `make test-long`. What tests write is not writable for a group, whatever the umask: gpuwatch
    refuses such files.
    A shell that starts the tests in the background ignores SIGINT for them: commands under test would, too.
    """
    os.umask(0o022)
    always = "not long" in config.option.markexpr
    settings.register_profile(
        "always", deadline=None, derandomize=always, suppress_health_check=(HealthCheck.too_slow,)
    )
    settings.load_profile("always")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for argument in config.args:
        path = argument.partition("::")[0]
        if not config.option.pyargs and not Path(config.invocation_params.dir, path).exists():
            raise pytest.UsageError(f"file or directory not found: {path}")


def pytest_sessionstart(session: pytest.Session) -> None:
    """In a fresh clone, rewrite a share of the test modules before all are collected.

    Their assertions are rewritten where no process has kept the bytecode: 5 s of CPU, in each of the test
    processes if they all began with the same module.
    """
    gc.disable()  # until all are collected: nothing that is imported is garbage
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    where = [Path(session.config.invocation_params.dir, each) for each in session.config.args]
    if not worker or ROOT / "tests" not in where:
        return
    count = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for path in sorted((ROOT / "tests").rglob("test_*.py"))[int(worker) :: count]:
        with suppress(Exception, pytest.skip.Exception):  # collecting it tells
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Keep the 7,000 tests out of garbage collections, and collect less often: a third of the CPU time."""
    gc.freeze()
    gc.set_threshold(200_000, 50, 50)
    gc.enable()


LONG_TIMEOUT_S = 1800
"""Limit for a `long` test without one of its own: minutes of CPU on a machine that runs other work, too."""


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole jobs first where they cannot be spread over the test processes; then waiting beside computing."""
    _mark_the_unsampled(items)
    for item in items:
        if item.get_closest_marker("long") is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONG_TIMEOUT_S))
    share = by_share(item for item in items if item.get_closest_marker("long") is None)
    whole_jobs_first = ISOLATED not in os.environ
    items.sort(
        key=lambda item: (
            not (whole_jobs_first and "only_job" in getattr(item, "fixturenames", ())),
            share(item),
        )
    )


def _mark_the_unsampled(items: list[pytest.Item]) -> None:
    """Mark as `long` the parameter sets that `sampled(n)` leaves to `make test-long`."""
    sets: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            sets.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for group in sets.values():
        marker = group[0].get_closest_marker("sampled")
        count = len(group) if marker is None else marker.args[0]
        kept = {(index * len(group)) // count for index in range(count)}
        for index, item in enumerate(group):
            if index not in kept:
                item.add_marker(pytest.mark.long)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each reason to skip, however many tests and files have it."""
    skipped: list[pytest.TestReport] = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(one.longrepr[2]) for one in skipped if isinstance(one.longrepr, tuple))
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count} skipped: {reason.removeprefix('Skipped: ')}")


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """The tests of a file in one process; all with whole jobs, too, where test processes see each other."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "jobs" if ISOLATED not in os.environ and _has_a_job(file) else file


@cache
def _has_a_job(file: str) -> bool:
    """Return True if a test file has tests of jobs, by its source: the distributing process collects none."""
    return bool(JOB_MARK.search((ROOT / file).read_text()))


@pytest.hookimpl(optionalhook=True)  # `-p no:xdist` takes the hook away
def pytest_xdist_setupnodes(specs: list[Any]) -> None:
    """No test process sees what another one runs."""
    python = isolated_python()
    if python is None:
        return
    os.environ[ISOLATED] = "1"  # test processes inherit it
    for spec in specs:
        spec.python = python


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    return ByFile(config, log)
