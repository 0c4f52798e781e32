"""Screen 4 and what all other screens say of alerts, over the demo's incident built by hand."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from msgspec import structs
from textual.pilot import Pilot

from gpuwatch import wire
from gpuwatch.clock import SessionClock
from gpuwatch.diagnose.model.alert import Proof
from gpuwatch.diagnose.model.incident import Moment
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.fleet.logs.log_coverage import ranks_without_log
from gpuwatch.link.demo.links import EPOCH
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.rules.model.rule_ids import RANK_ERROR_UNEXPLAINED
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.chrome.status_bar import StatusLine, quiet
from gpuwatch.tui.fleet.screen import FleetScreen
from gpuwatch.tui.incidents.alert_list import alert_cells, cells_row
from gpuwatch.tui.incidents.evidence_location import location_after, location_of, ranks_of, spots_by_rank
from gpuwatch.tui.incidents.incident_timeline import parts_of
from gpuwatch.tui.incidents.screen import IncidentsScreen
from gpuwatch.tui.logs.screen import LogsScreen
from gpuwatch.tui.model.alert_snapshot import bundles, take_snapshot
from gpuwatch.tui.model.preferences import Preferences
from gpuwatch.tui.node.alerts_pane import alert_rows
from gpuwatch.tui.node.gpu_screen import GpuScreen
from gpuwatch.tui.toolkit.cockpit import OpenRequest
from gpuwatch.tui.toolkit.lines.rows import text_of
from gpuwatch.tui.toolkit.styles import build_styles
from tests.tui.screen_text import text_on
from tests.tui.scripted_alerts import (
    StillBook,
    demo_book,
    demo_incident,
    disk_alert,
    timeout_alert,
    xid_alert,
)
from tests.tui.still import NOW, demo_session, judged_session, still_app

SENTENCE = "rank 85 (gpu-011 GPU 5): Xid 79, GPU fell off the bus 08:00:45; 127 ranks then timed out in"
SIZES = [(80, 24), (120, 40), (200, 60)]


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names a time of day."""
    import time  # noqa: PLC0415 - loaded by this test alone

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def incident_app(book: StillBook | None = None) -> GpuwatchApp:
    return still_app(demo_session(95, book=book or demo_book()), 95)


def incidents_of(app: GpuwatchApp) -> IncidentsScreen:
    assert isinstance(app.screen, IncidentsScreen)
    return app.screen


def flat(app: GpuwatchApp) -> str:
    """All that is shown, line ends forgotten."""
    return " ".join(text_on(app).split())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", SIZES)
async def test_the_first_screen_says_who_why_and_what_to_do(size: tuple[int, int]) -> None:
    app = incident_app()
    async with app.run_test(size=size) as pilot:
        await pilot.press("4")
        await pilot.pause()
        shown = flat(app)
    assert SENTENCE in shown
    assert "50s ago" in shown
    assert "Confidence: high" in shown
    step = demo_incident().do[0].partition(": ")[0]
    assert f"1 {step}" in shown
    assert re.search(r"\+30\.\ds [\w ]+ ALLREDUCE", shown)
    assert "127 ranks" in shown


async def test_every_screen_leads_with_the_incident() -> None:
    app = incident_app()
    async with app.run_test(size=(200, 60)) as pilot:
        await pilot.pause()
        assert SENTENCE in text_on(app).splitlines()[1]
        assert "alerts ✖ 2 ▲ 1" in text_on(app)
        for key in ("2", "enter", "4"):
            await pilot.press(key)
            await pilot.pause()
            assert SENTENCE in text_on(app).splitlines()[1], app.screen


async def test_the_situation_leads_with_it_and_enter_opens_it() -> None:
    app = incident_app()
    async with app.run_test(size=(80, 24)) as pilot:
        assert isinstance(app.screen, FleetScreen)
        app.screen.situation.focus()
        await pilot.pause()
        assert SENTENCE in flat(app)
        await pilot.press("enter")
        await pilot.pause()
        assert incidents_of(app).detail.ident == "i-1"
        await pilot.press("minus")
        assert isinstance(app.screen, FleetScreen)


async def test_enter_leads_to_the_very_line_r_to_the_next_rank_m_to_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = incident_app()
    opened: list[OpenRequest] = []
    monkeypatch.setattr(app, "show_logs", opened.append)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4")
        await pilot.press("enter", "r", "r", "m")
    first, second, third, everyone = opened
    assert (first.node, first.file, first.offset) == ("gpu-011", "kernel log", 15)
    assert str(second.file).endswith("rank_057.log")  # of the others, the first to report
    assert second.offset == timeout_alert(57).proof[0].offset
    assert (third.at or 0.0) >= (second.at or 0.0) > 0.0
    assert everyone.merged
    assert everyone.ranks[0] == 85
    assert len(everyone.ranks) == 128


