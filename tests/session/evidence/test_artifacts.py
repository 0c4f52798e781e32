"""Artifacts beside the logs of a live job: listed and fetched through the agent, resumed, masked."""

from __future__ import annotations

import base64
import gzip
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from gpuwatch.fleet.pending_request import Asked
from gpuwatch.link.recording.tee import AnswerItem
from gpuwatch.report.evidence.run import BundleContents, EvidenceRun
from gpuwatch.session import Session
from gpuwatch.session.evidence.artifact_fetch import GZIP, MAX_PIECE_BYTES, ArtifactFetch
from gpuwatch.session.evidence.artifact_listing import ArtifactChoice, ArtifactListing, ArtifactRequests
from gpuwatch.session.evidence.artifacts import WANTED, artifact_kind
from gpuwatch.session.evidence.spool import Spool
from gpuwatch.session.evidence.subject import EvidenceSubject, of_incident
from gpuwatch.wire import unpacked
from tests.session.evidence.live import TOKEN, live_session
from tests.session.polling import until

TRACE = os.urandom(700_000)
"""Three pieces."""
TAKEN = {
    "config.yaml": f"model:\n  hf_token: {TOKEN}\n".encode(),
    "tensorboard/events.out.tfevents.1": b"\0\1",
    "profiler/rank_0.pt.trace.json": TRACE,
    "telemetry/empty.jsonl": b"",
}
LEFT = {"model.safetensors": b"\0", "train.py": b"import os\n", ".cache/profiler/x.json": b"{}"}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    run = tmp_path_factory.mktemp("job") / "run"
    for name, data in {**TAKEN, **LEFT}.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(data)
    (run / "private.yaml").symlink_to("/etc/hostname")
    (run / "logs").mkdir()
    with live_session(run / "logs") as session:
        yield session


@pytest.fixture
def subject(session: Session) -> EvidenceSubject:
    return of_incident(session.book.incidents[0], session.fleet)


def chosen(session: Session, subject: EvidenceSubject) -> ArtifactChoice:
    listing = ArtifactListing(session, subject)
    until(session, lambda: listing.over)
    return listing.choice()


def test_they_come_into_the_bundle_masked_and_not_into_the_recording(
    session: Session, subject: EvidenceSubject, tmp_path: Path
) -> None:
    """Document 001, line 88."""
    choice = chosen(session, subject)
    assert choice.bytes == sum(map(len, TAKEN.values()))
    run = EvidenceRun(session, subject, tmp_path / "a.zip", BundleContents(artifacts=choice))

    def over() -> bool:
        run.update()
        return run.over

    until(session, over)
    with zipfile.ZipFile(run.out) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    (node,) = subject.nodes
    held = {name.removeprefix(f"artifacts/{node}/"): files[name] for name in files if name.startswith("art")}
    assert held == {**TAKEN, "config.yaml": b"model:\n  hf_token: [masked]\n"}
    assert not [what for what, _ in run.troubles if "artifact" in what or "run/" in what]
    assert b"rank_0.pt.trace.json" in files["index.md"]
    assert session.tee is not None
    answers = [item for item in session.tee.ring() if isinstance(item, AnswerItem)]
    assert sum(len(item.data) for item in answers) < len(TRACE)


def test_an_ended_fetch_goes_on_where_it_was(
    session: Session, subject: EvidenceSubject, tmp_path: Path
) -> None:
    found = [each for each in chosen(session, subject).artifacts if each.artifact.size == len(TRACE)]
    spool = Spool(tmp_path / "a.part", "one")
    first = ArtifactFetch(session, found, spool)

    def begun() -> bool:
        first.update()
        return first.fetched_bytes > 0

    until(session, begun)
    assert not first.over
    second = ArtifactFetch(session, found, Spool(tmp_path / "a.part", "one"))
    assert second.fetched_bytes == first.fetched_bytes

    def over() -> bool:
        second.update()
        return second.over

    until(session, over)
    assert second.files[0].trouble is None
    assert second.files[0].spooled.path.read_bytes() == TRACE


def test_a_file_that_was_rewritten_or_is_gone_is_left_out(
    session: Session, subject: EvidenceSubject, tmp_path: Path
) -> None:
    found = [each for each in chosen(session, subject).artifacts if each.artifact.kind == "tensorboard"]
    gone = found[0]._replace(artifact=found[0].artifact._replace(path="tensorboard/other"))
    other = found[0]._replace(mtime=found[0].mtime - 60)
    fetch = ArtifactFetch(session, [gone, other], Spool(tmp_path / "a.part", "one"))

    def over() -> bool:
        fetch.update()
        return fetch.over

    until(session, over)
    assert all(file.trouble for file in fetch.files)


@pytest.mark.parametrize("now", [0.5, 100.25, 9_000.75, 17_000.5, 40_000.25, 1.0e6])
def test_the_first_piece_is_requested_at_once(
    session: Session, subject: EvidenceSubject, tmp_path: Path, now: float
) -> None:
    """Whatever the clock of the machine shows: the distance of two rounded times may be below the pace."""
    found = [each for each in chosen(session, subject).artifacts if each.artifact.kind == "tensorboard"]
    asked: list[tuple[object, ...]] = []

    class Requests:
        def ask_job_piece(self, *wanted: object) -> Asked:
            asked.append(wanted)
            return Asked("n1", 1)

    requests = cast("ArtifactRequests", Requests())
    ArtifactFetch(requests, found, Spool(tmp_path / "a.part", "one"), lambda: now).update()
    assert len(asked) == 1


def test_a_piece_that_unpacks_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="large"):
        unpacked(base64.b64encode(gzip.compress(b"\0" * (9 << 20))).decode(), MAX_PIECE_BYTES, GZIP)


@pytest.mark.parametrize("path", [*TAKEN, "a/b/lightning_logs/v/x", "conf/a.TOML", "x/nccl_trace_rank_3"])
def test_the_pattern_of_the_request_matches_every_artifact(path: str) -> None:
    assert artifact_kind(path, 1) is not None
    assert re.search(WANTED, path, re.IGNORECASE)
