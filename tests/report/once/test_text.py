from __future__ import annotations

import io

import pytest
from msgspec.structs import replace
from rich.console import Console

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.logged_steps import LoggedStep
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.link.stream.inbox import LinkStatus
from gpuwatch.report.once.json_output import fleet_facts
from gpuwatch.report.once.problem_lines import whereabouts
from gpuwatch.report.once.problems.active import Standing, healthy, standing
from gpuwatch.report.once.problems.health import placed_conditions
from gpuwatch.report.once.tables import draw, print_report
from gpuwatch.report.once.text import Report, report
from gpuwatch.rules.load import load_packs
from gpuwatch.wire import GpuSample, LogFile, Logs, Notice, Severity
from tests.report.fleets import (
    GIB,
    NODE_TIME,
    START,
    feed,
    healthy_fleet,
    hello,
    plan,
    process,
    reading,
    sample,
)
from tests.sentences import Sentences, line_of


def made(fleet: Fleet, now: float = START) -> Report:
    return report(fleet, placed_conditions(fleet, now), now, NODE_TIME)


def printed(fleet: Fleet, now: float = START) -> str:
    out = io.StringIO()
    print_report(made(fleet, now), out)
    return out.getvalue()


def drawn(fleet: Fleet, width: int, now: float = START, **options: object) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, force_terminal=True, **options)  # type: ignore[arg-type]
    draw(made(fleet, now), console, fit=True)
    return out.getvalue()


def row_of(text: str, uuid_index: int) -> str:
    return next(line for line in text.splitlines() if line.split()[:1] == [str(uuid_index)])


def test_one_line_a_gpu_with_its_rank_and_user() -> None:
    text = printed(healthy_fleet())
    row = row_of(text, 1)
    for word in ("98%", "72.0G/80.0G", "61C", "640/700W", "ok", "rank 1", "alice", "101"):
        assert word in row
    assert "all healthy" in text.splitlines()[-1]


def test_unknown_is_a_dash_and_zero_is_zero() -> None:
    fleet = healthy_fleet(gpus=0)
    feed(
        fleet, "gpu-001", hello(1), sample(reading(0, utilization_pct=None, temperature_c=0.0, power_w=None))
    )
    cells = row_of(printed(fleet), 0).split()
    assert "-" in cells
    assert "0C" in cells
    assert "-/700W" in cells


def test_an_old_value_has_its_age_beside_it_and_a_fresh_one_has_not() -> None:
    fleet = healthy_fleet(gpus=2)
    feed(fleet, "gpu-001", sample(reading(0, t=NODE_TIME + 12), at=START + 12), at=START + 12)
    text = printed(fleet, now=START + 12)
    assert "old" not in row_of(text, 0)
    assert "12s old" in row_of(text, 1)


def test_a_stuck_gpu_names_the_call_and_a_lost_one_the_reason() -> None:
    fleet = healthy_fleet(gpus=3)
    stuck = GpuSample(uuid="GPU-0001", state="stuck", stuck_in="nvmlDeviceGetUtilizationRates", stuck_s=5.0)
    lost = GpuSample(uuid="GPU-0002", state="lost", reason="GPU is lost")
    feed(fleet, "gpu-001", sample(reading(0), stuck, lost), at=START)
    text = printed(fleet)
    assert "stuck 5.0s" in row_of(text, 1)
    assert "nvmlDeviceGetUtilizationRates" in row_of(text, 1)
    assert "lost" in row_of(text, 2)
    assert "GPU is lost" in row_of(text, 2)
    assert "2 of 3 GPUs" in text


def test_an_unreachable_node_says_why_and_when_it_is_tried_again(sentences: Sentences) -> None:
    fleet = Fleet(plan("gpu-009"))
    reason = "connection refused: nothing listens on port 22; start sshd there"
    feed(fleet, "gpu-009", LinkStatus("lost", reason, retry_at=START + 8))
    text = printed(fleet)
    sentences(line_of(text, "attempt"))
    assert "all healthy" not in text


def test_a_node_that_never_answered_is_shown_as_connecting() -> None:
    assert "gpu-007  connecting" in printed(Fleet(plan("gpu-007")))


