"""The same failure, as launchers, loggers, collectors and terminals write it, stays the same finding."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gpuwatch.runs.files.packing import Contents, packing_of
from tests.corpus.excerpts import read
from tests.corpus.rewritings import REWRITINGS, Judge

LEAST = 0.99
"""Share of the pairs of excerpt and rewriting that keep their class and rank, of each rewriting."""
MIN_EXCERPTS = 120


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge()


def test_there_are_excerpts_of_all_major_families() -> None:
    labels = [excerpt.label for excerpt in read("failures")]
    assert len(labels) >= MIN_EXCERPTS
    families = {label.partition(".")[0] for label in labels}
    assert families >= {
        "nccl", "c10d", "rdma", "gloo", "elastic", "launch", "rank", "oom", "gpu", "pcie", "kernel",
        "storage", "net", "ckpt", "data", "num", "code", "cuda", "ddp", "env", "hub", "host",
        "slurm", "mpi", "horovod", "ray", "amd", "proc", "python",
    }  # fmt: skip


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", [way.name for way in REWRITINGS])
def test_a_finding_survives_the_rewriting(name: str, judge: Judge) -> None:
    way = next(each for each in REWRITINGS if each.name == name)
    figure = judge.figure(way)
    print(f"{way.name}: {figure.survived} of {figure.pairs} ({figure.share:.2%})")
    assert figure.pairs, "nothing was rewritten"
    assert figure.share >= LEAST, figure.lost


def test_no_rewriting_makes_trouble_of_healthy_lines() -> None:
    assert [(way.name, label, rule) for way, label, rule in Judge().false_alarms()] == []


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_utf_16_file_is_read_as_text_also_when_it_is_packed(tmp_path: Path, encoding: str) -> None:
    text = "step 5 · loss 2.1\nlinea ñandú\n" * 40_000
    data = ("\ufeff" + text).encode(encoding)
    plain, packed = tmp_path / "a.log", tmp_path / "a.log.gz"
    plain.write_bytes(data)
    packed.write_bytes(gzip.compress(data))
    for file in (plain, packed):
        contents = Contents(file, packing_of(file.read_bytes()[:8]))
        assert b"".join(contents.pieces()).decode() == text
