"""Screen 3 under a pilot: choosing, following, going back, merging, finding, coming back."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from pathlib import Path

import pytest

from gpuwatch import wire
from gpuwatch.tui.fleet.screen import FleetScreen
from gpuwatch.tui.logs.screen import LogsScreen
from gpuwatch.tui.logs.widgets.grid import grid_for
from gpuwatch.tui.toolkit.cockpit import OpenRequest
from gpuwatch.tui.toolkit.lines.line_view import LineView
from tests.sentences import Sentences, line_of
from tests.tui.counting import on_terminal, painted
from tests.tui.logs.log_desk import RANK_5, log_desk
from tests.tui.logs.log_nodes import FakeFile, LogSession, clock, story, with_finding
from tests.tui.robustness.hostile import POISON
from tests.tui.still import still_app


async def test_three_shows_what_failed_and_minus_goes_back() -> None:
    session = story()
    with_finding(session, "gpu-002", RANK_5, "ERROR allocator", 5)
    async with log_desk(session) as workspace:
        shown = workspace.text()
        assert "rank 5" in shown
        assert "gpu-002" in shown
        assert "following" in shown
        assert "torch.OutOfMemoryError" in shown
        assert "6 lines" in shown
        await workspace.press("minus")
        assert isinstance(workspace.app.screen, FleetScreen)
        assert not session.fleet.streams  # nobody looks: nothing is asked of any node


async def test_without_failures_the_first_and_the_last_of_many_ranks_are_shown() -> None:
    async with log_desk(story()) as workspace:
        assert len(workspace.panes) == 2
        assert "rank 0" in workspace.text()
        assert "rank 7" in workspace.text()
        await workspace.press("m")
        assert "merged ranks 0-7" in workspace.text()


async def test_a_merged_view_says_why_it_does_not_read_a_file() -> None:
    read, other = FakeFile("/rank_0.log", [0]), FakeFile("/rank_1.log", [1], state="unreadable")
    read.write(f"{clock(1)} step 1")
    other.write(f"{clock(1)} step 1")
    other.reason = "permission denied"
    async with log_desk(LogSession({"gpu-001": [read, other]})) as workspace:
        await workspace.press("m")
        assert other.reason in line_of(workspace.text(), "r1 not")


async def test_many_ranks_are_shown_as_far_as_there_is_room() -> None:
    async with log_desk(story(), (80, 24)) as workspace:
        await workspace.type("c", "0-7")
        assert len(workspace.panes) == 2
        assert "1-2 of 8 logs" in workspace.text()
        await workspace.press("right_square_bracket")
        assert "3-4 of 8 logs" in workspace.text()
        assert "rank 2" in workspace.text()
        await workspace.press("left_square_bracket", "left_square_bracket")
        assert "1-2 of 8 logs" in workspace.text()


async def test_logs_are_chosen_by_text_and_mistakes_are_reported_beside_it(sentences: Sentences) -> None:
    async with log_desk(story()) as workspace:
        await workspace.type("c", "0-3,77")
        sentences(str(workspace.screen.prompt.reported.render()))
        assert workspace.screen.prompt.display
        workspace.screen.prompt.field.value = "2,gpu-002"
        await workspace.press("enter")
        assert len(workspace.panes) == 6
        assert "kernel log" in workspace.text()
        await workspace.press("minus", "3")  # as it was left
        assert len(workspace.panes) == 6


async def test_a_growing_file_is_followed_until_the_person_scrolls_back() -> None:
    """Document 001, line 72; document 002, line 102."""
    session = story()
    async with log_desk(session) as workspace:
        await workspace.type("c", "5")
        session.write("gpu-002", RANK_5, "later")
        await workspace.frames()
        assert "later" in workspace.text()
        await workspace.press("pageup")
        assert "paused" in workspace.text()
        before = workspace.text().split("paused")[1].splitlines()[1:]
        session.write("gpu-002", RANK_5, "\n".join(f"unseen {n}" for n in range(40)))
        await workspace.frames()
        assert workspace.text().split("paused")[1].splitlines()[1:] == before
        assert "below" in workspace.text()
        await workspace.press("G")
        assert "unseen 39" in workspace.text()
        assert "following" in workspace.text()


async def test_scrolling_back_reads_on_the_node_and_says_so_meanwhile() -> None:
    session = story()
    async with log_desk(session) as workspace:
        await workspace.type("c", "5")
        session.hold = True
        await workspace.press("g")
        assert "reading..." in workspace.text()
        assert "step 599" in workspace.text()  # what is loaded stays in sight
        session.let_go()
        await workspace.frames()
        assert "step 0 " in workspace.text()
        assert session.asked[-1] == ("read", RANK_5)


async def test_all_panes_share_one_time() -> None:
    async with log_desk(story(), (200, 60)) as workspace:
        await workspace.type("c", "0-3")
        await workspace.type("t", "12:01:40")
        assert [workspace.under_cursor(pane).split()[3] for pane in workspace.panes] == ["200"] * 4
        await workspace.press(*["down"] * 30)
        assert [workspace.under_cursor(pane).split()[3] for pane in workspace.panes] == ["230"] * 4
        await workspace.type("t", "+30s")
        assert workspace.under_cursor().split()[3] == "290"
        await workspace.press("7")
        assert workspace.under_cursor().split()[3] == "170"
        await workspace.press("G")
        assert all(pane.view and pane.view.following for pane in workspace.panes)
        await workspace.type("t", "+9d")  # not yet: it leads to the newest lines
        assert workspace.screen.workspace.opened.time == workspace.app.view_state.wall()


async def test_an_alert_leads_to_its_line_and_m_to_all_ranks_of_those_seconds() -> None:
    session = story()
    finding = with_finding(session, "gpu-002", RANK_5, "ERROR allocator", 5)
    async with log_desk(session, press="") as workspace:
        workspace.app.show_logs(
            OpenRequest("gpu-002", RANK_5, offset=finding.offset, at=finding.at, ranks=(0,))
        )
        await workspace.frames()
        assert "ERROR allocator" in workspace.under_cursor(workspace.panes[0])
        assert len(workspace.panes) == 2
        await workspace.press("m")
        assert "merged ranks 0-7" in workspace.text()
        shown = workspace.text()
        assert "allocator" in shown
        assert "8 ranks: " in shown
        await workspace.press("m")
        assert "ERROR allocator" in workspace.under_cursor(workspace.panes[0])
        await workspace.press("minus")
        assert isinstance(workspace.app.screen, FleetScreen)


async def test_enter_in_the_merged_view_goes_to_the_lines_own_file() -> None:
    session = story()
    async with log_desk(session) as workspace:
        await workspace.type("c", "4-7")
        await workspace.press("m", "e", "E")
        assert "merged" in workspace.text()
        await workspace.type("f", "allocator")
        await workspace.press("k")
        assert "allocator" in workspace.under_cursor()
        await workspace.press("enter")
        assert workspace.screen.workspace.mode == "panes"
        assert "allocator" in workspace.under_cursor()


async def test_errors_are_found_loaded_and_then_on_the_node(sentences: Sentences) -> None:
    session = story()
    file = session.file("gpu-001", "/scratch/run7/logs/rank_1.log")
    assert file is not None
    first = file.lines[20]
    file.lines[20] = wire.LogLine(
        first.offset, first.end, first.text[:13] + "ERROR no luck", first.t, None, None, "error"
    )
    async with log_desk(session) as workspace:
        await workspace.type("c", "1")
        await workspace.press("W")
        assert "WARNING" in workspace.under_cursor()
        await workspace.press("E")
        assert "no luck" in workspace.under_cursor()  # 580 lines above: found on the node
        assert (
            "search",
            r"\b(error|exception|traceback|fatal|critical|panic|segmentation fault|killed)\b",
        ) in session.asked
        await workspace.press("e", "e")
        assert "timed out" in workspace.under_cursor()
        await workspace.press("e")
        sentences(line_of(workspace.text(), "no more"))


async def test_search_lists_hits_of_all_nodes_and_goes_to_one(sentences: Sentences) -> None:
    session = story()
    async with log_desk(session) as workspace:
        await workspace.type("slash", "step 123 ")
        sentences(line_of(workspace.text(), "8 lines"))
        await workspace.press("down", "enter")
        assert "step 123 " in workspace.under_cursor()
        await workspace.press("n")
        sentences(line_of(workspace.text(), "no more"))
        await workspace.press("escape")
        assert not workspace.screen.results.display
        assert isinstance(workspace.app.screen, LogsScreen)
        await workspace.press("slash", "end", *["backspace"] * 9)
        await workspace.press(*"rank=5", "enter")
        assert [source.rank for source in workspace.screen.workspace.sources] == [5]
        assert not workspace.screen.results.display


async def test_a_wrong_pattern_is_reported_and_a_search_can_be_cancelled() -> None:
    session = story()
    async with log_desk(session) as workspace:
        await workspace.type("slash", "(open")
        assert "unterminated" in str(workspace.screen.prompt.reported.render())
        session.hold = True
        workspace.screen.prompt.field.value = "step"
        await workspace.press("enter")
        assert "0%, esc cancels" in workspace.text()
        await workspace.press("escape")
        assert "cancelled" in workspace.text()
        assert not [s for s in session.fleet.streams.values() if s.kind == "search"]


async def test_filter_bookmarks_folding_wrap_and_times() -> None:
    async with log_desk(story()) as workspace:
        await workspace.type("c", "5")
        await workspace.type("f", "!step")
        assert "filter: " in workspace.text()
        assert "step 599" not in workspace.text()
        await workspace.press("b")
        await workspace.type("f", "")
        assert "step 599" in workspace.text()
        await workspace.press("O")
        assert 'File "/job/train.py"' in workspace.text()
        await workspace.press("O", "o")
        assert 'File "/job/train.py"' in workspace.text()
        await workspace.press("o", "B")
        assert "1 bookmark;" in workspace.text()
        await workspace.press("enter", "escape", "g", "u")
        assert "OutOfMemory" in workspace.under_cursor()
        await workspace.press("T", "ctrl+w")
        assert "~12:05:01.000" in workspace.text()


async def test_copying_takes_the_whole_line() -> None:
    async with log_desk(story(), (80, 24)) as workspace:
        await workspace.type("c", "5")
        await workspace.press("k", "y")
        assert re.fullmatch(r"12:05:01\.000 ERROR .+ cuda:1", workspace.app.clipboard)


async def test_no_files_says_why_and_what_to_do() -> None:
    session = LogSession(
        {"gpu-001": [FakeFile("/var/log/job.log", state="unreadable", reason="permission denied")]}
    )
    session.files["gpu-001"].clear()
    session.report("gpu-001", wire.Logs(t=1.0, seq=3, files=[]))
    session.poll()
    async with log_desk(session) as workspace:
        await workspace.frames()
        assert "logs: ['" in workspace.text()
        assert "--log" in workspace.text()
        session.files["gpu-001"].append(FakeFile("/new.log", [0]))
        session.files["gpu-001"][0].write("here I am")
        session.report("gpu-001", wire.Logs(t=1.0, seq=4, files=[session.files["gpu-001"][0].reported()]))
        await workspace.frames()
        assert "here I am" in workspace.text()  # shown as soon as it is known


async def test_clocks_that_are_not_known_are_reported(sentences: Sentences) -> None:
    session = story()
    session.fleet.nodes["gpu-002"].clock = None
    async with log_desk(session) as workspace:
        await workspace.press("m")
        sentences(line_of(workspace.text(), "gpu-002: clock"))


async def test_a_frozen_view_stands_still_but_can_be_read_back() -> None:
    session = story()
    async with log_desk(session) as workspace:
        await workspace.type("c", "5")
        await workspace.press("p")
        session.write("gpu-002", RANK_5, "unseen")
        await workspace.frames()
        assert "unseen" not in workspace.text()
        await workspace.press("g")
        assert "step 0 " in workspace.text()
        await workspace.press("p", "G")
        assert "unseen" in workspace.text()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [(40, 12), (80, 24), (200, 60)])
@pytest.mark.parametrize("keys", [(), ("m",), ("slash", "x", "enter"), ("c",), ("B",), ("T", "ctrl+w")])
async def test_every_size(size: tuple[int, int], keys: tuple[str, ...]) -> None:
    async with log_desk(story(ranks=16, steps=40), size, ascii_only=size[0] == 80) as workspace:
        await workspace.press(*keys)
        for part in workspace.app.screen.query(LineView):
            for y in range(part.size.height if part.is_on_screen else 0):
                assert part.render_line(y).cell_length == part.columns
        assert len(workspace.app.export_screenshot()) > 1000


async def test_nothing_in_a_log_steers_the_terminal() -> None:
    file = FakeFile(f"/logs/{POISON}.log", [0], reason=POISON)
    file.write("before")
    file.lines.append(wire.LogLine(file.size, file.size + 9, POISON, None, None, 0, "error", POISON))
    session = LogSession({"gpu-001": [file]})
    app = still_app(session)
    async with on_terminal(app, (120, 40)) as driver:
        app.call_later(app.action_logs)
        while not (isinstance(app.screen, LogsScreen) and app.screen.is_mounted):
            await asyncio.sleep(0.01)
        for _ in range(3):
            app.pump()
            await painted(app)
        sent = "".join(driver.written)
    assert "evil" in sent
    for bad in ("\x1b[2J", "\x1b]52", "\x9b", "\x90", "\u202e", "\u2066"):
        assert bad not in sent
    assert "[bold red]x[/]" in sent.replace("\x1b", "")


def test_grids_use_the_room_without_holes() -> None:
    assert grid_for(1, 80, 20) == (1, 1)
    assert grid_for(2, 80, 20) == (1, 2)
    assert grid_for(4, 120, 36) == (2, 2)
    assert grid_for(16, 200, 56) == (4, 4)
    assert grid_for(16, 80, 20) == (1, 2)
    assert grid_for(16, 30, 5) == (1, 1)


async def test_a_pane_repaints_only_what_moved() -> None:
    session = story()
    async with log_desk(session) as workspace:
        await workspace.type("c", "5")
        pane = workspace.panes[0]
        painted_before = pane.rows_painted
        await workspace.frames(2)
        assert pane.rows_painted - painted_before <= 4  # the header's age at most


async def test_the_pager_shows_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reported = tmp_path / "told"
    pager = tmp_path / "pager.py"
    pager.write_text(f"import sys\nopen({str(reported)!r}, 'w').write(open(sys.argv[-1]).read())\n")
    monkeypatch.setenv("PAGER", f"{sys.executable} {pager}")
    session = story()
    async with log_desk(session) as workspace:
        await workspace.type("c", "5")
        monkeypatch.setattr(workspace.app, "suspend", contextlib.nullcontext)
        await workspace.press("P")
    assert "OutOfMemoryError" in reported.read_text()
    assert clock(299.5 + 0.05) in reported.read_text()


async def test_a_line_that_a_rule_matched_is_marked_by_what_the_rule_says() -> None:
    file = FakeFile("kernel log")
    file.write("quiet beginning\nNVRM: Xid (PCI:0000:c3:00): 79, GPU has fallen off the bus.\nquiet end")
    session = LogSession({"gpu-001": [file]})
    async with log_desk(session) as workspace:
        await workspace.frames()
        (plain,) = [row for row in workspace.text().splitlines() if "Xid" in row]
        found = wire.Finding(
            t=1.0, seq=9, id=1, rule="gpu.xid.fell_off", severity="critical", file=file.path,
            offset=file.lines[1].offset, at=1.0, lines=[file.lines[1].text],
        )  # fmt: skip
        session.report("gpu-001", found)
        await workspace.frames()
        (marked,) = [row for row in workspace.text().splitlines() if "Xid" in row]
        assert plain.split("NVRM")[0].strip() == ""
        assert marked.split("NVRM")[0].strip() == workspace.app.look.glyph("critical")


async def test_the_line_that_was_led_to_stands_out_alone_and_merged_and_r_goes_to_the_next_rank() -> None:
    session = story()
    finding = with_finding(session, "gpu-002", RANK_5, "ERROR allocator", 5)
    async with log_desk(session, (80, 24), press="") as workspace:
        workspace.app.show_logs(
            OpenRequest("gpu-002", RANK_5, offset=finding.offset, at=finding.at, ranks=(0,))
        )
        await workspace.frames()
        bar = workspace.app.look.glyphs.cursor
        (marked,) = [row for row in workspace.text().splitlines() if bar in row]
        assert marked.startswith(workspace.app.look.glyph("error") + bar)
        assert "ERROR allocator" in marked
        await workspace.press("m")
        (marked,) = [row for row in workspace.text().splitlines() if bar in row]
        assert "allocator" in marked
        first = workspace.screen
        workspace.app.show_logs(OpenRequest("gpu-001", "/scratch/run7/logs/rank_0.log", ranks=(0,)))
        await workspace.frames()
        assert workspace.screen is first  # one screen, so one step back leads out of it
        await workspace.press("minus")
        assert isinstance(workspace.app.screen, FleetScreen)


async def test_a_log_that_has_not_answered_is_being_read_and_has_no_count_of_lines() -> None:
    session = story()
    async with log_desk(session, press="") as workspace:
        session.hold = True
        await workspace.press("3", "L")
        titles = [row for row in workspace.text().splitlines() if re.match(r" rank \d", row)]
        assert titles
        assert all("reading..." in row and " of 0 lines" not in row for row in titles)
        session.let_go()
        await workspace.frames()
        assert "reading..." not in workspace.text()
        assert re.search(r"\d+ of [1-9]\d* lines", workspace.text())
