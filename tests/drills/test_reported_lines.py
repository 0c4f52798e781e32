"""What lines tell of themselves: times of copied logs, ranks in lines of others, the reason of an end."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.link.start.log_settings import VARIABLE
from gpuwatch.session import Session
from tests.drills.jobs import StartJob, end
from tests.drills.namespaces import Cluster
from tests.end_to_end.cluster import watch
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT

RAISED = """Traceback (most recent call last):
  File "train.py", line 8, in <module>
    mask = batch["mask"]
KeyError: 'mask'
"""
BAR = """do
for done in range(1, 60):
    sys.stderr.write("\\rEpoch 3:  %d%%|###   | %d/100 [00:09<99:00, 1.9it/s, loss=2.5]" % (done, done))
    if done % 4 == 0:
        sys.stderr.write("[rank1]: moved 7 samples to bucket 5\\n")
    sys.stderr.flush()
    time.sleep(0.02)
line("step 900/1000 loss 2.5")"""
PREEMPTED = """print
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT {at} DUE TO PREEMPTION ***
asyncio.exceptions.CancelledError: the training task was cancelled"""


def test_copied_logs_tell_the_time_of_their_lines(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They ended three days ago; their files were written a moment ago, all at once."""
    monkeypatch.setenv(VARIABLE, "on")
    dated, undated, there = tmp_path / "dated", tmp_path / "undated", tmp_path / "night"
    for folder, times in ((dated, True), (undated, False)):
        folder.mkdir()
        for rank in (0, 1):
            began = time.time() - 3 * 86_400
            stamps = [time.strftime("%F %T ", time.localtime(began + n)) for n in range(50)]
            steps = [f"{at if times else ''}step {n}/1000 loss 2.{n}\n" for n, at in enumerate(stamps)]
            (folder / f"rank{rank}.log").write_text("".join(steps) + (RAISED if rank else ""))
        shutil.copytree(folder, there / folder.name, copy_function=shutil.copy)
    shell = cluster["n1"].start(["sh", "-c", "sleep 3600; true"], folder=there)
    try:
        with cluster.session(("n1",)) as session:

            def found() -> list[Incident]:
                return [each for each in session.book.incidents if "night" in str(each)]

            def culprits() -> list[tuple[str | None, int | None]]:
                return [(each.job, each.rank) for each in found()]

            watch(session, lambda _fleet, _now: ("undated", 1) in culprits())
            watch(session, lambda _fleet, _now: all(job.searched for job in session.book.ended_jobs))
            assert culprits() == [("undated", 1)]
            assert "(undated)" in found()[0].headline
    finally:
        end(shell)


LAST_WORDS = """do
print("CUDA error: an illegal memory access was encountered", flush=True)
sys.exit(17)"""


@pytest.mark.parametrize("renamed", [True, False], ids=["renamed", "deleted"])
def test_what_is_written_to_a_file_that_lost_its_name_is_read(start_job: StartJob, renamed: bool) -> None:
    with start_job("nameless", "--stay") as run:
        run.until(lambda: run.steps(0) and run.steps(1))
        log = run.folder / "attempt_0/1/stdout.log"
        before = run.logged(1)
        if renamed:
            log.rename(f"{log}.old")
            log.touch()
        else:
            log.unlink()
        run.until(lambda: run.logged(1) > before + 2)
        run.order(1, LAST_WORDS)
        run.until(lambda: run.named() == [("cuda.illegal_access", "n1", 1)])


def test_a_progress_bar_beside_a_rank_s_line_adds_no_rank(start_job: StartJob, session: Session) -> None:
    with start_job("bars", "--inherit") as run:
        run.until(lambda: run.writers("n1") == [0, 1])
        run.order(0, BAR)
        out = run.folder / "launcher-n1.out"
        run.until(lambda: "step 900/1000" in out.read_text())
        run.order(1, "raise")
        run.until(lambda: [rank for _, _, rank in run.named()] == [1])
        writers = session.fleet.progress.writers.values()
        assert {each.rank for each in writers if each.job == run.name} <= {0, 1, None}
        assert {each.rank for each in session.book.places.ranks if each.job == run.name} == {0, 1}
        assert {each.rank for each in run.alerts()} <= {0, 1, None}


def test_the_reason_of_an_end_leads_over_the_word_for_it(start_job: StartJob) -> None:
    """The line that names the preemption stands between two that only tell of an end."""
    with start_job("taken", "--inherit", "--stay") as run:
        run.until(lambda: run.writers("n1") == [0, 1])
        run.order(0, PREEMPTED.format(at=time.strftime("%Y-%m-%dT%H:%M:%S")))
        run.until(lambda: "CancelledError" in (run.folder / "launcher-n1.out").read_text())
        for rank in (0, 1):
            run.signal(rank, 15)
        run.until(lambda: [(code, rank) for code, _, rank in run.named()] == [("slurm.preempted", None)])
