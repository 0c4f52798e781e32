"""Tables of metrics (CSV, TSV) as logs: steps, NaN and ranks are read; tables of other data are not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import alone

COLUMNS = ("step", "loss", "lr", "grad_norm")


def table(rows: list[tuple[Any, ...]], columns: tuple[Any, ...] = COLUMNS, delimiter: str = ",") -> str:
    """The text of a table."""
    return "".join(delimiter.join(map(str, row)) + "\n" for row in [columns, *rows])


def losses(count: int, nan_from: int | None = None) -> list[tuple[Any, ...]]:
    """Rows of `COLUMNS`."""
    return [
        (step, "nan" if nan_from is not None and step >= nan_from else 3 - step / 200, 1e-4, 0.5)
        for step in range(count)
    ]


def scanned(path: Path) -> tuple[int, dict[str, Any]]:
    """Exit status and report."""
    done = alone("scan", "--json", str(path))
    return done.returncode, json.loads(done.stdout) if done.stdout else {}


def codes(facts: dict[str, Any]) -> set[str]:
    """Classes of the incidents."""
    return {each["class"] for each in facts["incidents"]}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "columns", "delimiter"),
    [
        ("metrics.csv", COLUMNS, ","),
        ("metrics.tsv", ("iteration", "train/loss", "learning_rate", "grad norm"), "\t"),
        ("results.csv", ("epoch", "train_box_loss", "lr", "val/loss"), ";"),
        ("metrics.csv.gz", ("Step", "Loss/train", "LR", "gnorm"), ","),
    ],
)
def test_a_nan_in_a_table_is_the_incident_that_it_is_in_a_log(
    tmp_path: Path, name: str, columns: tuple[str, ...], delimiter: str
) -> None:
    text = table(losses(80, 40), columns, delimiter).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    status, facts = scanned(tmp_path)
    assert (status, codes(facts)) == (1, {"num.nan_loss"})
    proof = facts["incidents"][0]["evidence"][0]
    assert (Path(proof["file"]).name, proof["line"]) == (name, 42)


def test_a_rank_that_ends_early_is_found_by_the_column_of_ranks_and_dated_by_that_of_times(
    tmp_path: Path,
) -> None:
    rows = [
        (1763841600 + step, rank, step, 2.5, 600)
        for step in range(300)
        for rank in range(4)
        if rank != 2 or step <= 220
    ]
    (tmp_path / "run.csv").write_text(table(rows, ("timestamp", "rank", "iter", "loss", "total_steps")))
    status, facts = scanned(tmp_path)
    assert status == 1
    assert facts["outcome"]["behind"] == [2]
    assert {each["rank"]: each["at"] for each in facts["outcome"]["ranks"]}[2] == 1763841820


def test_a_table_beside_a_log_that_finished_changes_nothing(tmp_path: Path) -> None:
    steps = "".join(f"step {step}/300 loss {3 - step / 200:.3f}\n" for step in range(1, 301))
    (tmp_path / "rank0.log").write_text(steps)
    (tmp_path / "metrics.csv").write_text(table(losses(251)[::50]))
    status, facts = scanned(tmp_path)
    assert (status, facts["outcome"]["state"], facts["outcome"]["step"]) == (0, "finished", 300)
    assert len(facts["files"]) == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "text",
    [
        table([(n, "a text", 1) for n in range(50)], ("id", "text", "label")),
        table([(n, 0.5, 1) for n in range(50)], ("x", "loss", "lr")),
        table([(n, 0.5) for n in range(50)], ("step", "accuracy")),
        table([(n, 0.5, 2) for n in range(50)], (0, 0.5, 2)),
    ],
)
def test_a_table_of_other_data_is_data_and_never_healthy(tmp_path: Path, text: str) -> None:
    (tmp_path / "data.csv").write_text(text)
    done = alone("scan", str(tmp_path))
    assert (done.returncode, "1 data" in done.stderr, done.stdout) == (2, True, "")


def test_a_table_of_numbers_that_is_named_itself_is_no_healthy_log(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(table([(n, n) for n in range(50)], ("x", "y")))
    assert scanned(tmp_path / "data.csv") == (2, {})
