"""Real training on CPU, one rank and two gloo ranks, through `gpuwatch run`, then compared."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run.training_scripts import LIBRARY, SCRIPT, runs
from tests.cli.running import COMMAND, environment, gpuwatch
from tests.parts import need_torch

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _torch() -> None:
    need_torch()


def trained(folder: Path, script: str, ranks: int) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(script)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command = [sys.executable, *(launcher if ranks > 1 else []), "train.py"]
    return subprocess.run(
        [*COMMAND, "run", "--", *command],
        cwd=folder,
        env=environment(OMP_NUM_THREADS="1"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def test_one_rank_and_two_are_compared_reported_and_plotted(tmp_path: Path) -> None:
    """Document 002, lines 118 to 137 and 156 to 221: both demos, then --compare, --report and --plot."""
    for ranks in (1, 2):
        done = trained(tmp_path, SCRIPT, ranks)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") == 40
    found = runs(tmp_path, "compare")
    one, two = found["sessions"]
    assert [(each["mode"], each["world_size"]) for each in (one, two)] == [("single", 1), ("multi", 2)]
    assert (one["steps"], two["steps"]) == (40, 40)
    assert found["speedup"] == pytest.approx(one["duration_s"] / two["duration_s"])
    assert found["efficiency"] == pytest.approx(found["speedup"] / 2)
    shown = runs(tmp_path, "show", two["id"])["sessions"][0]
    assert [rank["rank"] for rank in shown["ranks"]] == [0, 1]
    assert shown["packages"]["torch"]
    assert gpuwatch("runs", "report", "--html", "r.html", cwd=tmp_path).returncode == 0
    assert "<svg" in (tmp_path / "r.html").read_text()
    assert gpuwatch("runs", "plot", cwd=tmp_path).returncode == 0


def test_the_library_writes_into_the_folder_of_the_run(tmp_path: Path) -> None:
    """Document 002, lines 223 to 231; one writer per file."""
    done = trained(tmp_path, LIBRARY, 2)
    assert done.returncode == 0, done.stderr
    (session,) = (tmp_path / "logs").glob("training_*")
    shown = runs(tmp_path, "show")["sessions"][0]
    assert shown["parts"] == ["rank_0000.json", "rank_0001.json"]
    assert (shown["model"]["name"], shown["configuration"]["lr"], shown["status"]) == (
        "linear",
        0.05,
        "completed",
    )
    assert shown["writer"].startswith("gpuwatch run")
    assert "s3cret" not in (session / f"{session.name}_summary.json").read_text()
    loss = next(curve for curve in shown["curves"] if curve["name"] == "loss")
    assert loss["points"] == 20
