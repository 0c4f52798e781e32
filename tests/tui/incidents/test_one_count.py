"""One count of problems on all screens; an acknowledged incident is active until its cause is gone."""

from __future__ import annotations

import re
import time

import pytest
from msgspec import structs
from textual.widgets import Tab

from gpuwatch import wire
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.alerts.condition_alerts import AlertIndex, as_alert
from gpuwatch.diagnose.model.condition import Condition, Evidence
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.demo.links import EPOCH
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.tui.chrome.status_bar import StatusLine
from gpuwatch.tui.fleet.problems.active_problems import ActiveProblems
from gpuwatch.tui.incidents.screen import IncidentsScreen
from gpuwatch.tui.model.alert_snapshot import kinds
from gpuwatch.tui.model.unalerted import Unalerted
from gpuwatch.tui.toolkit.lines.rows import text_of
from tests.bench.live.latency import alerts_on
from tests.tui import still_probes
from tests.tui.screen_text import fleet_of, text_on
from tests.tui.scripted_alerts import StillBook, demo_incident, disk_alert, timeout_alert
from tests.tui.still import NOW, StillSession, demo_session, judged_session, still_app

SECOND = 95.0
HELLO = wire.Hello(t=1.0, seq=0, host="n", agent="1", python="3", pid=1, interval_s=1.0)


def counts_in(text: str) -> list[tuple[int, int, int]]:
    """Every `4 critical, 2 errors, 1 warning` of a screen."""
    found = re.findall(r"(\d+) critical, (\d+) errors?, (\d+) warning", text)
    return [(int(a), int(b), int(c)) for a, b, c in found]


def rows_in(text: str) -> tuple[int, int, int]:
    """The rows of the alert list that fire, by their mark."""
    signs = re.findall(r"^ (.) firing\b", text.partition("─ Alerts ─")[2], re.MULTILINE)
    return signs.count("✖"), signs.count("◆"), signs.count("▲")


async def test_all_screens_count_the_same_problems_and_acknowledging_resolves_none() -> None:
    session = judged_session(SECOND)
    host = session.fleet.nodes["gpu-004"].host
    assert host is not None
    frame = wire.Sample(
        t=EPOCH + SECOND,
        seq=999,
        host=structs.replace(host, disks=[wire.Disk("/scratch", "lustre", 990, 1000)]),
    )
    session.fleet.apply(Arrival("gpu-004", NOW, frame))  # a condition in its hold time: no alert yet
    app = still_app(session, SECOND)
    async with app.run_test(size=(120, 60)) as pilot:
        await pilot.pause()
        reported = app.view_state.snapshot
        expected = reported.criticals, reported.errors, reported.warnings
        shown = text_on(app)
        header = re.search(r"alerts ✖ (\d+) ◆ (\d+) ▲ (\d+)", shown)
        assert header is not None
        assert (int(header[1]), int(header[2]), int(header[3])) == expected
        assert counts_in(shown) == [expected]
        assert ("gpu-011", "gpu_lost", 5) not in {entry.key for entry in fleet_of(app).situation.entries}
        index = AlertIndex(reported.alerts.values())
        assert all(index.states(name, condition) for name, condition in app.totals.worst)
        assert ("disk_full", "gpu-004") in {(alert.code, alert.node) for alert in reported.alerts.values()}
        await pilot.press("4")
        await pilot.pause()
        assert counts_in(text_on(app)) == [expected]
        assert rows_in(text_on(app)) == expected
        assert alerts_on(text_on(app)) == len(reported.alerts)  # what the benchmark `latency` waits for
        assert f" of {len({alert.code for alert in reported.alerts.values()})} kinds:" in text_on(app)
        app.show_node("gpu-011")
        await pilot.pause()
        tabs = [str(tab.label) for tab in app.screen.query(Tab)]
        assert f"Alerts {sum(kinds(reported.at('gpu-011')))}" in tabs

        incident = reported.incidents[0]
        assert isinstance(session.book, AlertBook)
        session.book.acknowledge(incident.id)
        while not any(each.acknowledged for each in session.book.incidents):
            session.book.update(session.fleet, NOW, EPOCH + SECOND)
        await pilot.press("4")
        app.pump()
        await pilot.pause()
        taken = app.view_state.snapshot.incidents[0]
        assert (taken.acknowledged, taken.over) == (True, False)
        assert app.view_state.snapshot.leading == taken
        assert app.view_state.snapshot.criticals >= expected[0]
        clock = time.strftime("%H:%M", time.localtime(EPOCH + SECOND))
        assert f"acknowledged {clock}" in text_on(app)
        assert "resolved" not in text_on(app)

        await pilot.press("1")
        await pilot.click(StatusLine, offset=(110, 1))
        await pilot.pause()
        assert isinstance(app.screen, IncidentsScreen)
        assert app.screen.detail.ident == incident.id


