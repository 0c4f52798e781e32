"""What the lines state about ranks is the same, whether all files are read at once or each by itself."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.excerpts.samples import sample_of
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.placement.job_ranks import merged
from gpuwatch.runs.placement.rank_census import census

CORPUS = Path(__file__).parents[2] / "corpus"
FOLDERS = sorted(each for each in (CORPUS / "failures").iterdir() if each.is_dir() and any(each.glob("*")))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_censuses_of_the_files_make_that_of_the_folder(folder: Path) -> None:
    found = gather([folder], load_packs().column_words).files
    samples = [(log.name, sample_of(log, len(found))) for log in found]
    parts = [pickle.loads(pickle.dumps(census([each]))) for each in samples]  # noqa: S301 - our own
    assert merged(parts) == census(samples)
    assert merged(reversed(parts)).ranks == census(samples).ranks