def test_a_stale_node_keeps_its_values_with_their_age(sentences: Sentences) -> None:
    text = printed(healthy_fleet(), now=START + 30)
    sentences(line_of(text, "gpu-001"))
    assert "30s old" in row_of(text, 0)


def test_a_gpu_of_a_node_that_was_just_lost_is_not_called_ok() -> None:
    fleet = healthy_fleet()
    feed(fleet, "gpu-001", LinkStatus("lost", "the connection was reset"))
    row = row_of(printed(fleet, now=START + 0.5), 0)
    assert "0.5s old" in row
    assert " ok " not in row


def test_a_notice_of_many_nodes_is_one_line() -> None:
    fleet = healthy_fleet(*(f"gpu-{n:03}" for n in range(1, 8)))
    notice = Notice("kernel_log_unreadable", "the kernel log cannot be read.", remedy="Add the user to adm.")
    for name in fleet.nodes:
        feed(fleet, name, hello(2, notices=[notice]))
    lines = [line for line in printed(fleet).splitlines() if "kernel log" in line]
    expected = "gpu-[001-007]: the kernel log cannot be read. What to do: Add the user to adm."
    assert [line.split(maxsplit=1)[1] for line in lines] == [expected]


def test_logs_that_may_not_be_read_or_are_not_there_are_reported(sentences: Sentences) -> None:
    fleet = healthy_fleet("gpu-001", "gpu-002")
    fleet.plan = replace(fleet.plan, log_options=("/scratch/*.log",))
    for name in fleet.nodes:
        misses = {"/scratch/*.log": "nothing is there"}
        feed(fleet, name, Logs(t=NODE_TIME, seq=8, complete=True, misses=misses))
    sentences(line_of(printed(fleet), "/scratch/*.log"))
    file = LogFile(path="/scratch/a.log", state="unreadable", reason="permission denied")
    for name in fleet.nodes:
        feed(fleet, name, Logs(t=0, seq=9, files=[file], complete=True))
    sentences(line_of(printed(fleet), "/scratch/a.log"))
    assert "(--log)" not in printed(fleet)
    named = {"file": "/scratch/a.log", "why": "permission denied"}
    reported = fleet_facts(fleet, [], START, NODE_TIME)["unreadable_logs"]
    assert reported == [{"node": name, **named} for name in ("gpu-001", "gpu-002")]


def test_findings_say_where_what_and_why() -> None:
    fleet = healthy_fleet(gpus=2)
    feed(fleet, "gpu-001", sample(reading(0), reading(1, temperature_c=88.0)))
    lines = [line for line in printed(fleet).splitlines() if line.startswith("critical")]
    assert len(lines) == 1
    assert "gpu-001 GPU 1: 88 C" in lines[0]
    assert "limit 87" in lines[0]


def test_remarks_of_one_kind_do_not_fill_the_screen(sentences: Sentences) -> None:
    fleet = healthy_fleet(gpus=20)
    feed(fleet, "gpu-001", sample(*(reading(n, memory_used_bytes=79 * GIB) for n in range(20))))
    lines = [line for line in printed(fleet).splitlines() if line.startswith("info")]
    assert len(lines) == 5
    sentences(line_of(lines[-1], "16"))
    assert "all healthy" in printed(fleet)


def test_a_grave_notice_makes_the_fleet_unhealthy_and_is_reported_once() -> None:
    fleet = healthy_fleet(gpus=1)
    notice = Notice("driver_mismatch", "driver-updated", "critical", "Reboot the node.")
    feed(fleet, "gpu-001", hello(1, notices=[notice]))
    text = printed(fleet)
    assert text.count("driver-updated") == 1
    assert "Reboot the node." in text
    assert "1 critical" in text.splitlines()[-1]


def test_a_rank_without_a_gpu_is_shown_under_its_node(sentences: Sentences) -> None:
    fleet = healthy_fleet(gpus=0)
    feed(fleet, "gpu-001", hello(0))
    node = fleet.nodes["gpu-001"]
    node.processes = [process(77, 0, rank=3, gpus=[])]
    sentences(line_of(printed(fleet), "77"))


