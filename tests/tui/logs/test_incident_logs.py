"""The logs of an incident at the screen: one set under one name, merged, folded over ranks."""

from __future__ import annotations

import re

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.tui.logs.screen import LogsScreen
from gpuwatch.tui.logs.widgets.line_painter import CLOCK_CELLS, DATED_CLOCK_CELLS
from gpuwatch.tui.toolkit.cockpit import OpenRequest
from gpuwatch.wire import KERNEL_LOG
from tests.tui.logs.demo_nodes import DemoLogs, demo_desk
from tests.tui.logs.log_desk import Desk, log_desk
from tests.tui.logs.log_nodes import NOON, TRACE, FakeFile, LogSession, clock, story
from tests.tui.scripted_alerts import StillBook, demo_incident, xid_alert
from tests.tui.still import demo_session, still_app

CULPRIT = 85
LATE = "written while frozen"


def files(workspace: Desk) -> list[tuple[str, int | None]]:
    assert isinstance(workspace.app.screen, LogsScreen)
    return [(source.file, source.rank) for source in workspace.screen.workspace.sources]


async def test_three_shows_the_cause_the_culprit_and_the_first_followers_on_every_visit() -> None:
    async with demo_desk() as workspace:
        await workspace.press("3")
        shown = files(workspace)
        assert shown[0] == (KERNEL_LOG, None)
        assert workspace.screen.workspace.sources[0].node == "gpu-011"
        ranks = [rank for _, rank in shown if rank is not None]
        assert ranks[0] == CULPRIT
        assert len(ranks) == 3
        name = workspace.screen.workspace.text
        await workspace.press("minus", "3")
        assert (files(workspace), workspace.screen.workspace.text) == (shown, name)
        await workspace.type("c", "failed")
        assert (files(workspace), workspace.screen.workspace.text) == (shown, name)
        await workspace.press("minus", "4", "enter")  # the cause's line, from the incident
        assert set(files(workspace)) == set(shown)
        assert workspace.screen.workspace.text == name
        incident = workspace.app.view_state.snapshot.incidents[0]
        workspace.app.view_state.session.acknowledge(incident.id)
        await workspace.press("minus", "minus", "3")
        assert set(files(workspace)) == set(shown)
        await workspace.type("c", "0-1")
        await workspace.press("minus", "3")
        assert [rank for _, rank in files(workspace)] == [0, 1]  # what the person chose since stays


async def test_empty_files_of_ranks_get_no_pane_and_are_not_called_unread() -> None:
    session = story()
    session.files["gpu-001"] += [FakeFile(f"/run/attempt_0/{rank}/stdout.log", [rank]) for rank in range(4)]
    session.report("gpu-001", wire.Logs(t=1.0, seq=2, files=[f.reported() for f in session.files["gpu-001"]]))
    culprit = structs.replace(demo_incident(), alerts=(), cause=None, rank=1, silent=(), job=None)
    session.book = StillBook([culprit])
    async with log_desk(session, press="") as workspace:
        await workspace.press("4", "3")
        assert [rank for _, rank in files(workspace)] == [1]
        await workspace.press("4", "m")
        await workspace.frames(6)
        view = workspace.screen.pane.view
        assert view is not None
        assert all(buffer.lines for buffer in view.buffers)
        await workspace.type("c", "stdout")
        await workspace.press("M")
        warned = workspace.app.look.badge["warning"].bgcolor
        for pane in workspace.panes:
            assert pane.view is not None
            pane.view.buffers[0].error = "unread"  # as an agent refuses to read around a time
            assert all(part.style is None or part.style.bgcolor != warned for part in pane.row(0, 120))


async def test_an_incident_without_a_log_leaves_the_chosen_logs() -> None:
    session = story()
    unlogged = structs.replace(demo_incident(), alerts=(), cause=None, rank=None, silent=(), job="x")
    session.book = StillBook([unlogged])
    async with log_desk(session, press="") as workspace:
        await workspace.press("4", "3")
        assert files(workspace)
        assert "incident-1" in workspace.text()
        await workspace.type("c", "0-1")
        await workspace.press("minus", "4", "3")
        assert [rank for _, rank in files(workspace)] == [0, 1]


