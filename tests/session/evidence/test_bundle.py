"""A bundle over a real agent: what it holds, how it goes on after an end, and what it does on a full disk."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import time
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from gpuwatch.link.recording.reader import Recording
from gpuwatch.report.evidence.bundle_file import log_name, safe_name, unique_name
from gpuwatch.report.evidence.folder import folder_artifacts
from gpuwatch.report.evidence.gpu_values import GPU_VALUES
from gpuwatch.report.evidence.run import RECORDING, BundleContents, EvidenceRun, begin_bundle, recording_cut
from gpuwatch.session import Session
from gpuwatch.session.evidence.spool import Spool
from gpuwatch.session.evidence.subject import (
    EvidenceSubject,
    UnknownSubjectError,
    chosen_incident,
    of_incident,
    of_job,
)
from gpuwatch.session.replay_session import ReplaySession
from gpuwatch.tui.app import GpuwatchApp
from tests.link.recording.recordings import recorded_demo
from tests.session.evidence.live import STEPS, TOKEN, Started, live_session
from tests.session.polling import until


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with live_session(tmp_path_factory.mktemp("logs")) as session:
        yield session


@pytest.fixture
def subject(session: Session) -> EvidenceSubject:
    return of_incident(session.book.incidents[0], session.fleet)


def written(session: Session, run: EvidenceRun) -> dict[str, str]:
    """Name -> text."""

    def over() -> bool:
        run.update()
        return run.over

    until(session, over)
    with zipfile.ZipFile(run.out) as archive:
        assert {info.external_attr >> 16 for info in archive.infolist()} == {0o600}
        return {name: archive.read(name).decode("utf-8", "replace") for name in archive.namelist()}


def test_it_holds_the_lines_around_the_evidence_masked_and_harmless(
    session: Session, subject: EvidenceSubject, tmp_path: Path
) -> None:
    run = EvidenceRun(session, subject, tmp_path / "a.zip", BundleContents(cut=recording_cut(session)))
    files = written(session, run)
    with zipfile.ZipFile(run.out) as archive:
        archive.extract(RECORDING, tmp_path)
    with contextlib.closing(Recording(tmp_path / RECORDING)) as recording:
        assert list(recording.nodes.values()) == list(subject.nodes)
    (tmp_path / RECORDING).unlink()
    assert run.out.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [run.out]
    facts = json.loads(files["incident.json"])
    assert facts["incidents"][0]["class"].startswith("oom.")
    (name,) = [name for name in files if name.endswith("rank_2.log")]
    key = [line for line in files[name].splitlines() if line.startswith("> ")]
    assert any("OutOfMemoryError" in line for line in key)
    for text in [text for name, text in files.items() if name != RECORDING]:
        assert TOKEN not in text
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", text)
    assert "[masked]" in files[name]
    for name in files.keys() - {"index.md"}:
        folder = name.partition("/")[0]
        assert name in files["index.md"] or f"{folder}/" in files["index.md"]
    assert json.loads(files[f"nodes/{safe_name(subject.nodes[0])}.json"])["name"] == subject.nodes[0]


def test_whole_logs_go_on_where_an_earlier_run_ended(
    session: Session, subject: EvidenceSubject, tmp_path: Path
) -> None:
    """Document 001, line 88; document 004, line 866."""
    first = EvidenceRun(session, subject, tmp_path / "a.zip", BundleContents(whole_logs=True))
    assert first.fetch.bytes > 400_000

    def begun() -> bool:
        first.update()
        return first.fetch.fetched_bytes > 0

    until(session, begun)
    assert not first.fetch.over
    first.close(keep=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip.part"]
    with next((tmp_path / "a.zip.part").glob("*.txt")).open("a") as file:
        file.write("written, but not in the journal")
    second = EvidenceRun(session, subject, tmp_path / "a.zip", BundleContents(whole_logs=True))
    assert 0 < second.resumed_bytes < second.fetch.bytes
    files = written(session, second)
    (text,) = [files[name] for name in files if name.endswith("rank_0.log")]
    steps = re.findall(r" step (\d+) loss", text)
    assert steps == [str(step) for step in range(STEPS)]
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_what_was_fetched_of_another_source_is_not_used(tmp_path: Path) -> None:
    Spool(tmp_path / "a.part", "one").folder.joinpath("left.txt").write_text("x")
    assert (tmp_path / "a.part" / "left.txt").exists()
    assert Spool(tmp_path / "a.part", "one").folder.joinpath("left.txt").exists()
    assert not Spool(tmp_path / "a.part", "two").folder.joinpath("left.txt").exists()
    assert (tmp_path / "a.part").stat().st_mode & 0o777 == 0o700


def test_a_full_disk_leaves_nothing_under_the_final_name(
    session: Session, subject: EvidenceSubject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = EvidenceRun(session, subject, tmp_path / "a.zip")

    def full(_number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="space"):
        written(session, run)
    run.close(keep=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip.part"]


def test_an_incident_is_named_by_number_or_id_and_a_job_by_its_name(session: Session) -> None:
    incidents = session.book.incidents
    assert chosen_incident(incidents, str(incidents[0].number)) is incidents[0]
    assert chosen_incident(incidents, incidents[0].id) is incidents[0]
    with pytest.raises(UnknownSubjectError):
        chosen_incident(incidents, "99")
    with pytest.raises(UnknownSubjectError):
        of_job("no-such-job", incidents, session.fleet, 0.0)


@asynccontextmanager
async def screens(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[GpuwatchApp, Pilot[None]]]:
    """The screens over a session in a folder, once they show an incident."""
    monkeypatch.chdir(folder)
    app = GpuwatchApp(Started(session))
    app.evidence.begin = lambda incident, job, hang: begin_bundle(session, incident, job, hang)
    async with app.run_test(size=(100, 30)) as pilot:
        while app.view_state.snapshot.leading is None:
            await pilot.pause(0.02)
        yield app, pilot


async def test_the_key_writes_it_beside_the_screens(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with screens(session, tmp_path, monkeypatch) as (_, pilot):
        await pilot.press("ctrl+s")
        for _ in range(1200):
            await pilot.pause(0.05)
            if [path.suffix for path in tmp_path.iterdir()] == [".zip"]:
                break
    (made,) = tmp_path.iterdir()
    with zipfile.ZipFile(made) as archive:
        assert "index.md" in archive.namelist()


async def test_leaving_the_screens_leaves_no_half_bundle(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with screens(session, tmp_path, monkeypatch) as (app, _):
        app.action_evidence()
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_after_a_jump_in_a_recording_holds_the_values_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ReplaySession(recorded_demo().path) as replay:
        replay.go_to(replay.extent[1])
        while not replay.has_past:
            replay.poll()
        incident = replay.book.incidents[0]
        files = written(replay, begin_bundle(replay, incident, None, None, recording_cut(replay)))
        assert replay.book.incidents[0] is incident
    missing = {each["what"] for each in json.loads(files["incident.json"])["missing"]}
    first = min(row.partition(",")[0] for row in files[GPU_VALUES].splitlines()[1:])
    assert first < time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(incident.first))
    assert not any(what.startswith(GPU_VALUES) for what in missing)


@pytest.mark.parametrize("path", ["../../etc/passwd", "/a/../b", "C:\\x", "a\x1b[31mb", ".." * 200, ""])
def test_no_name_leads_out_of_the_bundle(path: str) -> None:
    taken: set[str] = set()
    first, second = log_name("..", path, taken), log_name("..", path, taken)
    assert first != second
    for name in (first, second):
        assert name.count("/") == 2
        assert not {"..", "."} & set(name.split("/"))
        assert re.fullmatch(r"[A-Za-z0-9._=@+,/-]{1,400}", name)


def test_no_entry_of_the_bundle_hides_another() -> None:
    taken: set[str] = set()
    stems = ["artifacts/tb/a_b", "artifacts/tb/a_b", "artifacts/tb/A_b", "artifacts/tb/a_b/c", "artifacts/tb"]
    names = [unique_name(stem, taken) for stem in stems]
    assert names[0] == stems[0]
    assert len({name.lower() for name in names}) == len(stems)
    for name in names:
        assert not any(other.lower().startswith(f"{name.lower()}/") for other in names)


def test_links_of_a_folder_are_not_walked_for_artifacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, folder = tmp_path / "large", tmp_path / "run"
    for number in range(5):
        (large / str(number)).mkdir(parents=True)
        (large / str(number) / "events.out.tfevents.1").write_bytes(b"x")
    folder.mkdir()
    (folder / "traces").symlink_to(large)
    (folder / "loop").symlink_to(folder)
    (folder / "events.out.tfevents.1").write_bytes(b"x")
    chosen, left_out = folder_artifacts(folder)
    assert [each.path for each in chosen] == ["events.out.tfevents.1"]
    assert left_out == []
    monkeypatch.setattr("gpuwatch.report.evidence.folder.MAX_WALKED_FILES", 3)
    chosen, left_out = folder_artifacts(large)
    assert 3 < len(chosen) + len(left_out) <= 5
    assert left_out[-1][0] == "."
    assert [path for path, _ in folder_artifacts(tmp_path / "gone")[1]] == ["."]
