"""Facts that cannot be judged, or are too many, cost the node that reported them its link and nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuwatch.diagnose.health import sweep
from gpuwatch.diagnose.health.conditions import node_conditions
from gpuwatch.fleet.fleet import MAX_CHARACTERS, Fleet
from gpuwatch.fleet.jobs.rank_places import KEPT_ENDED, places_of
from gpuwatch.fleet.node_limits import MAX_GPUS_PER_NODE, MAX_PROCESSES_PER_NODE
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.fleet.stepwise import Steps
from gpuwatch.hosts.load import parse_plan
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.session import Session
from gpuwatch.wire import (
    AnyFrame,
    Event,
    Finding,
    GpuInfo,
    Hello,
    HostSample,
    Process,
    Progress,
    Ranks,
    Sample,
)

HELLO = Hello(t=1.0, seq=1, host="h", agent="1", python="3", pid=1, interval_s=1.0)


class Links:
    """Records whose connection is ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def hang_up(self, node: str, _reason: str) -> None:
        self.ended.append(node)

    def send(self, _node: str, _request: object) -> bool:
        return True

    def dialer(self, _node: str) -> None:
        return None


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("gpuwatch.session.session.open_links", lambda *_, **__: Links())  # nothing is dialled
    session = Session(parse_plan("hosts: [good, bad, other]", "test"))
    for node in session.fleet.nodes:
        report(session, node, LinkStatus("live"))
        report(session, node, HELLO)
    return session


def report(session: Session, node: str, what: AnyFrame | LinkStatus) -> None:
    session.inbox.put(Arrival(node, 1.0, what))