async def test_enter_on_the_end_of_a_rank_leads_to_its_exception_and_on_a_proof_to_that_proof(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base, offsets = xid_alert(), {"own.log": 70, "launcher.log": 7, "table.log": 9}
    own, launcher, table = (
        Proof("line", file, base.first, node="gpu-011", file=file, offset=offset)
        for file, offset in offsets.items()
    )
    raised = structs.replace(base, id="a-raised", code="python.exception", proof=(own,))
    ended = structs.replace(base, id="a-end", code="rank.exit_error", proof=(launcher, table))
    incident = structs.replace(demo_incident(), cause=ended, alerts=(ended, raised))
    app = incident_app(StillBook([incident]))
    opened: list[tuple[str, int]] = []
    monkeypatch.setattr(app, "show_logs", lambda asked: opened.append((asked.file, asked.offset)))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4", "enter", "m")
        detail = incidents_of(app).detail
        detail.focus()
        shown = [number for number, item in enumerate(detail.page_items) if item.text in offsets]
        for number in shown:
            detail.go(number)
            await pilot.press("enter")
    expected = [*offsets.items()]
    assert opened == [expected[0], expected[0], *expected]


async def test_enter_on_an_alert_without_a_line_goes_to_its_gpu_and_a_fold_opens() -> None:
    bare = structs.replace(xid_alert(), id="a-hot", code="temperature", proof=())
    app = incident_app(StillBook([demo_incident()], [bare]))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4")
        alerts = incidents_of(app).alerts
        alerts.focus()
        await pilot.pause()
        assert alerts.items() == 3
        alerts.go_to(("nccl.watchdog_timeout", "firing"))
        await pilot.press("enter")
        assert alerts.items() == 3 + 127
        await pilot.press("enter")
        alerts.go_to("a-hot")
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, GpuScreen)
        assert "Xid 79, " in text_on(app)


def test_the_map_of_ranks_counts_as_many_followers_as_the_sentence() -> None:
    (incident,) = judged_session(95).book.incidents  # the nodes of most ranks run none of them any more
    assert len(incident.silent) > 100
    parts = Counter(parts_of(incident, 128))
    assert (parts["cause"], parts["follower"], parts["silent"]) == (1, incident.followers, 0)
    hot = Moment(incident.first - 20, incident.first + 10, "74 C", "hint", "hotter_than_peers", ranks=(42,))
    before_echoes = structs.replace(incident, timeline=(hot,), silent=())
    assert Counter(parts_of(before_echoes, 128))["follower"] == 0  # it was hot before the fault


async def test_acknowledged_is_dim_and_stays_in_the_status_line_and_back() -> None:
    book = demo_book()
    app = incident_app(book)
    async with app.run_test(size=(120, 40)) as pilot:
        loud = app.look.badge["critical"].bgcolor
        await pilot.press("4", "a")
        await pilot.pause()
        assert book.incidents[0].acknowledged
        assert "acknowledged  08:00:45" in text_on(app)
        banner = app.screen.query_one(StatusLine)
        assert SENTENCE[:30] in text_on(app).splitlines()[1]
        assert not any(part.style and part.style.bgcolor == loud for part in banner.render_line(1))
        await pilot.press("a")
        await pilot.pause()
        assert not book.incidents[0].acknowledged
        assert SENTENCE[:30] in text_on(app).splitlines()[1]


@pytest.mark.parametrize("width", [80, 120])
async def test_an_acknowledged_incident_is_called_so_in_the_banner_at_every_width(width: int) -> None:
    book = demo_book()
    app = incident_app(book)
    async with app.run_test(size=(width, 24)) as pilot:
        book.acknowledge(book.incidents[0].id, on=True)
        app.pump()
        await pilot.pause()
        banner, problem = text_on(app).splitlines()[1], app.look.glyph("critical")
        assert "acknowledged: rank 85 (gpu-011 GPU 5)" in banner
        assert "1 lost" in banner
        line = next(each for each in text_on(app).splitlines()[3:] if "rank 85 (gpu-011 GPU 5)" in each)
        assert line.startswith(problem)  # not the sign of an unknown state