async def test_m_merges_the_evidence_puts_the_cursor_on_the_cause_and_folds_the_followers() -> None:
    async with demo_desk() as workspace:
        await workspace.press("4", "m")
        await workspace.frames(12)
        view = workspace.screen.pane.view
        assert view is not None
        incident = workspace.app.view_state.snapshot.incidents[0]
        assert incident.cause is not None
        proof = incident.cause.proof[0]
        source, number = view.feed.place(view.cursor)
        assert (source.node, source.file) == ("gpu-011", KERNEL_LOG)
        line = view.line()
        assert line is not None
        assert line.offset == proof.offset
        assert view.marked == (source, number)
        ruled = [spot for spot in view.layout(100, 400) if spot.ruled]
        assert [spot.text for spot in ruled] == ["+30.0 s"]
        folds = [row for row in view.sheet.rows if row.at > incident.first + 29]
        wide = [row for row in folds if len(row.ranks) == 127]
        assert len(wide) >= 2  # two patterns alternate
        assert all(row.ranks == set(range(128)) - {CULPRIT} for row in wide)
        assert view.sheet.rows[ruled[0].row].first_rank == wide[0].first_rank
        view.put_on(wide[0].first)
        rows = len(view.sheet.rows)
        await workspace.press("enter")
        assert len(view.sheet.rows) == rows + 126
        await workspace.press("enter")
        assert len(view.sheet.rows) == rows
        await workspace.pilot.resize_terminal(80, 24)
        await workspace.frames(3)
        whole = rf"missing: rank {CULPRIT}  first r\d+ \+30\.0 s, last r\d+ \+30\.\d s"
        assert re.search(whole, workspace.text()), workspace.text()
        await _message_before_its_prefix(workspace)


async def test_m_merges_the_whole_job_before_the_first_rank_follows() -> None:
    early = structs.replace(demo_incident(), alerts=(xid_alert(),), timeline=(), followers=0, silent=())
    app = still_app(demo_session(14, book=StillBook([early])), 14)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4", "m")
        assert app.workspace.text == "0-127 incident-1"
        assert {source.rank for source in app.workspace.sources} == {None, *range(128)}


@pytest.mark.long
async def test_m_again_reads_no_file_twice_and_shows_every_line() -> None:
    session = DemoLogs()
    async with demo_desk(session=session) as workspace:
        await workspace.press("4", "m")
        await workspace.frames(12)
        await workspace.press("L", "L", "f")
        workspace.screen.prompt.field.value = "Watchdog"
        await workspace.press("enter")
        view = workspace.screen.pane.view
        assert view is not None
        assert view.sheet.narrowed
        lines, read = view.feed.end - view.feed.base, session.reads
        await workspace.press("4", "m")
        view = workspace.screen.pane.view
        assert view is not None
        assert (view.feed.end - view.feed.base, view.sheet.narrowed) == (lines, False)
        assert session.reads - read < 5  # the kernel log, whose size is not reported
        folds = [row for row in view.sheet.rows if len(row.ranks) == 127]
        assert len(folds) >= 2
        await workspace.press("minus", "3")  # before the other files are read
        view, incident = workspace.screen.pane.view, workspace.app.view_state.snapshot.incidents[0]
        assert view is not None and incident.cause is not None
        line = view.line()
        assert line is not None and line.offset == incident.cause.proof[0].offset


async def test_a_page_that_ended_with_its_file_is_read_again_once_the_file_has_grown() -> None:
    session = story(steps=100)
    async with log_desk(session) as workspace:
        await workspace.type("c", "0")
        await workspace.type("t", "12:01:30")
        assert workspace.screen.opened.time is not None
        path = "/scratch/run7/logs/rank_0.log"
        await workspace.press("minus")
        session.write("gpu-001", path, f"{clock(130)} INFO {LATE}")
        files = [file.reported() for file in session.files["gpu-001"]]
        session.report("gpu-001", wire.Logs(t=2.0, seq=9, files=files))
        await workspace.frames()
        await workspace.press("3")
        view = workspace.screen.pane.view
        assert view is not None
        assert view.feed.line(view.feed.end - 1).text.endswith(LATE)


