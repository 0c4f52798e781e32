"""Files whose paths differ in numbers only."""

import string
from pathlib import Path

import pytest

from gpuwatch.runs.placement.file_siblings import sibling_numbers
from tests.corpus.score import scanned
from tests.runs.placement.culprits import OOM


@pytest.mark.parametrize(
    ("form", "ranks"),
    [
        ("{n}/stdout", [0, 1, 2, 3]),
        ("{n}-gn0{n}.out", None),
        ("job-4711-{n}.err", [0, 1, 2, 3]),
        ("70_driver_log_{n}.txt", [0, 1, 2, 3]),
        ("train_{n:03}_of_4.txt", [0, 1, 2, 3]),
        ("node{i}/local{l}.err", [0, 1, 2, 3]),
        ("n{i}_l{l}.log", [0, 1, 2, 3]),
        ("fold{n}.log", None),
        ("seed_{n}.log", None),
        ("k{i}-{l}.log", None),
    ],
)
def test_the_number_that_counts_all_files_is_their_rank(form: str, ranks: list[int] | None) -> None:
    files = [form.format(n=n, i=n // 2, l=n % 2) for n in range(4)]
    found = [numbers for _, numbers, _ in sibling_numbers(files)]
    assert found == ([] if ranks is None else [dict(zip(files, ranks, strict=True))])


@pytest.mark.parametrize("mark", [*string.punctuation.replace("/", ""), "\u0663", "\u00b2", "\n", "\x01"])
def test_any_character_may_stand_where_another_file_has_a_number(tmp_path: Path, mark: str) -> None:
    for name in (
        f"run{mark}.log",
        "run2.log",
        f"run{mark}3.log",
        f"a{mark}{mark}1/x.log",
        f"{mark}/{mark}0.err",
        f"node-{mark}/x.log",
        "node-7/x.log",
    ):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(OOM + "\n")
    assert scanned(tmp_path)["incidents"][0]["class"] == "oom.cuda"
    assert all(numbers for _, numbers, _ in sibling_numbers([f"job {mark}{n}/rank.log" for n in range(4)]))


def test_numbers_of_hosts_are_no_ranks_unless_the_job_has_as_many(tmp_path: Path) -> None:
    for n in range(4):
        steps = "".join(f"step {step}/900 loss 2.{step}\n" for step in range(10))
        (tmp_path / f"gn{n:02}.log").write_text(steps + (OOM + "\n") * (n == 2))
    assert scanned(tmp_path)["incidents"][0]["rank"] is None
    (tmp_path / "launch.txt").write_text("WORLD_SIZE=4\n")
    assert scanned(tmp_path)["incidents"][0]["rank"] == 2


@pytest.mark.parametrize(("others", "rank"), [(9, 2), (40, None)])
def test_numbered_files_are_ranks_of_one_job_if_they_end_together(
    tmp_path: Path, others: int, rank: int | None
) -> None:
    for n in range(4):
        steps = range(10 if n == 2 else others + 1)
        text = "".join(f"step {step}/900 loss 2.{step}\n" for step in steps) + (OOM + "\n") * (n == 2)
        (tmp_path / f"{n}.log").write_text(text)
    assert scanned(tmp_path)["incidents"][0]["rank"] == rank