async def test_the_columns_of_the_alerts_are_as_wide_as_their_longest_values() -> None:
    app = still_app(judged_session(52), 52)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4")
        await pilot.pause()
        title, *lines = text_on(app).partition("─ Alerts ─")[2].splitlines()[1:]
        lines = [line for line in lines if "firing" in line]
        assert len(lines) >= 4
        assert title.index("since") - title.index("state") <= len("resolved") + len(" since")
        code, what = title.index("code"), title.index("what")
        assert {line[code - 1] + line[what - 1] for line in lines} == {"  "}
        assert max(len(line[code:what].rstrip()) for line in lines) <= what - code - 1
        assert not any("Xid 154" in line and "~" in line for line in lines)


async def test_a_cut_alert_is_shown_whole_under_the_cursor() -> None:
    cause = "slows all 128 ranks by 41 %: thermal throttling, a step takes 4.5 s, usual 3.2 s"
    slow = structs.replace(disk_alert(), text=cause, rank=42)
    other = structs.replace(disk_alert(), id="a-2", code="other")
    for title, at_once in (("Straggler", True), ("Other", False)):
        book = StillBook((), [structs.replace(slow, title=title), other])
        app = still_app(demo_session(14, book=book), 14)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("4")
            await pilot.pause()
            assert (cause in flat(app)) is at_once  # the rank that slows its job needs no cursor
            alerts = incidents_of(app).alerts
            alerts.focus()
            alerts.go_to(slow.id)
            while cause not in flat(app):
                await pilot.pause(0.05)


async def test_the_lost_gpu_stays_beside_the_sentence_whatever_the_number_of_alerts() -> None:
    kinds = [("critical", 10), ("error", 11), ("warning", 12)]
    alerts = [
        structs.replace(
            xid_alert(), id=f"{severity} {number}", code=f"{severity} {number}", severity=severity
        )
        for severity, count in kinds
        for number in range(count)
    ]
    app = incident_app(StillBook([demo_incident()], alerts))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        line = text_on(app).splitlines()[1]
        assert "1 lost" in line
        assert SENTENCE.partition(";")[0] in line


async def test_silence_is_for_the_alert_under_the_cursor_at_its_place() -> None:
    book = demo_book()
    app = incident_app(book)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4")
        alerts = incidents_of(app).alerts
        alerts.focus()
        alerts.go_to("a-disk")
        await pilot.press("x")
        await pilot.pause()
        assert book.alerts["a-disk"].silenced
        assert not book.alerts["a-xid"].silenced
        assert "silenced" in text_on(app)
        await pilot.press("exclamation_mark")
        await pilot.pause()
        assert "disk_full" not in text_on(app)
        await pilot.press("exclamation_mark")
        alerts.go_to("a-disk")
        await pilot.press("x")
        await pilot.pause()
        assert not book.alerts["a-disk"].silenced


async def test_y_copies_the_command_of_a_step() -> None:
    app = incident_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4", "y")
        assert app.clipboard.startswith(SENTENCE)
        await pilot.press("down", "y")
        assert app.clipboard.split()[0] == "scontrol"
        assert "nodename=gpu-011" in app.clipboard


async def test_without_an_incident_it_says_what_that_is_worth() -> None:
    session = demo_session(14)
    files = [
        wire.LogFile("/var/log/train.log", state="unreadable", reason="permission denied"),
        wire.LogFile("/scratch/a.log"),
    ]
    session.fleet.apply(Arrival("gpu-003", NOW, wire.Logs(t=1.0, seq=1, files=files, truncated=88)))
    session.fleet.apply(Arrival("gpu-004", NOW, wire.Logs(t=1.0, seq=1, files=[])))
    app = still_app(session, 14)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4")
        await pilot.pause()
        shown = flat(app)
        for key, words in {"r": "no incident; 3", "m": "no incident; 3", "a": "no incident or alert"}.items():
            await pilot.press(key)
            await pilot.pause()
            assert words in next(iter(app._notifications)).message
    assert "No incidents detected." in shown
    assert re.search(r"127 \D+ 15 of 16 nodes \D+ 170 rules", shown)
    assert re.search(r"no log file .* gpu-004", shown)
    assert "permission denied: gpu-003 /var/log/train.log" in shown
    assert "gpu-003 88 files" in shown


async def test_a_new_incident_is_reported_once_and_rings_only_when_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for bell in (False, True):
        session = demo_session(95)
        app = GpuwatchApp(session, clock=SessionClock(lambda: NOW), preferences=Preferences(bell=bell))
        rings: list[bool] = []
        monkeypatch.setattr(app, "bell", lambda rings=rings: rings.append(True))
        async with app.run_test(size=(120, 40)) as pilot:
            session.book = demo_book()
            session.book.version = 99
            for _ in range(3):
                app.pump()
                await pilot.pause()
            reported = [note.message for note in app._notifications]
            assert len(reported) == 1
            assert "incident 1" in reported[0]
            assert rings == [True] * bell


