"""Shapes on which no pattern can be tried are found together as one after another, and few are looked at."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from gpuwatch.agent.logs.matching.prefilter import Prefilter
from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.rules.compiling.compile import compiled
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.prefilter import hyperscan_database, hyperscan_prefilter, shape_finder
from gpuwatch.runs.prefilter.hyperscan_prefilter import HyperscanPrefilter
from gpuwatch.runs.prefilter.piece_prefilter import PiecePrefilter
from gpuwatch.runs.prefilter.whole_lines import is_tried
from tests.bench.log_reading.rank_logs import rank_log
from tests.corpus.score import CORPUS

PARTS = [
    b"kernel: ", b"Kernel", b"[1,2]<stdout>:", b"<4>", b"[rank3]: ", b"rank 2 and ", b"Rank=1,", b"rank\t",
    b"[   12.345678] ", b"[Mon Jun 2 10:00:00 2025] ", b"6,1234,567890,-;", b"default3]:",
    b"default ", b"node-1: ",
    b'{"msg": "', b'", "exit_code": 1}', b'", "error": {"type": "', b'"exception" : {', b'"}', b"{",
    b"\\u0041", b"\\t",
    "\u00a0".encode(), "\u0663".encode(), "█▉".encode(), b"step 3 loss 2.5", b"ERROR ", b"CUDA out of memory",
    b"NCCL timeout", b"ValueError: x", b"\r", b"\x1b[0m", b"x" * 300, b" " * 40,
    b"Traceback (most recent call last):",
]  # fmt: skip


OF_PARTS = ("oom.cuda",)
"""Rules that texts among `PARTS` lead to, whatever the others are."""
TEXTS = (b"| NVIDIA-SMI ", b"Node:   ", b"JobID")


def random_lines(seed: int, count: int) -> bytes:
    chance = random.Random(seed)
    lines = [b"".join(chance.choices(PARTS, k=chance.randrange(1, 9))) for _ in range(count)]
    return b"\n".join(lines)


def corpus(every: int) -> bytes:
    files = sorted((CORPUS / "failures").glob("*/*.log"))[::every]
    return b"\n".join(file.read_bytes()[:20_000] for file in files)


@pytest.mark.skipif(not hyperscan_database.installed(), reason="the extra hyperscan is not installed")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_shapes_that_are_not_tried_are_those_of_each_line_alone(
    seed: int, fast: HyperscanPrefilter
) -> None:
    prefilter = Prefilter(RuleSet([]))
    shapes = list(prefilter.distinct(prefilter.unbroken(random_lines(seed, 3000) + b"\n" + corpus(30))))
    refused = {shape for shape in shapes if not is_tried(shape, shape.lower())}
    assert 100 < len(refused) < len(shapes)
    assert fast._search is not None
    assert fast._search.found_in(shapes).refused == refused


def led_to(prefilter: Prefilter, data: bytes) -> set[tuple[int, str]]:
    hits = prefilter.hits(data)
    return {(data.count(b"\n", 0, at), rule.id) for at, phrase in hits for rule in phrase.rules}


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> HyperscanPrefilter:
    """A prefilter with the database of some rules."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patched.setattr(hyperscan_prefilter, "MANY_BYTES", 0)
        patched.setattr(hyperscan_prefilter, "WORTH_BYTES", 0)
        every = load_packs().all
        few = [each for at, each in enumerate(every) if at % 12 == 0 or each.id in OF_PARTS]
        prefilter = HyperscanPrefilter(RuleSet(compiled(few)), (TEXTS,))
        prefilter.prepare()
    return prefilter


@pytest.mark.skipif(not hyperscan_database.installed(), reason="the extra hyperscan is not installed")
def test_random_lines_lead_to_the_same_rules_with_hyperscan(fast: HyperscanPrefilter) -> None:
    few = fast._ruleset
    for seed in range(3):
        data = random_lines(seed, 2000).replace(b"\r", b"\n")
        found = led_to(fast, data)
        assert len(found) > 20
        assert found == led_to(PiecePrefilter(few), data)


@pytest.mark.skipif(not hyperscan_database.installed(), reason="the extra hyperscan is not installed")
def test_few_lines_are_looked_at_one_by_one_with_hyperscan(
    fast: HyperscanPrefilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = "".join(islice(rank_log(3), 6000)).encode()
    looked: list[bytes] = []

    def counted(shape: bytes, lowered: bytes) -> bool:
        looked.append(shape)
        return is_tried(shape, lowered)

    monkeypatch.setattr(shape_finder, "is_tried", counted)
    fast.hits(data)
    assert len(set(fast.shapes(data))) > 2000
    assert len(looked) < 100


@pytest.mark.skipif(not hyperscan_database.installed(), reason="the extra hyperscan is not installed")
def test_marks_are_found_with_and_without_a_database(fast: HyperscanPrefilter) -> None:
    by_shapes = PiecePrefilter(fast._ruleset).finder_of(TEXTS)
    by_database = fast.finder_of(TEXTS)
    for data in (
        b"step 1\nJobId=3\n",
        b"a JobID 7\n",
        b"Node:  x\n",
        b"\rNode:   x\n",
        b"| NVIDIA-SMI 550",
        b'{"log": "\\tNode:   x"}\n',
        b"",
    ):
        for _ in range(2):  # its shapes are new, and known
            held = any(text in data for text in TEXTS)
            assert by_shapes(data) == by_database(data) == held
            assert not (held and fast.surely_lacks(data, TEXTS))
            fast.hits(data)
    assert fast.surely_lacks(b"a JobI 7\nNode 3", TEXTS)


@pytest.mark.skipif(not hyperscan_database.installed(), reason="the extra hyperscan is not installed")
def test_marks_are_found_again_after_the_shapes_were_forgotten(fast: HyperscanPrefilter) -> None:
    data = b"step 1\nJobID 3\n"
    for _ in range(2):
        assert not fast.surely_lacks(data, TEXTS)
        fast.hits(data)
        fast._forget()
        fast.hits(data)
