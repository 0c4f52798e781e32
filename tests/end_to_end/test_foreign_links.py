"""No file of the person is written to or read through another user's link."""

from __future__ import annotations

import ast
import os
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from gpuwatch.cli.main import main
from gpuwatch.cli.probe.outputs import put
from gpuwatch.cli.shared.output import OutputError, write_output
from gpuwatch.link.recording.reader import Recording
from gpuwatch.report.evidence.bundle_file import BundleFile
from gpuwatch.report.evidence.folder import FolderBundle, folder_artifacts
from gpuwatch.report.evidence.log_files import binary_pieces, masked_text
from gpuwatch.report.recording.tables import TABLES, TablesError, write_tables
from gpuwatch.whole_file import open_in_place, own_target, write_whole
from tests.cli.running import gpuwatch
from tests.link.recording.recordings import recorded_demo
from tests.runs.sessions.written import MAIN, MULTI, PERFORMANCE, write_session

ROOT = Path(__file__).parents[2]
OTHER_USER = 65_534
WRITERS = {
    "whole_file.py": "the home of writing safely",
    "agent": "runs on the nodes, without the rest",
    "telemetry": "runs in the training, without the rest",
    "diagnose/hang/flight_recorder/isolated.py": "a private temporary folder",
    "link/kube/log_copy.py": "a private temporary folder",
    "session/hang/dump_transfer.py": "a private temporary folder",
}
"""What may open a file for writing itself."""


def opened_for_writing(tree: ast.AST) -> Iterator[int]:
    """Lines that write a file by its name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
        modes = {each for each in texts if isinstance(each, str) and set(each) <= set("wabt+")} - {""}
        on_path = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") != "os"
        if name in {"write_text", "write_bytes"} or (name == "open" and on_path and modes):
            yield node.lineno


def test_files_are_written_in_one_place() -> None:
    found = set()
    for file in (ROOT / "gpuwatch").rglob("*.py"):
        place, text = file.relative_to(ROOT / "gpuwatch").as_posix(), file.read_text()
        known = place.startswith(tuple(WRITERS)) or "archive.open" in text
        if not known and ("open(" in text or ".write_" in text):
            found |= {f"{place}:{line}" for line in opened_for_writing(ast.parse(text))}
    assert found == set(), "open_in_place, write_whole or replaced_whole of gpuwatch.whole_file write a file"


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder of another user, who has put links to the person's files into it."""
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's link")
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


def plant(shared: Path, name: str) -> Path:
    """Another user's link of this name; returns the file of the person to which it leads."""
    victim = shared.parent / f"own {name}"
    victim.write_text("own")
    (shared / name).unlink(missing_ok=True)
    (shared / name).symlink_to(victim)
    os.lchown(shared / name, OTHER_USER, OTHER_USER)
    return victim


def test_no_writer_follows_another_users_link(shared: Path) -> None:
    victim = plant(shared, "a")
    with pytest.raises(OSError, match="another user"):
        own_target(shared / "a")
    with pytest.raises(OSError, match="another user"):
        open_in_place(shared / "a")
    with pytest.raises(OutputError):
        write_output(shared / "a", b"x")
    with pytest.raises(OutputError):
        put(str(shared / "a"), "x")
    write_whole(shared / "a", b"x")
    assert (victim.read_text(), (shared / "a").read_bytes()) == ("own", b"x")
    (shared / "gone").symlink_to(shared.parent / "new")
    os.lchown(shared / "gone", OTHER_USER, OTHER_USER)
    with pytest.raises(OutputError):
        write_output(shared / "gone", b"x")
    assert not (shared.parent / "new").exists()


def test_a_link_of_the_persons_own_is_followed(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("old")
    (tmp_path / "link").symlink_to("report")
    write_output(tmp_path / "link", b"one")
    assert (tmp_path / "report").read_bytes() == b"one"
    put(str(tmp_path / "link"), "2")
    assert (tmp_path / "report").read_bytes() == b"2"
    assert (tmp_path / "link").is_symlink()


@pytest.mark.long
def test_no_table_is_written_through_a_link(shared: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")
    planted = [name for table in TABLES for name in (f".{table}.parquet.part", f"{table}.parquet")]
    victims = [plant(shared, name) for name in planted]
    with closing(Recording(recorded_demo().path)) as recording:
        write_tables(recording, shared)
    assert {each.read_text() for each in victims} == {"own"}
    assert not any((shared / f"{table}.parquet").is_symlink() for table in TABLES)


def test_no_table_is_written_into_a_folder_behind_a_link(shared: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")
    own = shared.parent / "own"
    own.mkdir()
    (shared / "tables").symlink_to(own)
    os.lchown(shared / "tables", OTHER_USER, OTHER_USER)
    with (
        closing(Recording(recorded_demo().path)) as recording,
        pytest.raises(TablesError, match="another user"),
    ):
        write_tables(recording, shared / "tables")
    assert not list(own.iterdir())


def test_no_command_writes_through_a_link(
    shared: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    write_session(shared.parent / "logs", MULTI, None, main=MAIN, performance=PERFORMANCE)
    monkeypatch.chdir(shared.parent)
    for name, *words in (
        ("r.html", "runs", "report", "--html"),
        ("r.md", "runs", "report", "--markdown"),
        ("p.svg", "runs", "plot", "-o"),
    ):
        victim = plant(shared, name)
        monkeypatch.setattr(sys, "argv", ["gpuwatch", *words, str(shared / name)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert victim.read_text() == "own", words
        assert ended.value.code == 74, (words, capfdbinary.readouterr())
    victim = plant(shared, "o.jsonl")
    assert gpuwatch("run", "--output", str(shared / "o.jsonl"), "--", "true").returncode == 2
    assert victim.read_text() == "own"


def test_no_artifact_is_read_through_what_was_swapped_in_after_the_listing(tmp_path: Path) -> None:
    from gpuwatch.cli.analysis.evidence_folder import scanned  # noqa: PLC0415 - it loads the rules

    job, private = tmp_path / "job", tmp_path / "private"
    names = ("tensorboard/events.out.tfevents.1", "traces/a.trace", "telemetry/s.jsonl", "conf/c.yaml")
    for name in names:
        for top in (job, private):
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text("SECRET" if top == private else "mine")
    (job / "rank_0.log").write_text("step 1 loss 2.0\n")
    bundle = FolderBundle(job, scanned(job), (), whole_logs=False)
    bundle.artifacts, bundle.missing = folder_artifacts(job)
    assert len(bundle.artifacts) == 4
    swapped = job / "tensorboard" / "events.out.tfevents.1"
    swapped.unlink()
    swapped.symlink_to(private / "tensorboard" / "events.out.tfevents.1")
    (job / "telemetry" / "s.jsonl").unlink()
    os.mkfifo(job / "telemetry" / "s.jsonl")
    for folder in ("traces", "conf"):
        (job / folder).rename(tmp_path / f"old {folder}")
        (job / folder).symlink_to(private / folder)
    for _ in bundle.steps(BundleFile(tmp_path / "out.zip")):
        pass
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert not [each for each in archive.namelist() if b"SECRET" in archive.read(each)]
    assert {name for name, _ in bundle.missing} >= {each.path for each in bundle.artifacts}
    for each in bundle.artifacts:
        for pieces in (masked_text(job, each.path), binary_pieces(job, each.path, 100)):
            with suppress(OSError):
                assert list(pieces) == []
