"""Real torchrun jobs over gloo that fail in other ways, judged afterwards from the logs that they left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from gpuwatch.diagnose.incident import Incident
from gpuwatch.report.scan import judged
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files import gather
from gpuwatch.runs.scan import scan
from tests.end_to_end.cluster import ROOT
from tests.parts import need_module

JOB = Path(__file__).with_name("gloo_job.py")
RANKS, WHOM, TIMEOUT_S = 4, 2, 6


def ended(logs: Path, how: str, **variables: str) -> list[Incident]:
    """Run the job to its end and scan what it left."""
    need_module("torch", "pip install torch (the CPU build is enough)")
    argv = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    argv += ["--log-dir", str(logs), "-r", "3", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    argv += [str(JOB), how, str(WHOM), str(TIMEOUT_S)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    with (logs / "launcher.log").open("wb") as words:
        done = subprocess.run(argv, stdout=words, stderr=words, env=env, cwd=ROOT, check=False, timeout=100)
    assert done.returncode != 0
    packs = load_packs()
    return list(judged(scan(gather([logs]), packs.rules, cores=1), packs, time.time(), 0.0).incidents)


def test_a_rank_that_does_another_collective_is_named_by_the_others(tmp_path: Path) -> None:
    (incident,) = ended(tmp_path, "mismatch", TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert (incident.code, incident.rank) == ("c10d.collective_mismatch", WHOM)
    assert incident.followers == RANKS - 1


def test_all_ranks_that_raise_the_same_are_not_blamed_on_one(tmp_path: Path) -> None:
    (incident,) = ended(tmp_path, "all")
    assert incident.code == "rank.exit_error"
    assert "ValueError: sample 4711 has no label, from KeyError" in incident.sentence
    assert "3 ranks raised an exception too" in incident.sentence
    assert incident.confidence != "high"


def test_who_leaves_without_a_word_is_named(tmp_path: Path) -> None:
    (incident,) = ended(tmp_path, "left")
    assert (incident.code, incident.rank) == ("unknown", WHOM)
    assert incident.followers == RANKS - 1