@pytest.mark.parametrize("keys", ["", "m"], ids=["merged", "merged from panes"])
async def test_an_undated_traceback_of_a_launcher_stands_where_it_was_written(keys: str) -> None:
    launcher = FakeFile("/job/launcher.log")
    launcher.write(f"start\n{TRACE.format(rank=1)}\n{TRACE.format(rank=0)}\n{clock(130)} ERROR failed")
    ranks = [FakeFile(f"/job/rank_{rank}.log", [rank]) for rank in range(2)]
    for file in ranks:
        for second in range(100):
            file.write(f"{clock(second)} step {second}")
    session = LogSession({"gpu-001": [launcher, *ranks]})
    for ident, (number, at) in enumerate([(6, 99.5), (12, 110.0)]):
        error = launcher.lines[number]
        finding = wire.Finding(
            t=1.0, seq=9, id=ident, rule="oom.cuda", severity="error", file=launcher.path, key=5,
            offset=error.offset, at=NOON + at, lines=[error.text], rank=error.rank,
        )  # fmt: skip
        session.report("gpu-001", finding)
    async with log_desk(session, press="") as workspace:
        offset = launcher.lines[6].offset
        workspace.app.show_logs(
            OpenRequest(
                "gpu-001", launcher.path, offset=offset, at=NOON + 99.5, ranks=(0, 1), merged=not keys
            )
        )
        await workspace.frames(6)
        await workspace.press(*keys)
        await workspace.frames(6)
        view = workspace.screen.pane.view
        assert view is not None
        assert workspace.screen.opened.time == NOON + 99.5
        line = view.line()
        assert line is not None
        assert line.offset == offset
        texts = [view.shown(index).text for index in range(len(view.sheet.rows))]
        assert texts[0] == "start"  # of which no time is known
        last = [index for index, text in enumerate(texts) if "step 99" in text]
        assert last[0] < view.index < len(texts) - 2
        assert [row.at for row in view.sheet.rows[-3:]] == [NOON + 99.5, NOON + 110.0, NOON + 130.0]
        await workspace.pilot.resize_terminal(80, 24)
        await workspace.press("home")
        assert re.search(r" launcher +\S", workspace.text())


async def test_each_line_of_a_kernel_pane_has_its_time_as_the_lines_of_a_rank_have() -> None:
    async with demo_desk((80, 24)) as workspace:
        await workspace.press("4", "enter")
        kernel, rank = (pane.render_line(2).text for pane in workspace.panes[:2])
        assert re.match(r"..\W\d\d:\d\d:\d\d\.\d{3} ", kernel)
        assert re.match(r"..\d\d:\d\d:\d\d ", rank)


@pytest.mark.parametrize(
    ("early", "date", "cells"),
    [(2, r" \d\d-\d\d \d\d:\d\d ", CLOCK_CELLS), (3, r"\d{4}(-\d\d){2} \d\d(:\d\d){2}", DATED_CLOCK_CELLS)],
)
async def test_lines_of_another_day_have_their_date_and_the_clocks_stay_in_one_column(
    early: int, date: str, cells: int
) -> None:
    """The column is wide enough for a date and seconds only if most lines are of another day."""
    kernel = FakeFile(KERNEL_LOG)
    for second in (*range(-86_400, -86_400 + early), 94, 95):
        kernel.write(f"loading module {second:.0f}", NOON + second)
    async with log_desk(LogSession({"gpu-001": [kernel]}), press="") as workspace:
        workspace.app.show_logs(OpenRequest("gpu-001", KERNEL_LOG))
        await workspace.frames(6)
        (pane,) = (pane for pane in workspace.panes if pane.view is not None)
        lines = [pane.render_line(y).text for y in range(1, early + 3)]
        assert [bool(re.search(date, line)) for line in lines] == [True] * early + [False] * 2, lines
        assert {line.index("loading") for line in lines} == {2 + cells}


