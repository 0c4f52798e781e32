"""An error that the same rank, file or job outlived is a note; one that nothing outlived stays an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import replace

from gpuwatch import wire
from gpuwatch.diagnose.error_outcome.outcomes import with_outcomes
from gpuwatch.diagnose.error_outcome.step_track import Mark, StepTrack
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.report.scan.report import ScanReport, judged
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan
from tests.diagnose.finding import T0
from tests.diagnose.incidents.alert_cluster import Cluster

FINISHED = "job.finished"

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79.1 GiB"
FILE = "/logs/rank_3.log"


def error(code: str = "oom.cuda", *, offset: int = 1000, at: float = T0, **changes: object) -> Alert:
    proof = Proof("line", "words", at, file=FILE, offset=offset, lines=("words",))
    alert = Alert(code, code, "critical", code, code, (proof,), rank=3, first=at, last=at)
    return structs.replace(alert, **changes)


def track(*marks: Mark, rank: int | None = 3, file: str = FILE, total: int | None = None) -> StepTrack:
    return StepTrack(None, file, rank, None, marks, total)


def after(*offsets: int, at: float | None = T0, finite: bool = True) -> list[Mark]:
    return [
        Mark(40 + index, None if at is None else at + 10 + index, offset, finite)
        for index, offset in enumerate(offsets)
    ]


def severity(alert: Alert, *tracks: StepTrack, others: tuple[Alert, ...] = ()) -> str:
    return with_outcomes([alert, *others], tracks)[0].severity


def test_two_later_steps_of_the_same_rank_make_a_note_with_their_time() -> None:
    (alert,) = with_outcomes([error()], [track(*after(1100, 1200))])
    assert (alert.severity, alert.recovered, alert.recovered_at) == ("info", True, T0 + 10)
    assert alert.recovered_step == 40


@pytest.mark.parametrize(
    "steps",
    [
        track(*after(1100)),
        track(*after(100, 200)),
        track(*after(1100, 1200), rank=4),
        track(*after(1100, 1200, at=T0 - 100)),
        track(Mark(40, T0 + 1, 1100), Mark(40, T0 + 2, 1200)),
        track(*after(100, 200, at=T0 - 60), file="/logs/other.log"),
    ],
    ids=["one step", "above it", "another rank", "older, in a buffer", "no advance", "older, another file"],
)
def test_nothing_less_proves_that_it_went_on(steps: StepTrack) -> None:
    assert severity(error(), steps) == "critical"


def test_the_log_of_another_rank_that_was_pasted_below_is_no_later_step() -> None:
    own = [Mark(28, T0 - 1, 800), Mark(29, T0, 900)]
    pasted = [Mark(step, T0 - 29 + step, 1100 + step) for step in range(60)]
    assert severity(error(timed=False), track(*own, *pasted, rank=None)) == "critical"
    resumed = [Mark(step, T0 + 5 + step, 1100 + step) for step in range(60)]
    assert severity(error(timed=False), track(*own, *resumed, rank=None)) == "info"


def test_undated_steps_below_a_traceback_may_have_stood_in_the_buffer() -> None:
    proof = structs.replace(error().proof[0], lines=("Traceback (most recent call last):", "words"))
    raised = error(timed=False, proof=(proof,))
    assert severity(raised, track(*after(1100, 1200, at=None))) == "critical"
    assert severity(raised, track(*after(1100, 1000 + 9000, at=None))) == "info"
    assert severity(error(timed=False), track(*after(1100, 1200, at=None))) == "info"


def test_what_stays_broken_is_not_softened() -> None:
    steps = track(*after(1100, 1200))
    assert severity(error("gpu.xid.fell_off", kernel=True), steps) == "critical"
    assert severity(error("cuda.ecc"), steps) == "critical"
    assert severity(error("ckpt.corrupt"), steps) == "warning"  # an older one was loaded, or it started anew
    assert severity(error("num.nan_loss"), track(*after(1100, 1200, finite=False))) == "critical"
    assert severity(error("num.nan_loss"), steps) == "info"


def test_a_death_that_a_restart_outlived_is_a_warning_until_the_job_finishes() -> None:
    steps = track(*after(1100, 1200))
    died = error("rank.exit_error")
    assert severity(died, steps) == "warning"
    end = structs.replace(error(FINISHED, offset=2000, at=T0 + 100), severity="info")
    assert severity(died, steps, others=(end,)) == "info"
    assert severity(died, track(*after(1100, 1200), total=42)) == "info"
    assert severity(error("storage.full"), steps) == "warning"


def test_a_line_about_the_end_recovers_what_stands_above_it_but_no_death_below_it() -> None:
    end = structs.replace(error(FINISHED, offset=2000, at=T0 + 100), severity="info")
    assert severity(error("hub.network"), others=(end,)) == "info"
    killed = error("rank.killed", offset=3000, at=T0 + 200)
    found = with_outcomes([error("hub.network"), end, killed], [])
    assert [each.severity for each in found] == ["critical", "info", "critical"]


def test_an_end_that_a_failing_run_prints_on_its_way_out_recovers_nothing() -> None:
    proof = structs.replace(error().proof[0], lines=("Traceback (most recent call last):", "words"))
    raised = error("oom.cuda", proof=(proof,))
    end = structs.replace(error(FINISHED, offset=2000, at=T0 + 1), severity="info")
    assert severity(raised, others=(end,)) == "critical"
    assert severity(raised, others=(structs.replace(end, first=T0 + 600),)) == "info"


@pytest.mark.parametrize(
    ("job", "node", "end_job", "end_node", "expected"),
    [
        ("spawned", "n5", "fin3", "n3", "critical"),
        ("spawned", "n5", "fin3", "n5", "critical"),
        (None, "n5", "fin3", "n3", "critical"),
        (None, "n5", "fin3", "n5", "info"),  # a launcher's log, whose job is not known
        ("fin3", "n5", "fin3", "n3", "info"),
        (None, "n5", None, "n3", "info"),  # scan: one job
    ],
)
def test_the_end_of_another_job_recovers_no_death_without_rank(
    job: str | None, node: str, end_job: str | None, end_node: str, expected: str
) -> None:
    def moved(alert: Alert, job: str | None, node: str, file: str) -> Alert:
        proof = structs.replace(alert.proof[0], node=node, file=file)
        return structs.replace(alert, rank=None, node=node, job=job, proof=(proof,))

    died = moved(error("rank.segfault"), job, node, "/srv/run.log")
    end = structs.replace(error(FINISHED, at=T0 + 60), severity="info")
    assert severity(died, others=(moved(end, end_job, end_node, "/srv/fin3.log"),)) == expected


def test_an_incident_that_the_job_outlived_names_no_rank_that_is_not_known() -> None:
    cluster = Cluster(1, packs=load_packs())
    for code, offset, at in (("rank.segfault", 100, -300.0), (FINISHED, 20000, -60.0)):
        cluster.find(code, None, file="/logs/run.log", offset=offset, at=cluster.t + at, backlog=True)
    cluster.step(20)
    reasons = [incident.closed for incident in cluster.book.incidents]
    assert reasons and all(reason and "None" not in reason for reason in reasons), reasons


def report(folder: Path) -> ScanReport:
    packs = load_packs()
    return judged(scan(gather([folder]), packs.all, "agent"), packs, 1.8e9, 0.1)


def stepping(first: int, count: int, minute: int) -> str:
    return "".join(
        f"2026-03-04 02:{minute:02d}:{n:02d} INFO step {first + n}/40 loss 2.{n:02d} lr 1e-4\n"
        for n in range(count)
    )


def test_scan_notes_an_out_of_memory_error_after_which_the_rank_trains_on(tmp_path: Path) -> None:
    caught = f"2026-03-04 02:15:30 WARNING caught {OOM}; retrying with half the batch\n"
    (tmp_path / "rank_3.log").write_text(stepping(1, 20, 10) + caught + stepping(21, 20, 16))
    found = report(tmp_path)
    assert found.incidents == ()
    (alert,) = [each for each in found.outside if each.code == "oom.cuda"]
    assert (alert.severity, alert.recovered_step) == ("info", 21)
    (tmp_path / "rank_3.log").write_text(stepping(1, 20, 10) + f"Traceback (most recent call last):\n{OOM}\n")
    assert [each.code for each in report(tmp_path).incidents] == ["oom.cuda"]


def test_the_live_book_notes_what_a_rank_outlived() -> None:
    cluster = Cluster(1)
    text = wire.Finding(
        t=cluster.t, seq=1, id=1, rule="oom.cuda", severity="error", file="/logs/rank_3.log", offset=10,
        at=cluster.t, timed=True, lines=["x"], rank=3, job="4711",
    )  # fmt: skip
    cluster.report("gpu-001", text)
    cluster.step(10)
    assert [each.severity for each in cluster.book.alerts.values()] == ["error"]
    for step in (40, 41, 42):
        cluster.report("gpu-001", wire.Progress(
            t=cluster.t, seq=step, file="/logs/rank_3.log", offset=step, at=cluster.t, dialect="x",
            fields={"step": float(step)}, rank=3, job="4711",
        ))  # fmt: skip
        cluster.step(5)
    cluster.step(10)
    (alert,) = cluster.book.alerts.values()
    assert (alert.severity, alert.recovered_step) == ("info", 40)
    assert cluster.book.incidents == []


def test_steps_that_begin_anew_below_an_undated_traceback_are_of_another_attempt() -> None:
    alert = structs.replace(error("python.exception"), timed=False, bound="before")
    traceback = structs.replace(alert.proof[0], lines=("Traceback (most recent call last):", "KeyError: 'x'"))
    alert = structs.replace(alert, proof=(traceback,), rank=None)
    before = [Mark(10, T0 - 1, 800), Mark(11, T0 - 0.5, 900)]
    assert severity(alert, track(*before, Mark(1, T0 + 2, 1100), Mark(2, T0 + 3, 1200))) == "info"
    assert severity(alert, track(*before, Mark(12, T0 + 2, 1100), Mark(13, T0 + 3, 1200))) == "critical"
    assert severity(alert, track(*before, Mark(12, T0 + 12, 1100), Mark(13, T0 + 13, 1200))) == "info"


@pytest.mark.parametrize(
    ("job", "steps", "expected"),
    [
        (None, [("A", "n1")], "critical"),  # another node: nothing shows that the job is the same one
        (None, [("A", "n5")], "info"),  # the only job with such a rank, on the node of the line
        (None, [("A", "n5"), ("B", "n2")], "critical"),
        (None, [("A", "n5"), ("B", "n5")], "critical"),
        ("A", [("B", "n5")], "critical"),
        ("A", [(None, "n5"), ("B", "n5")], "critical"),
        ("A", [("A", "n1"), ("B", "n5")], "info"),
        ("A", [(None, "n1")], "info"),  # scan: steps carry no job
        (None, [(None, "n1")], "info"),
    ],
)
def test_the_steps_of_another_job_recover_nothing(
    job: str | None, steps: list[tuple[str | None, str]], expected: str
) -> None:
    proof = structs.replace(error().proof[0], node="n5", file="/srv/launcher.log")
    failed = structs.replace(error(), node="n5", job=job, proof=(proof,))
    later = [
        replace(track(*after(2000, 3000, 4000, at=T0 + 60), file=f"/srv/{of}/rank3.log"), node=node, job=of)
        for of, node in steps
    ]
    assert severity(failed, *later) == expected