def test_a_demo_says_so_on_its_first_line() -> None:
    assert printed(healthy_fleet(demo=True)).startswith("DEMO")
    assert "DEMO" not in printed(healthy_fleet())


def test_tables_of_all_nodes_line_up() -> None:
    fleet = healthy_fleet("gpu-001", "gpu-002")
    feed(fleet, "gpu-002", sample(reading(0, power_w=5.0), reading(1)))
    rows = [line for line in printed(fleet).splitlines() if "H100" in line]
    assert len({line.index("rank") for line in rows}) == 1


def test_80_columns_hold_every_row_and_keep_what_matters_most() -> None:
    text = drawn(healthy_fleet(), 80, color_system=None)
    assert max(map(len, text.splitlines())) <= 80
    row = row_of(text, 0)
    for word in ("98%", "72.0G/80.0G", "ok"):
        assert word in row
    assert "H100" not in row
    assert "NVIDIA H100" in drawn(healthy_fleet(), 140, color_system=None)


def test_a_pipe_gets_no_escape_and_no_trailing_space() -> None:
    text = printed(healthy_fleet())
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_markup_in_a_process_name_is_printed_as_it_is() -> None:
    fleet = healthy_fleet(gpus=1)
    fleet.nodes["gpu-001"].processes = [process(5, 0, name="[red]x[/] :boom:")]
    assert "[red]x[/] :boom:" in printed(fleet)


def test_a_job_that_is_silent_is_reported_though_every_node_is_well(sentences: Sentences) -> None:
    fleet = healthy_fleet(gpus=2)
    node = fleet.nodes["gpu-001"]
    node.processes = [process(77 + n, n, rank=n, job="4711", logs=["/logs/a.log"]) for n in range(2)]
    node.logs = [LogFile("/logs/a.log", searched_to=0, grown_at=NODE_TIME - 200)]
    stands = standing(AlertBook(load_packs(), Thresholds()), fleet, START, NODE_TIME)
    reported = report(fleet, placed_conditions(fleet, START), START, NODE_TIME, stands)
    sentences([line.text for line in reported.notices])
    sentences(reported.verdict.text)
    facts = fleet_facts(fleet, [], START, NODE_TIME, stands)
    silent = {
        "job": "4711",
        "ranks": 2,
        "nodes": ["gpu-001"],
        "silent_s": 200.0,
        "usual_s": None,
        "hang_check": None,
    }
    assert facts["silent_jobs"] == [{**silent, "stopped": [], "all_stopped": False, "blocked": []}]
    assert facts["healthy"]
    node.processes[1] = replace(node.processes[1], state="T")
    stands = standing(AlertBook(load_packs(), Thresholds()), fleet, START, NODE_TIME)
    (job,) = fleet_facts(fleet, [], START, NODE_TIME, stands)["silent_jobs"]
    assert (job["stopped"], job["all_stopped"]) == (["rank 1 (gpu-001)"], False)
    node.processes[1] = replace(node.processes[1], state="S")
    node.logs = [LogFile("/logs/a.log", searched_to=0, grown_at=NODE_TIME - 20)]
    assert standing(AlertBook(load_packs(), Thresholds()), fleet, START, NODE_TIME).silent == ()


@pytest.mark.parametrize(("step_s", "well"), [(0.25, False), (8.0, False), (30.0, True)])
def test_a_silent_job_that_logged_steps_far_more_often_before_is_not_healthy(
    step_s: float, well: bool
) -> None:
    fleet = healthy_fleet(gpus=2)
    node = fleet.nodes["gpu-001"]
    node.processes = [process(77 + n, n, rank=n, job="4711", logs=["/logs/a.log"]) for n in range(2)]
    node.logs = [LogFile("/logs/a.log", searched_to=0, grown_at=NODE_TIME - 200)]
    logged = RankProgress("gpu-001", "/logs/a.log", job="4711")
    logged.past = [LoggedStep(step, START - 200 - (9 - step) * step_s, None) for step in range(10)]
    fleet.progress.writers["gpu-001", "/logs/a.log", None, None, None, None] = logged
    stands = standing(AlertBook(load_packs(), Thresholds()), fleet, START, NODE_TIME)
    facts = fleet_facts(fleet, [], START, NODE_TIME, stands)
    assert facts["silent_jobs"][0]["usual_s"] == step_s
    assert facts["healthy"] is well