async def test_m_keeps_the_cursor_on_its_line_though_no_time_of_it_is_known() -> None:
    launcher = FakeFile("/job/launcher.log")
    launcher.write("\n".join(f"undated {number}" for number in range(40)))
    rank = FakeFile("/job/rank_0.log", [0])
    rank.write("\n".join(f"{clock(second)} step {second}" for second in range(100)))
    async with log_desk(LogSession({"gpu-001": [launcher, rank]}), press="") as workspace:
        request = OpenRequest("gpu-001", launcher.path, launcher.lines[17].offset, ranks=(0,))
        workspace.app.show_logs(request)
        await workspace.frames(6)
        for mode in ("everyone", "panes"):
            await workspace.press("m")
            await workspace.frames(6)
            assert workspace.screen.workspace.mode == mode
            assert workspace.under_cursor() == "undated 17"


async def _message_before_its_prefix(workspace: Desk) -> None:
    """In 80 columns."""
    row = next(line for line in workspace.text().splitlines() if "127 ranks:" in line)
    assert len(row) <= 80
    assert "Watchdog caught" in row
    assert "x127" not in row  # the same number as that of the ranks
    await workspace.type("c", "57")
    shown = workspace.text()
    assert re.search(r"\d\d:\d\d:\d\d\.\d{3} r57 (\[Rank 57\] )?Watchdog caught", shown)
    await workspace.press("ctrl+w")  # wrapped, nothing is left out
    assert "ProcessGroupNCCL.cpp" in workspace.text()


async def test_pages_of_the_chosen_logs_have_inverse_keys_and_leave_the_set_alone() -> None:
    async with log_desk(story(), (80, 24)) as workspace:
        await workspace.type("c", "0-6")
        chosen = list(workspace.screen.workspace.sources)
        seen = [[pane.view.buffers[0].source.rank for pane in workspace.panes if pane.view]]
        for _ in range(4):
            await workspace.press("right_square_bracket")
            seen.append([pane.view.buffers[0].source.rank for pane in workspace.panes if pane.view])
        assert seen == [[0, 1], [2, 3], [4, 5], [6], [6]]  # the last page is the end
        assert "[ previous" in workspace.text()
        for expected in reversed(seen[:-2]):
            await workspace.press("left_square_bracket")
            assert [pane.view.buffers[0].source.rank for pane in workspace.panes if pane.view] == expected
        assert workspace.screen.workspace.sources == chosen
        await workspace.press("left_square_bracket")
        assert "; ] goes on" in workspace.text()
        await workspace.press("up")
        assert "goes on" not in workspace.text()
        assert "end follows" in workspace.text(), workspace.text()  # it is paused now
        await workspace.type("c", "5")
        await workspace.press("right_square_bracket")
        assert [source.rank for source in workspace.screen.workspace.sources] == [5]


async def test_the_level_filter_counts_what_it_keeps_and_bookmarks_stay() -> None:
    async with log_desk(story(steps=100), (80, 24)) as workspace:
        await workspace.type("c", "5")
        await workspace.press("b", "L")
        view = workspace.screen.pane.view
        assert view is not None
        assert [row.count for row in view.sheet.rows] == [1, 6]  # the error, and the whole traceback
        total = view.feed.end - view.feed.base
        assert (view.sheet.kept, total) == (7, 107)
        assert f"7 of {total} lines" in workspace.text()
        await workspace.press("L")
        assert view.sheet.kept == 7
        await workspace.type("c", "3")
        view = workspace.screen.pane.view
        assert view is not None
        assert [view.shown(index).level for index in range(len(view.sheet.rows))] == ["error"]
        await workspace.press("L", "f")
        workspace.screen.prompt.field.value = "step 9"
        await workspace.press("enter")
        assert view.sheet.kept == 11
        assert len(workspace.screen.workspace.bookmarks) == 1


async def test_logs_opened_in_a_frozen_view_show_their_lines_as_of_the_freeze() -> None:
    session = story(steps=100)
    async with log_desk(session, press="") as workspace:
        await workspace.press("p")
        session.write("gpu-001", "/scratch/run7/logs/rank_0.log", f"{clock(1300)} INFO {LATE}")
        workspace.now[0] += 120
        await workspace.press("3")
        await workspace.type("c", "0")
        view = workspace.screen.pane.view
        assert view is not None
        assert view.feed.end - view.feed.base == 102
        assert LATE not in workspace.text()
        assert "on rank 0" in workspace.text()
        await workspace.press("p")
        assert LATE in workspace.text()
