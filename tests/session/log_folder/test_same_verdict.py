"""The screens over a folder show the incidents of `gpuwatch scan` on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.tui.incidents.evidence_location import location_of
from tests.corpus.score import CORPUS, scanned
from tests.session.log_folder.folders import judged_folder, texts

FOLDERS = sorted(
    folder for kind in ("failures", "harmless") for folder in (CORPUS / kind).iterdir() if folder.is_dir()
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_incidents_are_those_of_a_scan(folder: Path) -> None:
    expected = scanned(folder)
    with judged_folder(folder) as session:
        book = session.book
        found = {(each.code, each.rank, each.node, each.severity) for each in book.incidents}
        outside = {each.id for each in book.alerts.values()} - {
            alert.id for each in book.incidents for alert in each.alerts
        }
    assert found == {
        (each["class"], each["rank"], each["node"], each["severity"]) for each in expected["incidents"]
    }
    assert len(outside) == len(expected["alerts"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_lines_of_incidents_can_be_opened(folder: Path) -> None:
    with judged_folder(folder) as session:
        for incident in session.book.incidents:
            if incident.cause is None or incident.cause.proof[0].file is None:
                continue
            spot = location_of(incident.cause)
            assert spot is not None and spot.node in session.fleet.nodes
            page = session.read_lines(spot.node, spot.file, offset=spot.offset, after=1)
            assert texts(session, page)