async def test_no_state_of_an_alert_is_cut_on_80_columns() -> None:
    session = judged_session(SECOND)
    assert isinstance(session.book, AlertBook)
    session.book.acknowledge(session.book.incidents[0].id)
    while not any(each.acknowledged for each in session.book.incidents):
        session.book.update(session.fleet, NOW, EPOCH + SECOND)
    app = still_app(session, SECOND)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4")
        await pilot.pause()
        listed = text_on(app).partition("─ Alerts ─")[2]
        assert re.search(r"^ [✖◆▲] acknowledged +\d", listed, re.MULTILINE), listed


def test_the_list_has_the_value_of_now_and_what_a_person_did_with_the_alert() -> None:
    def hot(degrees: float) -> Condition:
        evidence = Evidence("temperature", degrees, " C")
        return Condition("temperature", "warning", f"{degrees:.0f} C, close to the threshold", evidence, 2)

    fired = as_alert("gpu-006", hot(82), EPOCH, EPOCH)
    listed = Unalerted()
    for second, alert in enumerate((fired, structs.replace(fired, acknowledged=True)), 1):
        listed.refresh([("gpu-006", hot(84 + second))], {alert.id: alert}, second, EPOCH + 2 * second)
        shown = listed.alerts[alert.id]
        assert shown.text.startswith(f"{84 + second} C")
        assert shown.acknowledged is alert.acknowledged
    listed.refresh([("gpu-006", hot(82))], {fired.id: fired}, 3, EPOCH + 9)
    assert listed.alerts == {}
    for after_s, texts in ((4, []), (20, [hot(82).text])):  # it still fires without its condition
        listed.refresh([], {fired.id: fired}, 3, EPOCH + 9 + after_s)
        assert [alert.text.partition(", last seen ")[0] for alert in listed.alerts.values()] == texts
    listed.refresh([], {fired.id: structs.replace(fired, state="resolved")}, 4, EPOCH + 30)
    assert listed.alerts == {}


@pytest.mark.parametrize("width", [80, 120, 200])
async def test_an_acknowledgement_of_another_day_has_its_date(width: int) -> None:
    at = EPOCH + SECOND - 2 * 86_400
    taken = structs.replace(disk_alert(), acknowledged=True, acknowledged_at=at)
    book = StillBook([structs.replace(demo_incident(), acknowledged=True, acknowledged_at=at)], [taken])
    app = still_app(demo_session(SECOND, book=book), SECOND)
    day = time.strftime("%Y-%m-%d", time.localtime(at))
    async with app.run_test(size=(width, 40)) as pilot:
        await pilot.pause()
        problems = text_on(app).partition("─ Active problems ")[2]
        assert width == 80 or f"▲ acknowledged {day}" in problems, problems  # the disk's: still a problem
        await pilot.press("4")
        await pilot.pause()
        shown = text_on(app)
        assert f"acknowledged {day} " in shown, shown
        assert shown.count(f"acknowledged {day}") == 2 + (width == 200), shown  # banner, facts, wide list