async def test_frozen_holds_incidents_still() -> None:
    session = demo_session(95, book=demo_book())
    app = still_app(session, 95)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4", "p")
        session.book.incidents.clear()
        session.book.alerts.clear()
        session.book.version += 1
        app.pump()
        await pilot.pause()
        assert SENTENCE in flat(app)
        await pilot.press("p")
        await pilot.pause()
        assert SENTENCE not in flat(app)
        assert "No incidents detected." in flat(app)


async def test_many_incidents_are_listed_the_cursor_chooses_which_is_whole() -> None:
    other = structs.replace(
        demo_incident(), id="i-0", number=1, headline="rank 3 (gpu-001 GPU 3) ran out of GPU memory 07:10:00",
        first=demo_incident().first - 3000, over=True, do=("Make the batch smaller",), settle=(),
    )  # fmt: skip
    newest = structs.replace(demo_incident(), number=2)
    app = incident_app(StillBook([newest, other]))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4")
        screen = incidents_of(app)
        screen.incidents.focus()
        await pilot.pause()
        assert screen.detail.ident == "i-1"
        await pilot.press("down")
        await pilot.pause()
        assert screen.detail.ident == "i-0"
        assert other.do[0] in text_on(app)
        assert "resolved" in text_on(app)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [(40, 12), *SIZES])
@pytest.mark.parametrize("ascii_only", [False, True])
async def test_every_line_is_as_wide_as_it_should_be(size: tuple[int, int], ascii_only: bool) -> None:
    from gpuwatch.tui.toolkit.lines.line_view import LineView  # noqa: PLC0415 - loaded by this test alone

    app = still_app(demo_session(95, book=demo_book()), 95, ascii_only=ascii_only)
    async with app.run_test(size=size) as pilot:
        await press_around(pilot)
        for part in app.screen.query(LineView):
            for y in range(part.size.height):
                assert part.render_line(y).cell_length == part.columns
        assert text_on(app).isascii() == ascii_only


async def press_around(pilot: Pilot[None]) -> None:
    await pilot.press("4", "down", "down", "up", "tab", "tab", "down", "end", "home")
    await pilot.pause()


async def test_hostile_words_do_not_steer_the_terminal() -> None:
    evil = "\x1b]52;c;AAAA\x07 \x9b31m \u202e rank 9"
    incident = structs.replace(
        demo_incident(), headline=evil, do=(evil,), because=evil, explain=evil, settle=(evil,)
    )
    alert = structs.replace(disk_alert(), text=evil, code=evil, node=evil)
    app = incident_app(StillBook([incident], [alert]))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4")
        await pilot.pause()
        assert all(line.isprintable() for line in text_on(app).splitlines())
        await pilot.press("y")
        assert app.clipboard.isprintable()


def test_alerts_fold_by_code_and_standing_causes_first() -> None:
    book = demo_book()
    book.silence("disk_full", None, None, None, on=True)
    codes = [bundle.key for bundle in bundles(book.alerts)]
    assert codes == [
        ("gpu.xid.fell_off", "firing"), ("nccl.watchdog_timeout", "firing"), ("disk_full", "silenced"),
    ]  # fmt: skip
    reported = take_snapshot(book)
    assert (reported.firing, reported.criticals, reported.warnings) == (128, 2, 0)
    assert [alert.id for alert in reported.at("gpu-011", 5)] == ["a-xid"]


def test_the_way_through_an_incident_begins_with_the_first_failure() -> None:
    incident = demo_incident()
    assert ranks_of(incident)[:3] == [85, 0, 1]
    spot = location_after(incident, None)
    assert spot is not None
    assert (spot.rank, spot.file) == (85, "kernel log")
    times = [each.at for each in spots_by_rank(incident)[1:]]
    assert len(times) == 127
    assert times == sorted(times)  # the first follower is the next, whatever its number
    last = spots_by_rank(incident)[-1]
    assert location_after(incident, last.rank) == spot
    assert location_of(disk_alert()) is None


