"""A log that something else replaces while a command reads it: stated by name, no fault and no wait."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpuwatch.cli.main import main
from gpuwatch.cli.shared import exit_codes
from gpuwatch.rules.load import load_packs
from tests.runs.flight.writing import write as write_dump

RUN_S = 60
MAX_OPENS = 40
HOLE = 1 << 40
LOADED = (
    "gpuwatch.diagnose.hang.flight_recorder.verdict",
    "gpuwatch.report.hang.flight",
    "gpuwatch.report.output.masked",
    "gpuwatch.report.scan.report",
    "gpuwatch.report.scan.text",
    "gpuwatch.runs.flight.dump_files",
    "gpuwatch.runs.scan.scan",
)
STEPS = "".join(f"2026-03-01 10:00:{at:02} step {at} loss 2.5 lr 0.001\n" for at in range(40))
OOM = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


def named_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def nothing(path: Path) -> None:
    path.unlink()


def with_a_hole(path: Path) -> None:
    os.truncate(path, HOLE)


class Ended(NamedTuple):
    """A run of the command."""

    status: int | None
    """None: it did not end."""
    out: str
    err: str
    opens: int
    """Of the file, as far as the run came."""


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """What the commands need, once for all processes that are forked; some may not read our modules."""
    load_packs()
    for module in LOADED:
        import_module(module)


def replaced(
    file: Path, arguments: list[str], opening: int, replace: Callable[[Path], None], folder: Path
) -> Ended:
    """Run the command in its own process; just before that opening of the file, it is replaced."""
    run = multiprocessing.get_context("fork").Process(
        target=_run, args=(file, arguments, opening, replace, folder)
    )
    run.start()
    run.join(RUN_S)
    if run.is_alive():
        run.kill()
        run.join()
        return Ended(None, "", "", 0)
    out, err, opens = ((folder / name).read_text() for name in ("out", "err", "opens"))
    return Ended(run.exitcode, out, err, len(opens))


def _run(
    file: Path, arguments: list[str], opening: int, replace: Callable[[Path], None], folder: Path
) -> None:
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    opens = os.open(folder / "opens", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def look(event: str, values: tuple[Any, ...]) -> None:
        if event == "open" and values[0] in (str(file), file):
            os.write(opens, b".")
            if os.fstat(opens).st_size == opening:
                replace(file)

    sys.addaudithook(look)
    sys.argv = ["gpuwatch", *arguments]
    try:
        main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def every_opening(
    file: Path, arguments: list[str], replace: Callable[[Path], None], folder: Path
) -> Iterator[Ended]:
    """One run for each time that the file is opened, replaced just before."""
    folder.mkdir(exist_ok=True)
    kept = folder / "kept"
    shutil.copy2(file, kept)
    for opening in range(1, MAX_OPENS):
        yield (run := replaced(file, arguments, opening, replace, folder))
        if file.is_symlink() or not file.is_dir():
            file.unlink(missing_ok=True)
        else:
            file.rmdir()
        shutil.copy2(kept, file)
        if run.opens < opening:
            return
    pytest.fail("the file is opened without end")


def plain_log(folder: Path) -> Path:
    file = folder / "rank1.log"
    file.write_text(STEPS + OOM)
    return file


def packed_log(folder: Path) -> Path:
    file = folder / "rank1.log.gz"
    file.write_bytes(gzip.compress((STEPS + OOM).encode()))
    return file


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("write", "replace"),
    [(plain_log, named_pipe), (plain_log, device), (plain_log, folder), (packed_log, nothing)],
)
def test_scan_names_a_log_that_is_replaced_at_any_of_its_readings(
    tmp_path: Path, write: Callable[[Path], Path], replace: Callable[[Path], None]
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    file = write(logs)
    runs = list(every_opening(file, ["scan", "--json", str(logs)], replace, tmp_path / "run"))
    assert len(runs) > 3
    for run in runs:
        assert run.status in (exit_codes.UNHEALTHY, exit_codes.USAGE), run
        if run.status == exit_codes.UNHEALTHY:
            facts = json.loads(run.out)
            assert facts["incidents"] or any(each["trouble"] for each in facts["files"]), run
        else:
            assert file.name in run.err, run


@pytest.mark.sampled(1)
@pytest.mark.parametrize("write", [plain_log, packed_log])
def test_scan_reads_what_is_stored_of_a_log_that_gets_a_hole_of_a_terabyte(
    tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    file = write(logs)
    runs = list(every_opening(file, ["scan", "--json", str(logs)], with_a_hole, tmp_path / "run"))
    for run in runs:
        assert run.status == exit_codes.UNHEALTHY, run
        assert json.loads(run.out)["incidents"], run


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["scan", "{0}"], exit_codes.UNHEALTHY), (["scan", "{0}/closed/rank2.log"], exit_codes.USAGE)]
    + [([command, "{0}/" + "x" * 300], exit_codes.USAGE) for command in ("scan", "flight")],
)
def test_a_folder_that_may_be_listed_and_not_entered_is_named(arguments: list[str], status: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        plain_log(folder)
        closed = folder / "closed"
        closed.mkdir()
        (closed / "rank2.log").write_text(STEPS)
        (closed / "inner").mkdir()
        closed.chmod(0o744 if os.geteuid() == 0 else 0o600)
        written = folder / "run"
        written.mkdir()
        run = multiprocessing.get_context("fork").Process(
            target=_as_nobody, args=([each.format(folder) for each in arguments], written)
        )
        run.start()
        run.join(RUN_S)
        closed.chmod(0o700)
        said = (written / "err").read_text()
        assert run.exitcode == status, said
        assert "closed" in said or "xxx" in said


def _as_nobody(arguments: list[str], written: Path) -> None:
    streams = [os.open(written / name, os.O_WRONLY | os.O_CREAT) for name in ("out", "err")]
    for number, stream in zip((1, 2), streams, strict=True):
        os.dup2(stream, number)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    if os.geteuid() == 0:
        os.setuid(65534)
    sys.argv = ["gpuwatch", *arguments]
    try:
        main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


@pytest.mark.parametrize("replace", [named_pipe, folder, with_a_hole])
def test_flight_names_a_dump_that_is_replaced_at_any_of_its_readings(
    tmp_path: Path, replace: Callable[[Path], None]
) -> None:
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    first, _ = write_dump(dumps, 0), write_dump(dumps, 1)
    runs = list(every_opening(first, ["flight", "--json", str(dumps)], replace, tmp_path / "run"))
    assert len(runs) > 1
    for run in runs[:-1]:
        assert run.status == exit_codes.UNHEALTHY, run
        assert replace is with_a_hole or first.name in run.out, run