@pytest.mark.parametrize(("hang_s", "silent"), [(30.0, 1), (60.0, 0), (600.0, 0)])
def test_a_job_is_silent_after_two_windows_of_the_hosts_file(hang_s: float, silent: int) -> None:
    fleet = healthy_fleet(gpus=2)
    fleet.plan = replace(fleet.plan, thresholds=Thresholds(hang_s=hang_s))
    node = fleet.nodes["gpu-001"]
    node.processes = [process(77 + n, n, rank=n, job="4711", logs=["/logs/a.log"]) for n in range(2)]
    node.logs = [LogFile("/logs/a.log", searched_to=0, grown_at=NODE_TIME - 100)]
    book = AlertBook(load_packs(), fleet.plan.thresholds)
    assert len(standing(book, fleet, START, NODE_TIME).silent) == silent


@pytest.mark.parametrize(
    ("age_s", "grown_s", "stepless", "silent"),
    [
        pytest.param(14, None, [(14.0, None)], [], id="it has just started and written nothing"),
        pytest.param(14, 300, [(14.0, None)], [], id="its file holds only an earlier run"),
        pytest.param(300, None, [(300.0, None)], [300.0], id="it has written nothing for longer than a hang"),
        pytest.param(90, 20, [(90.0, 20.0)], [], id="it writes, and no step yet"),
        pytest.param(7200, 20, [], [], id="it has written lines without steps for hours"),
    ],
)
def test_a_job_of_which_no_step_was_seen_is_no_part_of_an_all_clear(
    age_s: float, grown_s: float | None, stepless: list[object], silent: list[float], sentences: Sentences
) -> None:
    fleet = healthy_fleet(gpus=2)
    node = fleet.nodes["gpu-001"]
    start = NODE_TIME - age_s
    node.processes = [
        process(77 + n, n, rank=n, job="4711", logs=["/logs/a.log"], start=start) for n in range(2)
    ]
    grown_at = None if grown_s is None else NODE_TIME - grown_s
    node.logs = [LogFile("/logs/a.log", searched_to=0, grown_at=grown_at)]
    stands = standing(AlertBook(load_packs(), Thresholds()), fleet, START, NODE_TIME)
    assert [(each.started_s, each.line_s) for each in stands.stepless] == stepless
    assert [each.seconds for each in stands.silent] == silent
    facts = fleet_facts(fleet, [], START, NODE_TIME, stands)
    assert [each["job"] for each in facts["stepless_jobs"]] == ["4711"] * len(stepless)
    assert facts["healthy"]
    reported = report(fleet, [], START, NODE_TIME, stands)
    sentences([*[line.text for line in reported.notices], reported.verdict.text])


@pytest.mark.parametrize("severity", ["critical", "error", "warning"])
def test_an_alert_outside_all_incidents_is_no_all_clear(severity: Severity) -> None:
    fleet = healthy_fleet()
    proof = Proof("line", "words", NODE_TIME, file="/logs/a.log", offset=0)
    alert = Alert("a", "peer.connection_lost", severity, "lost", "lost", (proof,), role="echo")
    stands = Standing(alerts=(alert,))
    reported = report(fleet, [], START, NODE_TIME, stands)
    assert reported.verdict.text.endswith(f": 1 {severity}")
    assert not healthy(fleet, [], START, stands)


@pytest.mark.parametrize(
    ("rank", "node", "job", "shown"),
    [(None, None, "4712", "job 4712"), (2, None, "ht", "rank 2 of job ht"), (2, "n4", "ht", "rank 2 (n4)")],
)
def test_an_alert_without_a_node_names_its_job(
    rank: int | None, node: str | None, job: str, shown: str
) -> None:
    alert = Alert("a", "slurm.cancelled", "warning", "x", "x", (), node=node, rank=rank, job=job)
    assert whereabouts([alert]) == shown
