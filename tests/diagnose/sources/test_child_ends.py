"""A rank logs the end of another process, and trains on: no end of the rank."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.rules.load import load_packs
from tests.diagnose.watched_jobs import ONE, Watched
from tests.fleet.jobs.two_jobs import WALL, rank

LOG = "/runs/9/rank_0.log"


def watched() -> Watched:
    cluster = Watched()
    cluster.book = AlertBook(load_packs(), Thresholds())
    ranks = [rank(number, 900 + number, 2, master=ONE, start=WALL - 90) for number in range(2)]
    cluster.run("n1", *ranks)
    cluster.list_files(
        "n1",
        *(wire.LogFile(each.logs[0], pids=[each.pid]) for each in ranks),
        wire.LogFile("/runs/9/launcher.log", source="glob", pids=[899]),
    )
    cluster.look(2.0)
    return cluster


def of_lines(cluster: Watched) -> list[Alert]:
    return [alert for alert in cluster.book.alerts.values() if alert.proof[0].kind == "line"]


@pytest.mark.parametrize(
    ("rule", "line", "code"),
    [
        (
            "rank.killed",
            "[rank0] async checkpoint writer (pid 580) exited with code -9; checkpoint 226 is incomplete",
            "ckpt.write_fail",
        ),
        ("rank.killed", "writer (pid 580) exited with code -9", "proc.child_end"),
        (
            "rank.exit_error",
            "[rank0] WARNING lm_eval subprocess (pid 77) exited with code 1, evaluation skipped",
            "proc.child_end",
        ),
        (
            "rank.killed",
            "WARNING tokenizer worker 3 was killed by signal 9, restarted as worker 4",
            "proc.child_end",
        ),
        ("rank.exit_error", "INFO [rank0] data worker 2 exited with code 1", "proc.child_end"),
        ("proc.sigkill", "lm_eval subprocess: exit code 137", "proc.child_end"),
        ("rank.segfault", "evaluation process (pid 78) exited with code -11", "proc.child_end"),
    ],
)
@pytest.mark.parametrize("known_from", ["process", "path", "line"])
def test_the_end_of_another_process_is_a_warning_and_no_incident(
    rule: str, line: str, code: str, known_from: wire.RankSource
) -> None:
    cluster = watched()
    cluster.find(
        "n1", LOG, rule, 100.0, rank=0, rank_from=known_from, severity="critical", lines=[line], role="first"
    )
    assert cluster.incidents(110.0) == {}
    (alert,) = of_lines(cluster)
    assert (alert.code, alert.severity, alert.rank) == (code, "warning", 0)
    assert alert.text.startswith("logged ")


def test_the_number_of_a_childs_worker_is_no_rank() -> None:
    cluster = watched()
    line = "tokenizer worker 1 died: killed"
    cluster.find(
        "n1", LOG, "rank.killed", 100.0, rank=1, rank_from="field", severity="critical", lines=[line],
        fields={"rank": 1},
    )  # fmt: skip
    assert cluster.incidents(110.0) == {}
    assert [alert.rank for alert in of_lines(cluster)] == [0]


@pytest.mark.parametrize(
    ("file", "line", "more"),
    [
        (
            "/runs/9/launcher.log",
            "failed (exitcode: 1) local_rank: 0 (pid: 900) of binary: /usr/bin/python3",
            {"fields": {"pid": 900, "local_rank": 0}},
        ),
        (LOG, "rank 0 exited with code 1", {"rank": 0, "rank_from": "field"}),
        (LOG, "process 900 (pid 900) exited with code 1", {"rank": 0, "rank_from": "process"}),
        ("/runs/9/launcher.log", "worker (pid 900) exited with code 1", {}),
    ],
)
def test_the_end_of_a_rank_is_an_incident(file: str, line: str, more: dict[str, object]) -> None:
    cluster = watched()
    cluster.find(
        "n1", file, "rank.exit_error", 100.0, severity="critical", lines=[line], role="first", **more
    )
    (incident,) = cluster.incidents(110.0).values()
    assert (incident.code, incident.rank) == ("rank.exit_error", 0)
