"""The screens over a folder show the incidents of `gpuwatch scan` on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus.score import CORPUS, scanned
from tests.session.log_folder.folders import judged_folder

FOLDERS = sorted(
    folder for kind in ("failures", "harmless") for folder in (CORPUS / kind).iterdir() if folder.is_dir()
)


@pytest.mark.sampled(8)
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
