"""Ranks that are gone when a report is made: their siblings show how many there must be."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch import wire
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.missing_ranks.missing import missing_ranks
from gpuwatch.diagnose.missing_ranks.unstarted import unstarted_ranks
from gpuwatch.diagnose.missing_ranks.waiting_watch import WaitingWatch
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.text import clock
from gpuwatch.diagnose.sources.absent_ranks import absent_ranks
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.report.once.problems.health import placed_conditions
from tests.diagnose.finding import PACK
from tests.diagnose.hang.live_ranks import member, running
from tests.fleet.jobs.two_jobs import WALL, Several


def missing(reported: Several, at: float = 60.0) -> list[tuple[str, int]]:
    return [(each.node.name, each.rank) for each in missing_ranks(reported.fleet, at)]


@pytest.mark.parametrize(("stepped", "named"), [(55.0, []), (20.0, [("n1", 1)])])
def test_a_job_that_steps_now_has_all_its_ranks(stepped: float, named: list[tuple[str, int]]) -> None:
    reported = Several()
    for at in (10.0, stepped):
        frame = wire.Progress(
            t=WALL + at, seq=3, at=WALL + at, file="/logs/0.log", offset=int(at), dialect="x",
            fields={"step": int(at)}, rank=0, job="4711",
        )  # fmt: skip
        reported.report("n1", frame, at=at)
    running(reported, "n1", *map(member, (0, 2, 3)))
    assert missing(reported) == named


def test_the_one_that_its_siblings_miss_is_reported() -> None:
    reported = Several()
    running(reported, "n1", *map(member, (0, 2, 3)))
    assert missing(reported) == [("n1", 1)]
    codes = [
        (each.condition.code, each.condition.severity) for each in placed_conditions(reported.fleet, 60.0)
    ]
    assert ("rank_missing", "error") in codes


@pytest.mark.parametrize("master", ["127.0.0.1", "localhost:29500"])
def test_a_rendezvous_on_the_loopback_has_all_ranks_on_its_node(master: str) -> None:
    reported = Several()
    running(reported, "n1", *(member(each, variables={}, master=master, job=None) for each in (0, 1, 3)))
    assert missing(reported) == [("n1", 2)]


def test_nodes_that_are_not_watched_are_no_news() -> None:
    reported = Several()
    running(reported, "n1", *(member(each, 16) for each in range(4, 8)))
    assert missing(reported) == []
    running(reported, "n1", *(member(each, 16) for each in (4, 5, 7)))
    assert missing(reported) == [("n1", 6)]


def test_a_zombie_is_missing_and_a_job_that_starts_has_time() -> None:
    reported = Several()
    dead = member(1, state="Z")
    running(reported, "n1", member(0), dead, member(2), member(3))
    assert missing(reported) == [("n1", 1)]
    running(reported, "n1", *(member(each, start=WALL + 40) for each in (0, 2, 3)))
    assert missing(reported) == []


@pytest.mark.parametrize(("status", "severity"), [(None, "warning"), (-9, "error"), (3, "error")])
def test_a_zombie_that_no_rank_lives_beside_is_no_healthy_rank(status: int | None, severity: str) -> None:
    reported = Several()
    book = AlertBook(PACK, Thresholds())
    dead = member(3, 16, state="Z", variables={}, exit_status=status)

    def look(at: float, *ranks: wire.Process) -> list[tuple[str, str, str]]:
        running(reported, "n1", *ranks, at=at)
        book.update(reported.fleet, at, WALL + at)
        return [(each.code, each.severity, each.state) for each in book.alerts.values()]

    assert look(60.0, dead) == []
    seen = [
        (each.condition.code, each.condition.severity) for each in placed_conditions(reported.fleet, 60.0)
    ]
    assert seen == [("rank_missing", severity)]
    assert look(80.0, dead) == [], "its parent may still collect it"
    look(94.0, dead)
    assert look(98.0, dead) == [("rank.vanished", severity, "firing")]
    look(100.0)
    state = "resolved" if status is None else "firing"
    assert look(104.0) == [("rank.vanished", severity, state)]


def test_a_zombie_beside_living_ranks_of_another_node_is_missing_at_once() -> None:
    reported = Several(2)
    running(reported, "n1", *(member(each, 8, variables={}) for each in range(3)))
    running(reported, "n2", member(4, 8, variables={}, state="Z"))
    assert missing(reported) == [("n2", 4)]


def test_ranks_that_end_together_are_no_failure() -> None:
    reported = Several()
    book = AlertBook(PACK, Thresholds())
    for at, state in ((60.0, "R"), (62.0, "Z"), (80.0, "Z")):
        running(reported, "n1", *(member(each, state=state) for each in range(4)), at=at)
        book.update(reported.fleet, at, WALL + at)
    for at in (84.0, 100.0, 120.0):
        running(reported, "n1", at=at)
        book.update(reported.fleet, at, WALL + at)
    assert book.alerts == {}


def test_who_reached_the_announced_last_step_has_ended_as_it_should() -> None:
    reported = Several()
    running(reported, "n1", *map(member, (0, 2, 3)))
    progress = wire.Progress(
        t=WALL, seq=4, file="/runs/1/rank_0.log", offset=0, at=WALL, dialect="progress.common",
        fields={"step": 50, "total_steps": 50}, rank=0, job="4711",
    )  # fmt: skip
    reported.report("n1", progress)
    assert missing(reported) == []


def test_without_a_word_on_its_node_s_ranks_only_its_own_log_tells() -> None:
    reported = Several()
    living = [member(each, variables={}, local_rank=None) for each in (0, 2)]
    running(reported, "n1", *living)
    assert missing(reported) == []
    log: dict[str, Any] = {"job": "4711", "ranks": [1], "rank_from": "path"}
    reported.list_files("n1", wire.LogFile("/runs/1/rank_1.log", grown_at=WALL - 3600, **log))
    running(reported, "n1", *living)
    assert missing(reported) == []
    reported.list_files(
        "n1", wire.LogFile("/runs/1/rank_1.log", grown_at=WALL + 20, last_lines=["bye"], **log)
    )
    running(reported, "n1", *living)
    assert missing(reported) == [("n1", 1)]
    assert missing_ranks(reported.fleet, 60.0)[0].last_line == "bye"


def test_a_log_that_a_rank_of_a_silent_node_may_write_tells_nothing() -> None:
    """The file system is shared, which nothing shows; n2 does not list its processes."""
    reported = Several(2)
    log = wire.LogFile(
        "/runs/1/rank_1.log", grown_at=WALL + 20, job="4711", ranks=[1], rank_from="path", last_lines=["bye"]
    )
    reported.list_files("n1", log)
    running(reported, "n1", *(member(each, variables={}, local_rank=None) for each in (0, 2)))
    assert missing(reported) == []
    running(reported, "n2")
    assert missing(reported) == [("n1", 1)]


def test_ranks_that_are_numbered_by_their_order_prove_nothing() -> None:
    reported = Several()
    running(reported, "n1", *(member(each, rank_source="order") for each in (0, 2)))
    assert missing(reported) == []
    running(reported, "n1", *(member(each, rank_source="path") for each in (0, 2, 3)))
    assert missing(reported) == [("n1", 1)]


def idle(reported: Several, world: int, *ranks: int, at: float = 200.0, **more: Any) -> None:
    """Ranks that do nothing, each on a node with no more ranks than itself."""
    facts: dict[str, Any] = {"cpu_pct": 0.3, "variables": {}, "local_rank": None, **more}
    running(reported, "n1", *(member(each, world, **facts) for each in ranks), at=at)


def unstarted(reported: Several, at: float = 200.0) -> list[tuple[str, tuple[int, ...], int]]:
    return [(each.job, each.ranks, each.world_size) for each in unstarted_ranks(reported.fleet, at)]


@pytest.mark.parametrize(("world", "rank"), [(2, 5), (1, 1), (1_000_000, 0)])
def test_ranks_beyond_the_world_size_and_huge_ones_name_no_missing_rank(world: int, rank: int) -> None:
    reported = Several()
    idle(reported, world, rank)
    assert unstarted(reported) == []
    assert missing(reported, 200.0) == []


def test_a_rank_that_no_node_runs_is_named_when_the_others_wait_for_it() -> None:
    reported = Several()
    idle(reported, 5, 0, 1, 2, 3)
    assert unstarted(reported) == [("4711", (4,), 5)]
    found = {
        each.condition.code: each.condition.severity for each in placed_conditions(reported.fleet, 200.0)
    }
    assert found["rank_unstarted"] == "warning"
    book = AlertBook(PACK, Thresholds())
    book.update(reported.fleet, 200.0, WALL + 200)
    assert [each.code for each in book.alerts.values() if each.state == "firing"] == ["rank.unstarted"]
    for at in range(205, 220):
        idle(reported, 5, 0, 1, 2, 3, 4, at=float(at))
        book.update(reported.fleet, float(at), WALL + at)
    assert [(each.code, each.state) for each in book.alerts.values()] == [("rank.unstarted", "resolved")]


@pytest.mark.parametrize(
    ("cpu_pct", "children", "written", "reports"),
    [
        (0.3, None, None, 1),
        (90.0, None, None, 0),
        (0.3, None, 100.0, 0),
        (0.3, None, 1.0, 0),  # a rank's first line, right after its start: it compiles now
        (0.3, 180.0, None, 0),
        (0.3, 11.0, None, 0),  # two tokenizers beside other work
        (0.3, 2.0, None, 1),
    ],
)
def test_a_job_whose_ranks_all_sleep_from_the_start_is_reported(
    cpu_pct: float, children: float | None, written: float | None, reports: int
) -> None:
    reported = Several()
    logs = [f"/runs/9/rank{each}.log" for each in range(2)]
    used = {"cpu_pct": cpu_pct, "children_cpu_pct": children}
    ranks = [member(each, 2, variables={}, logs=[logs[each]], **used) for each in range(2)]
    grown = None if written is None else WALL + written
    reported.list_files("n1", *(wire.LogFile(each, size=0, grown_at=grown) for each in logs))
    running(reported, "n1", *ranks, at=200.0)
    watch = WaitingWatch()
    watch.go(reported.fleet, 200.0, WALL + 200)
    assert [each.code for each in watch.alerts.values()] == ["job.no_start"] * reports
    assert all(f" {clock(each.first)}" in each.text for each in watch.alerts.values())
    found = [each.condition.code for each in placed_conditions(reported.fleet, 200.0)]
    assert found.count("job_no_start") == reports


@pytest.mark.parametrize(
    ("power_w", "cpu_pct", "reports"), [(180.0, 0.3, 1), (500.0, 0.3, 0), (180.0, 90.0, 0)]
)
def test_a_job_that_waits_on_busy_gpus_for_a_sleeping_rank_is_reported(
    power_w: float, cpu_pct: float, reports: int
) -> None:
    reported = Several()
    gpu = wire.GpuInfo("GPU-0", 0, "H100")
    hello = wire.Hello(t=WALL, seq=0, host="n1", agent="1", python="3", pid=1, interval_s=1.0, gpus=[gpu])
    fast = wire.GpuFast(t=WALL + 200, utilization_pct=100, power_w=power_w)
    sample = wire.GpuSample("GPU-0", fast=fast, medium=wire.GpuMedium(t=WALL + 200, power_limit_w=700.0))
    reported.report("n1", hello, at=199.0)
    reported.list_files("n1", wire.LogFile("/runs/9/train.log", size=0))
    each: dict[str, Any] = {"variables": {}, "logs": ["/runs/9/train.log"]}
    spinning = member(0, 2, cpu_pct=99.0, gpus=[wire.ProcessGpu("GPU-0")], **each)
    running(reported, "n1", spinning, member(1, 2, cpu_pct=cpu_pct, **each), at=200.0)
    reported.report("n1", wire.Sample(t=WALL + 200, seq=5, gpus=[sample]), at=200.0)
    watch = WaitingWatch()
    watch.go(reported.fleet, 200.0, WALL + 200)
    assert [each.code for each in watch.alerts.values()] == ["job.no_start"] * reports
    assert all(f" {clock(each.first)}" in each.text for each in watch.alerts.values())


@pytest.mark.parametrize(
    ("world", "more"),
    [
        (4, {}),  # it is complete
        (16, {}),  # most run on nodes that are not watched
        (5, {"cpu_pct": 99.0}),  # it starts, or trains and logs nothing
        (5, {"cpu_pct": None}),  # not known
        (5, {"cpu_pct": None, "state": "R"}),
        (5, {"start": WALL + 150}),  # its nodes may start one after the other
    ],
)
def test_a_job_that_may_start_or_train_waits_for_nobody(world: int, more: dict[str, Any]) -> None:
    reported = Several()
    idle(reported, world, 0, 1, 2, 3, **more)
    assert unstarted(reported) == []


def test_the_first_list_of_processes_has_no_cpu_shares_and_is_judged_by_their_states() -> None:
    reported = Several()
    idle(reported, 5, 0, 1, 2, 3, cpu_pct=None, state="S")
    assert unstarted(reported) == [("4711", (4,), 5)]


def test_a_job_that_logs_or_steps_waits_for_nobody() -> None:
    reported = Several()
    reported.list_files("n1", wire.LogFile("/runs/1/rank_0.log", grown_at=WALL + 120, job="4711", ranks=[0]))
    idle(reported, 5, 0, 1, 2, 3)
    assert unstarted(reported) == []
    idle(reported, 5, 0, 1, 2, 3, at=260.0)
    assert unstarted(reported, 260.0) == [("4711", (4,), 5)]
    reported.step("n1", "/runs/1/rank_0.log", 3)
    assert unstarted(reported, 260.0) == []


def test_a_node_that_does_not_answer_may_have_it() -> None:
    reported = Several(2)
    idle(reported, 5, 0, 1, 2, 3)
    assert unstarted(reported) == []


def incidents(reported: Several, until: float) -> list[tuple[str, int | None]]:
    """Code and rank of those that stand after looks of every second."""
    book = AlertBook(PACK, Thresholds())
    for at in range(60, int(until) + 1):
        running(reported, "n1", *map(member, (0, 2, 3)), at=at)
        book.update(reported.fleet, float(at), WALL + at)
    return [(each.code, each.rank) for each in book.incidents if not each.over]


def test_the_screen_names_the_rank_that_was_gone_before_it_came() -> None:
    reported = Several()
    assert incidents(reported, 80.0) == []  # its siblings may end with it
    assert incidents(reported, 95.0) == [("rank.vanished", 1)]
    log = wire.LogFile("/r/rank_1.log", grown_at=WALL + 5, job="4711", ranks=[1], last_lines=["bye"])
    reported.list_files("n1", log)
    assert incidents(reported, 70.0) == [("rank.vanished", 1)]  # its log shows that they did not


def test_the_exception_of_the_rank_that_is_gone_leads() -> None:
    reported = Several()
    log = wire.LogFile("/r/rank_1.log", grown_at=WALL + 5, job="4711", ranks=[1], rank_from="path")
    reported.list_files("n1", log)
    lines = ["RuntimeError: shape mismatch"]
    fields: dict[str, str | int | float] = {"exception": "RuntimeError", "message": "shape mismatch"}
    more: dict[str, Any] = {"role": "first", "rank": 1, "job": "4711", "lines": lines, "fields": fields}
    reported.find("n1", "/r/rank_1.log", "python.exception", at=5.0, **more)
    assert incidents(reported, 70.0) == [("python.exception", 1)]


def test_long_lines_are_searched_for_missing_ranks_as_far_as_agents_search() -> None:
    """Judged at every look, so 64 kB lines of a hostile agent are not read to their ends."""
    lines = ("x" * 4000 + " missing ranks: 3, 5", "x " * 32_000 + " missing ranks: 7", "mi" * 32_000)
    proof = Proof("line", lines[0], lines=lines * 20)
    alert = Alert("a", "hang.horovod", "error", "", "", (proof,))
    assert absent_ranks(alert) == (3, 5)


@pytest.mark.parametrize(
    ("gone", "more", "code"),
    [(True, {}, ["rank.unended"]), (True, {"cpu_pct": 90.0}, []), (False, {}, [])],
)
def test_a_rank_that_stays_after_the_training_finished_is_reported(
    *, gone: bool, more: dict[str, Any], code: list[str]
) -> None:
    """It is not while it computes, nor while all of its siblings are there too."""
    reported = Several()
    reported.list_files("n1", wire.LogFile("/r/rank_0.log", grown_at=WALL + 60, job="4711", ranks=[0]))
    done: dict[str, Any] = {"rank": 0, "job": "4711", "severity": "info", "role": "hint"}
    reported.find("n1", "/r/rank_0.log", "job.finished", at=60.0, **done)
    reported.step("n1", "/r/rank_0.log", 3)
    stays = [member(each, 2, variables={}, **{"cpu_pct": 0.3, **more}) for each in range(1 if gone else 0, 2)]
    running(reported, "n1", *stays, at=300.0)
    watch = WaitingWatch()
    watch.go(reported.fleet, 300.0, WALL + 300)
    assert [each.code for each in watch.alerts.values()] == code
    assert all(f" {clock(each.first)}" in each.text for each in watch.alerts.values())
    found = [each.condition.code for each in placed_conditions(reported.fleet, 300.0)]
    assert found.count("rank_unended") == len(code)