async def test_many_incidents_leave_room_for_the_active_problems() -> None:
    one = demo_incident()
    many = [
        structs.replace(one, id=f"i{number}", number=number, acknowledged=number > 10)
        for number in range(20, 0, -1)
    ]
    app = still_app(demo_session(SECOND, book=StillBook(many)), SECOND)
    async with app.run_test(size=(120, 60)) as pilot:
        await pilot.pause()
        shown = text_on(app)
        assert re.search(r"\b15 more\b.*\b4\b", shown), shown
        assert "─ Active problems ─" in shown, shown
        listed = [entry.key for entry in app.screen.query_one(ActiveProblems).entries[:5]]
        assert listed == [("incident", f"i{number}") for number in (10, 9, 8, 7, 6)]


async def test_an_alert_outside_of_the_active_incident_is_an_active_problem() -> None:
    segfault = structs.replace(
        disk_alert(), id="a-segv", code="proc.segfault", severity="error", title="Segmentation fault",
        text="segmentation fault",
    )  # fmt: skip
    sample = wire.Sample(t=1.0, seq=1, host=wire.HostSample(t=1.0))
    arrived = [Arrival("gpu-004", NOW, what) for what in (LinkStatus("live"), HELLO, sample)]
    for alerts in ([segfault], []):
        book = StillBook([demo_incident()], alerts)
        app = still_app(StillSession(Plan(nodes=(NodeSpec("gpu-004"),)), arrived, book))
        async with app.run_test(size=(120, 40)) as pilot:
            shown = [text_of(row) for row in app.screen.query_one(ActiveProblems).build(100)]
            below = shown[1 + next(i for i, row in enumerate(shown) if "─ Active problems ─" in row)]
            assert ("gpu-004: Segmentation fault" in below) is bool(alerts), below
            assert ("none" in below) is (not alerts), below
            fleet = fleet_of(app)
            assert timeout_alert(30).title in fleet.table.copy_text()
            snapshot = app.view_state.snapshot
            (cause,) = (incident.cause for incident in snapshot.incidents)
            assert cause is not None
            at_cause = structs.replace(snapshot, unnamed_node="gpu-004").listed_at(cause)
            worse = structs.replace(segfault, id="z", severity="critical", first=1.0, node=at_cause)
            listed = structs.replace(snapshot, alerts={**snapshot.alerts, cause.id: cause, "z": worse})
            assert listed.worst_by_node()[str(at_cause)] == cause, "the row names what the banner names"
            await pilot.press("exclamation_mark")
            assert [view.name for view in fleet.shown.views] == ["gpu-004"], "an alert fires on it"


async def test_a_slow_link_of_the_newest_probe_is_a_problem_on_every_screen_until_it_is_healthy() -> None:
    session, results = judged_session(14), still_probes.done()
    book, now = session.book, NOW
    assert isinstance(book, AlertBook)
    assert results.verdict is not None
    for verdict, firing in ((results.verdict, 1), (structs.replace(results.verdict, status="ok"), 0)):
        now, results.version, results.verdict = now + 10, results.version + 1, verdict
        book.probed.take(results)
        while "probe_slow" not in {alert.code for alert in book.alerts.values()} or book.behind:
            book.update(session.fleet, now, EPOCH + 14)
        book.update(session.fleet, now, EPOCH + 14)
        app = still_app(session, 14)
        async with app.run_test(size=(160, 45)) as pilot:
            await pilot.pause()
            reported, fleet = app.view_state.snapshot, fleet_of(app)
            assert (reported.criticals, len(reported.probed), len(reported.incidents)) == (firing, firing, 0)
            found = [entry.node for entry in fleet.situation.entries if entry.code == "probe_slow"]
            assert found == ["gpu-013"] * firing
            await pilot.press("exclamation_mark")
            assert [view.name for view in fleet.shown.views] == found
            await pilot.press("4")
            await pilot.pause()
            rows = [line for line in text_on(app).splitlines() if "probe_slow" in line]
            assert [("firing" in line, "gpu-013" in line) for line in rows] == [(firing == 1, True)]