async def test_the_demo_s_own_incident_is_reported_from_the_log_lines_alone() -> None:
    for second, following in ((47.0, ""), (95.0, "; 127 ranks then timed out in ALLREDUCE seq 2381")):
        app = still_app(judged_session(second), second)
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.press("4")
            await pilot.pause()
            whole = "rank 85 (gpu-011 GPU 5): Xid 79, GPU fell off the bus 08:00:45" + following
            for _ in range(3000):
                if whole in flat(app):
                    break
                await pilot.pause(0.02)
            assert whole in flat(app)
            assert "power-cycle" in flat(app)
            incident = incidents_of(app).incident()
            assert incident is not None
            assert incident.headline == whole
            assert len(app.view_state.snapshot.incidents) == 1
            await pilot.press("enter")
            await pilot.pause()
            assert isinstance(app.screen, LogsScreen)


async def test_before_the_fall_the_demo_has_no_incident() -> None:
    app = still_app(judged_session(44.0), 44.0)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4")
        await pilot.pause()
        assert "No incidents detected." in text_on(app)


def test_where_nodes_and_gpus_are_well_the_status_line_says_what_the_logs_tell() -> None:
    """Not that nothing is wrong, beside a count of alerts."""
    look = build_styles(ascii_only=True)
    taken = structs.replace(xid_alert(), acknowledged=True)
    (reported,) = quiet(take_snapshot(StillBook(alerts=[taken, disk_alert()])), look, 60, EPOCH)
    assert reported.text.strip() == f"! gpu-004: {disk_alert().title.lower()}: {disk_alert().text}"
    twice = structs.replace(disk_alert(), title="Segmentation fault", text="segmentation fault", node="n9")
    (stated,) = quiet(take_snapshot(StillBook(alerts=[twice])), look, 60, EPOCH)
    assert stated.text.split() == ["!", "n9:", "Segmentation", "fault"]
    (stands,) = quiet(take_snapshot(StillBook(alerts=[taken])), look, 60, EPOCH)
    assert stands.text.startswith("X acknowledged  gpu-")  # it is counted beside this
    (nothing,) = quiet(take_snapshot(StillBook()), look, 60, EPOCH)
    assert "no problems" in nothing.text
    note = structs.replace(xid_alert(), id="e", code=RANK_ERROR_UNEXPLAINED, severity="info", count=3)
    (counted,) = quiet(take_snapshot(StillBook(alerts=[taken, note])), look, 60, EPOCH)
    assert "nothing wrong" not in counted.text
    assert "3 error lines" in counted.text


def test_a_live_rank_whose_log_is_not_followed_is_not_called_free_of_errors() -> None:
    incident, fleet, few = demo_incident(), demo_session(95).fleet, set(range(3, 35))
    assert not ranks_without_log(fleet.nodes.values(), incident.job, 128)
    for node in fleet.nodes.values():
        node.logs = [file for file in node.logs if not few.intersection(file.ranks)]
    assert ranks_without_log(fleet.nodes.values(), incident.job, 128) == few
    assert parts_of(structs.replace(incident, timeline=(), silent=()), 4, few) == ["quiet"] * 3 + ["unlogged"]


async def test_the_page_of_an_incident_tells_the_checkpoint_to_restart_from() -> None:
    last = Checkpoint(41_000, NOW, "/ckpt/step_41000", complete=True, last_step=41_344, last_at=NOW)
    app = incident_app(StillBook([structs.replace(demo_incident(), checkpoint=last)]))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4")
        await pilot.pause()
        shown = flat(app)
    assert "step 41,000" in shown
    assert "344 steps lost" in shown


async def test_enter_on_the_end_of_a_rank_without_a_line_opens_the_log_of_the_rank() -> None:
    ended = structs.replace(xid_alert(), id="a-end", code="rank.exit_error", gpu=None, proof=())
    app = incident_app(StillBook([], [ended]))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4")
        incidents_of(app).alerts.focus()
        await pilot.press("enter")
        await pilot.pause()
        assert app.where == "logs"
        assert [source.rank for source in app.workspace.sources] == [85]


def test_what_a_wrong_clock_dates_in_the_future_is_no_news() -> None:
    ahead = EPOCH + 9 * 86_400
    late = structs.replace(xid_alert(), id="late", first=ahead, last=ahead)
    reported = take_snapshot(StillBook(alerts=[late, xid_alert()]), wall=EPOCH + 95)
    assert reported.loudest == xid_alert()
    look = build_styles(ascii_only=True)
    listed = text_of(cells_row(alert_cells(late, EPOCH), None, 80, look))
    assert "ahead" in listed
    assert " 0s " not in listed
    assert " 9d " in " ".join(map(text_of, alert_rows(late, EPOCH, 80, look)))
    assert incident_app().view_state.ago(incident_app().view_state.wall() + 9 * 86_400).split()[1:] == [
        "9d",
        "ahead",
    ]
