"""Which files a search for ended jobs takes for logs, by their names."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gpuwatch.agent.base.user_rights import UserRights
from gpuwatch.agent.logs.discovery.walk import Walk

LOGS = (
    "a.log", "out.rank0", "rank_3", "train.log.old", "slurm-12_3", "stdout.rank1", "console", "node1.err",
    "worker-3", "nohup.out", "run_log", "job.o4711",
)  # fmt: skip
OTHERS = (
    "train.py", "rank0.pt", "worker.yaml", "out.csv", "rank_0.safetensors", "training_args.bin", "train.json",
    "model.rank0.ckpt", "output.tar.gz", "log.h", "task.md", "trainer_state",
)  # fmt: skip


def test_logs_are_found_by_an_ending_or_a_word_of_their_names(tmp_path: Path) -> None:
    unfinished = tmp_path / "gpuwatch-evidence-20261128-130408.zip.part"
    unfinished.mkdir()
    (unfinished / "rank_85.log").write_text("step 1 loss 2.0\n")
    for name in (*LOGS, *OTHERS):
        (tmp_path / name).write_text("step 1 loss 2.0\n")
    walk = Walk([(str(tmp_path), UserRights(os.geteuid()))], time.time(), lambda _: None, lambda _: False)
    for _ in walk.steps():
        pass
    assert {Path(each.path).name for each in walk.found} == set(LOGS)