def test_an_exception_in_a_judgement_costs_the_node_that_it_is_about_its_link(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(node: Any, *arguments: Any) -> Any:
        if node.host is not None and node.host.cpu_pct == 13.0:
            raise ZeroDivisionError
        return node_conditions(node, *arguments)

    monkeypatch.setattr(sweep, "node_conditions", fails)
    finding = Finding(
        t=1.0, seq=1, id=1, rule="oom.cuda", severity="error", file="/a", offset=0, at=1.7e9, lines=["x"]
    )
    for node in ("good", "bad"):
        report(session, node, finding)
    report(session, "bad", Sample(t=1.0, seq=2, host=HostSample(t=1.0, cpu_pct=13.0)))
    session.poll()
    assert session._links.ended == ["bad"]  # type: ignore[attr-defined]
    assert [type(fault) for fault in session.faults] == [ZeroDivisionError]
    assert {key[0] for key in session.fleet.findings} == {"good"}
    assert session.fleet.nodes["bad"].host is None
    assert session.fleet.nodes["bad"].link.phase == "live"
    for _ in range(3):
        session.poll()
    assert session._links.ended == ["bad"]  # type: ignore[attr-defined]
    assert {alert.node for alert in session.book.alerts.values() if alert.code == "oom.cuda"} == {"good"}


def test_an_exception_while_a_frame_is_applied_costs_its_own_node_the_link(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = Fleet.apply

    def fails(fleet: Fleet, arrival: Arrival) -> None:
        frame = arrival.what
        if isinstance(frame, Sample) and frame.host is not None and frame.host.cpu_pct == 13.0:
            raise ZeroDivisionError
        apply(fleet, arrival)

    monkeypatch.setattr(Fleet, "apply", fails)
    for node, cpu_pct in (("bad", 13.0), ("good", 12.0)):
        report(session, node, Sample(t=1.0, seq=2, host=HostSample(t=1.0, cpu_pct=cpu_pct)))
    session.poll()
    assert session._links.ended == ["bad"]  # type: ignore[attr-defined]
    good = session.fleet.nodes["good"]
    assert good.link.phase == "live"
    assert good.host is not None
    assert good.host.cpu_pct == 12.0


def test_a_fault_that_is_of_no_node_is_not_hidden(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_self: object, fleet: Fleet, *_arguments: object) -> Steps[bool]:
        yield
        if len(fleet.nodes) > 1:
            raise ZeroDivisionError
        return False

    monkeypatch.setattr(sweep.HealthSweep, "going", fails)
    with pytest.raises(ZeroDivisionError):
        session.poll()


def ranked(count: int, number: int = 0) -> Ranks:
    """A list of ranks; `number`: another one is of other jobs."""
    rows = [
        Process(pid, "p", rank=pid, job=f"j{number}-{pid % 500}", world_size=9000) for pid in range(count)
    ]
    return Ranks(t=1.0, seq=3, processes=rows)


@pytest.mark.parametrize("count", [MAX_PROCESSES_PER_NODE + 1, 9_000])
def test_a_list_of_more_processes_than_an_agent_sends_costs_the_link(session: Session, count: int) -> None:
    report(session, "bad", ranked(count))
    report(session, "good", ranked(MAX_PROCESSES_PER_NODE))
    session.poll()
    assert session._links.ended == ["bad"]  # type: ignore[attr-defined]
    assert not session.fleet.nodes["bad"].processes
    assert len(session.fleet.nodes["good"].processes) == MAX_PROCESSES_PER_NODE


def test_ranks_that_change_without_an_end_cost_the_link_and_little_memory(session: Session) -> None:
    for number in range(60):
        report(session, "bad", ranked(800, number))
        report(session, "good", ranked(8, number))
        report(session, "other", ranked(800))
        session.poll()
    assert set(session._links.ended) == {"bad"}  # type: ignore[attr-defined]
    assert len(session.book.places.ranks) < 10_000


def progress(number: int, **places: Any) -> Progress:
    return Progress(
        **{"t": 1.0, "seq": 9, "offset": number, "at": 1.0, "file": "/logs/job.log", "job": "4711", **places},
        timed=True,
        dialect="x",
        fields={"step": number, "loss": "nan"},
        phases_s={f"p{number}-{phase}": 1.0 for phase in range(20)},
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["file", "job"])
def test_progress_of_ever_new_files_or_jobs_costs_the_link_and_little_memory(
    session: Session, kind: str
) -> None:
    for number in range(3000):
        report(session, "bad", progress(number, **{kind: f"{kind}-{number}"}))
        if number % 300 == 0:
            session.poll()
    session.poll()
    assert set(session._links.ended) == {"bad"}  # type: ignore[attr-defined]
    assert len(session.fleet.progress.writers) <= 1024
    assert len(session.book.alerts) <= 1024


def test_the_logs_of_large_jobs_cost_no_link(session: Session) -> None:
    for number in range(2048):
        launcher = f"/logs/launcher-{number % 2}.log"
        report(session, "good", progress(1, file=launcher, rank=number // 2))
    for number in range(512):
        report(session, "other", progress(1, file=f"/logs/{number}.log", job=str(number)))
    session.poll()
    assert session._links.ended == []  # type: ignore[attr-defined]
    assert len(session.fleet.progress.writers) == 2560


def test_ranks_that_ended_are_kept_up_to_a_bound() -> None:
    node = Node(NodeSpec("a"), 1.0)
    known = None
    for number in range(2 * KEPT_ENDED // 800 + 2):
        node.processes = ranked(800, number).processes
        known = places_of([node], known, float(number))
    assert known is not None
    ended = [place for place in known.ranks if place.until is not None]
    assert len(ended) == KEPT_ENDED
    assert min(place.until or 0.0 for place in ended) >= number - 3


def test_a_node_with_more_gpus_than_any_machine_has_loses_its_link(session: Session) -> None:
    for half in range(2):
        gpus = [GpuInfo(uuid=f"GPU-{half}-{n}", index=n, name="x") for n in range(MAX_GPUS_PER_NODE // 2 + 1)]
        report(
            session,
            "bad",
            Hello(t=1.0, seq=2, host="h", agent="1", python="3", pid=1, interval_s=1.0, gpus=gpus),
        )
    session.poll()
    assert session._links.ended == ["bad"]  # type: ignore[attr-defined]
    assert len(session.fleet.nodes["bad"].gpus) <= MAX_GPUS_PER_NODE
    assert len(session.faults) == 1


def test_the_text_of_a_nodes_findings_is_bounded_and_no_other_node_loses_any() -> None:
    fleet = Fleet(Plan(nodes=(NodeSpec("a"), NodeSpec("b")), source="test"))
    lines = ["x" * 60_000] * 10
    for number in range(100):
        finding = Finding(
            t=1.0, seq=1, id=number, rule="r", severity="error", file="/a", offset=0, at=1.0, lines=lines
        )
        fleet.apply(Arrival("b" if number == 0 else "a", 1.0, finding))
    kept = [key for key in fleet.findings if key[0] == "a"]
    assert (len(kept), kept[-1][2]) == (MAX_CHARACTERS // 600_000, 99)
    assert [key for key in fleet.findings if key[0] == "b"] == [("b", 0.0, 0)]


@pytest.mark.parametrize(("count", "ended"), [(2_000, []), (4_000, ["bad"])])
def test_findings_about_ever_new_hosts_cost_the_link(session: Session, count: int, ended: list[str]) -> None:
    """The log of a launcher may name every node of a large job."""
    for number in range(count):
        finding = Finding(
            t=1.0, seq=1, id=number, rule="oom.cuda", severity="error", file="/a", offset=number, at=1.7e9,
            lines=["x"], host=f"host-{number}",
        )  # fmt: skip
        report(session, "bad", finding)
    session.poll()
    assert sorted(set(session._links.ended)) == ended  # type: ignore[attr-defined]


def test_what_is_forgotten_is_all_that_a_node_reported(session: Session) -> None:
    for node in ("good", "bad"):
        report(session, node, Event(t=1.0, seq=2, event="xid", title="x", code=79, severity="critical"))
    session.poll()
    session.fleet.forget("bad")
    assert session.fleet.nodes["bad"].hello is None
    assert [event.node for event in session.fleet.events] == ["good"]
    assert session.fleet.nodes["good"].hello == HELLO


def test_quick_frames_are_timed_without_reading_the_cpu_clock_each(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, reads = [100.0], []

    def wall() -> float:
        now[0] += 0.0001
        return now[0]

    def cpu() -> float:
        reads.append(now[0])
        return now[0]

    monkeypatch.setattr("gpuwatch.session.containment.monotonic", wall)
    monkeypatch.setattr("gpuwatch.session.containment.thread_time", cpu)
    for _ in range(1_000):
        session._containment.apply(Arrival("good", 2.0, Sample(t=2.0, seq=2)))
    assert len(reads) <= 50


def test_frames_that_take_a_share_of_a_core_end_the_link_and_a_stopped_process_does_not(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, cpu = [100.0], [0.0]
    monkeypatch.setattr("gpuwatch.session.containment.monotonic", lambda: now[0])
    monkeypatch.setattr("gpuwatch.session.containment.thread_time", lambda: cpu[0])

    def take(wall_s: float, cpu_s: float) -> None:
        def apply(_arrival: Arrival) -> None:
            now[0], cpu[0] = now[0] + wall_s, cpu[0] + cpu_s

        monkeypatch.setattr(session.fleet, "apply", apply)
        session._containment.apply(Arrival("bad", 2.0, Sample(t=2.0, seq=2)))

    for _ in range(20):
        take(1.0, 0.01)
    assert session._links.ended == []  # type: ignore[attr-defined]  # of the fake
    for _ in range(20):
        take(0.5, 0.5)
    assert set(session._links.ended) == {"bad"}  # type: ignore[attr-defined]  # of the fake
