"""A healthy run kept in a file, and later runs beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuwatch.probe.judging.checks.baseline import BaselineError, load, save
from gpuwatch.probe.judging.judge import judge
from gpuwatch.probe.results import CollectiveResult, Results
from tests.probe.judging.fabric import Fabric, through
from tests.sentences import Sentences

MIB = 1 << 20


def run(nodes: int = 4, rate: float = 24.0, busbw: float = 10.0, cv: float = 0.01) -> Results:
    """A run with links and one collective."""
    results = Fabric(nodes, rate=rate, jitter=0.01).results()
    results.torch, results.nccl = "2.13.0", None
    results.collectives = [
        CollectiveResult("all_reduce", 64 * MIB, p50_s=0.1, cv=cv, busbw_gb_per_s=busbw, correct=True)
    ]
    return results


def kept(path: Path, results: Results) -> Path:
    """Save a run."""
    save(path, results)
    return path


def test_the_same_again_is_no_regression(tmp_path: Path) -> None:
    baseline = load(kept(tmp_path / "healthy.json", run()))
    verdict = judge(run(rate=23.5, busbw=9.7), baseline)

    assert (verdict.status, verdict.alerts) == ("ok", ())


def test_a_collective_that_got_slower(tmp_path: Path, sentences: Sentences) -> None:
    verdict = judge(run(busbw=8.8), load(kept(tmp_path / "healthy.json", run())))

    assert verdict.status == "bad"
    assert verdict.culprits == ()
    sentences(verdict.sentence)
    assert verdict.alerts == (verdict.sentence,)


def test_less_than_it_varies_by_itself_is_no_regression(tmp_path: Path) -> None:
    baseline = load(kept(tmp_path / "healthy.json", run(cv=0.08)))

    assert judge(run(busbw=8.8), baseline).status == "ok"


def test_a_fabric_that_is_slow_as_a_whole_is_nobodys_fault(tmp_path: Path, sentences: Sentences) -> None:
    verdict = judge(run(rate=12.0), load(kept(tmp_path / "healthy.json", run())))

    assert (verdict.status, verdict.culprits) == ("bad", ())
    sentences(verdict.sentence)


def test_two_ranks_can_be_judged_with_a_baseline(tmp_path: Path) -> None:
    baseline = load(kept(tmp_path / "healthy.json", run(nodes=2)))

    assert judge(run(nodes=2, rate=12.0)).status == "ok"
    assert judge(run(nodes=2, rate=12.0), baseline).status == "bad"


def test_a_slow_node_is_named_beside_a_baseline_too(tmp_path: Path, sentences: Sentences) -> None:
    results, healthy = run(), run()
    for each, busbw in ((results, 5.0), (healthy, 10.0)):
        each.collectives.append(replace(each.collectives[0], op="all_gather", busbw_gb_per_s=busbw))
    results.pairs = Fabric(4).slow(through("host-1")).results().pairs
    results.collectives[0] = replace(results.collectives[0], busbw_gb_per_s=4.0)
    verdict = judge(results, load(kept(tmp_path / "healthy.json", healthy)))

    assert [each.name for each in verdict.culprits] == ["host-1"]
    sentences(verdict.alerts)


def test_other_shapes_stay_in_the_file_and_the_same_is_replaced(tmp_path: Path) -> None:
    """Document 004, line 801."""
    path = kept(tmp_path / "healthy.json", run(nodes=4, busbw=10.0))
    save(path, run(nodes=8, busbw=20.0))
    save(path, run(nodes=4, busbw=11.0))
    rows = {(each.nodes, each.what): each.gb_per_s for each in load(path).entries}

    assert rows[4, "all_reduce"] == 11.0
    assert rows[8, "all_reduce"] == 20.0
    assert len(load(path).entries) == 4


def test_another_version_is_compared_and_reported(tmp_path: Path) -> None:
    baseline = load(kept(tmp_path / "healthy.json", run()))
    newer = run(busbw=8.0)
    newer.torch = "2.15.0"
    verdict = judge(newer, baseline)

    assert verdict.status == "bad"
    assert "torch 2.13.0" in " ".join(verdict.advice)


def test_a_baseline_without_comparable_measurements_is_stated(tmp_path: Path, sentences: Sentences) -> None:
    verdict = judge(run(nodes=8), load(kept(tmp_path / "healthy.json", run(nodes=4))))

    assert verdict.status == "ok"
    sentences(" ".join(verdict.advice))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "there is no baseline"),
        ("{}", "is not a baseline of gpuwatch"),
        ("[1,", "is not a baseline of gpuwatch"),
        ('{"format": "something else", "version": 1, "entries": []}', "is not a baseline of gpuwatch"),
        ('{"format": "gpuwatch-probe-baseline", "version": 9, "entries": []}', "newer gpuwatch"),
    ],
)
def test_a_file_that_is_none_is_named_with_the_remedy(tmp_path: Path, content: str | None, why: str) -> None:
    path = tmp_path / "other.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BaselineError, match=why) as raised:
        load(path)

    assert str(path) in str(raised.value)
    if content is not None:
        with pytest.raises(BaselineError, match=why):
            save(path, run())
        assert path.read_text() == content


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="cannot be written"):
        save(tmp_path / "missing" / "healthy.json", run())
    with pytest.raises(BaselineError, match="no valid result"):
        save(tmp_path / "healthy.json", replace(run(), pairs={}, collectives=[]))

    assert list(tmp_path.iterdir()) == []
