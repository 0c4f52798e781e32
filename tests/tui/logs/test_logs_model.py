"""What stands behind the log panes, without a screen: pages, order, folds, choices, times, searches."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpuwatch.number_text import folded
from gpuwatch.rules.compiling.typed_pattern import TypedPattern
from gpuwatch.tui.logs.data.buffer import Buffer
from gpuwatch.tui.logs.data.folding import normal
from gpuwatch.tui.logs.data.line_prefix import message_at
from gpuwatch.tui.logs.data.merge import Merge
from gpuwatch.tui.logs.data.rows import RowModel
from gpuwatch.tui.logs.data.sources import ChoiceError, LogSource, all_sources, choose, rank_sources
from gpuwatch.tui.logs.data.viewport import View
from gpuwatch.tui.logs.pager import page, pager_command
from gpuwatch.tui.logs.search.node_search import LogSearch
from gpuwatch.tui.logs.search.rank_selection import first_choice
from gpuwatch.tui.logs.workspace.workspace import LogWorkspace
from gpuwatch.tui.model.view_state import ViewState
from gpuwatch.tui.toolkit.time_input import TimeError, time_typed
from gpuwatch.wire import LogLine
from tests.counted_calls import calls_of
from tests.tui.logs.log_nodes import (
    NOON,
    PATH,
    TRACE,
    FakeFile,
    LogSession,
    clock,
    one_file,
    pulled,
    story,
    with_finding,
)


def opened(session: LogSession, *, kept: int = 20_000, page: int = 100, path: str = PATH) -> Buffer:
    buffer = Buffer(LogSource("gpu-001", path, 0), session, kept=kept, page=page)
    buffer.follow()
    pulled(session, buffer)
    return buffer


def texts(sheet: RowModel, feed: Buffer | Merge) -> list[str]:
    return [feed.line(row.key).text for row in sheet.rows]


# ---- a file in pages


def test_the_file_is_read_back_page_by_page_and_forward_again() -> None:
    session = one_file(1000)
    buffer = opened(session)
    assert len(buffer) == 200
    assert buffer.live
    for _ in range(12):
        buffer.earlier()
        pulled(session, buffer)
    assert buffer.at_start
    assert [line.text.split()[-1] for line in buffer.lines] == [str(n) for n in range(1000)]
    before = len(session.asked)
    buffer.earlier()
    assert len(session.asked) == before  # nothing is asked for where nothing is


def test_a_jump_loads_a_window_which_meets_the_growing_end_again() -> None:
    session = one_file(1000)
    buffer = opened(session)
    buffer.go(at=NOON + 300)
    assert buffer.reading == "there"
    pulled(session, buffer)
    assert buffer.target is not None
    assert buffer.line(buffer.target).text.endswith("line 300")
    assert not buffer.live
    session.write("gpu-001", PATH, f"{clock(1001)} line 1000")
    pulled(session, buffer)
    assert buffer.waiting == 1  # counted, not loaded: the window stays where it is
    for _ in range(12):
        buffer.later()
        pulled(session, buffer)
    assert buffer.live
    numbers = [int(line.text.split()[-1]) for line in buffer.lines]
    assert numbers == list(range(numbers[0], 1001))
    session.write("gpu-001", PATH, f"{clock(1002)} line 1001")
    pulled(session, buffer)
    assert buffer.lines[-1].text.endswith("line 1001")


def test_a_file_that_is_opened_at_a_late_time_goes_on_with_its_new_lines() -> None:
    session = one_file(1000)
    buffer = Buffer(LogSource("gpu-001", PATH, 0), session, page=100)
    buffer.go(at=NOON + 990)
    for _ in range(3):
        pulled(session, buffer)
    session.write("gpu-001", PATH, f"{clock(1001)} line 1000")
    pulled(session, buffer)
    session.write("gpu-001", PATH, f"{clock(1002)} line 1001")
    pulled(session, buffer)
    numbers = [int(line.text.split()[-1]) for line in buffer.lines]
    assert buffer.live and numbers == list(range(numbers[0], 1002)) and numbers[0] <= 990


def test_memory_stays_bounded_while_following_and_while_scrolled_back() -> None:
    session = one_file(10)
    buffer = opened(session, kept=1000)
    for batch in range(20):
        session.write("gpu-001", PATH, "\n".join(f"batch {batch} line {n}" for n in range(500)), 5.0)
        pulled(session, buffer)
    assert len(buffer) <= 1000 + 2000
    assert buffer.base > 0
    assert buffer.lines[-1].text == "batch 19 line 499"
    buffer.held = True
    top = buffer.lines[0]
    for batch in range(20):
        session.write("gpu-001", PATH, "\n".join(f"more {batch} line {n}" for n in range(500)), 6.0)
        pulled(session, buffer)
    assert buffer.lines[0] is top  # what the person looks at stays
    assert len(buffer) <= 1000 + 2000 + 500
    assert buffer.waiting > 0


def test_an_unterminated_line_is_reported_again_when_it_is_whole() -> None:
    session = one_file(3)
    buffer = opened(session)
    sheet = RowModel()
    sheet.sync(buffer)
    stream = next(iter(session.fleet.streams.values()))
    file = session.file("gpu-001", PATH)
    assert file is not None
    size = file.size
    for text in ("loading 10%", "loading 90%", "loading done"):
        session.answer(stream, [LogLine(size, size + len(text), text)], file)
        pulled(session, buffer)
        sheet.sync(buffer)
    assert [text.split()[-1] for text in texts(sheet, buffer)] == ["0", "1", "2", "done"]


def test_a_truncated_file_shows_its_seam_and_is_not_read_back_across_it() -> None:
    session = one_file(50)
    buffer = opened(session)
    stream = next(iter(session.fleet.streams.values()))
    session.answer(stream, [LogLine(0, 10, "new life")], session.file("gpu-001", PATH), seam="truncated")
    pulled(session, buffer)
    assert buffer.seams == {buffer.end - 1: "truncated"}
    asked = len(session.asked)
    buffer.earlier()
    assert len(session.asked) == asked


def test_a_file_that_cannot_be_read_says_why() -> None:
    session = LogSession({"gpu-001": [FakeFile(PATH, [0], state="unreadable", reason="permission denied")]})
    buffer = opened(session)
    assert buffer.error == "permission denied"


# ---- folding


def folded_texts(*lines: str) -> list[tuple[str, int]]:
    session = LogSession({"gpu-001": [FakeFile(PATH, [0])]})
    session.write("gpu-001", PATH, "\n".join(lines))
    buffer = opened(session)
    sheet = RowModel()
    sheet.sync(buffer)
    return [(buffer.line(row.key).text, row.count) for row in sheet.rows]


def test_a_traceback_is_one_row_that_says_its_exception() -> None:
    rows = folded_texts("before", *TRACE.format(rank=3).splitlines(), "after")
    assert [count for _, count in rows] == [1, 6, 1]
    assert "OutOfMemoryError" in rows[1][0]


def test_chained_tracebacks_are_one_row() -> None:
    rows = folded_texts(
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "KeyError: 'x'",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "b.py", line 2, in g',
        "RuntimeError: no x",
        "after",
    )
    assert rows[-1] == ("after", 1)
    assert "RuntimeError" in rows[-2][0]
    assert sum(count for _, count in rows) == 10
    assert [count for _, count in rows] == [9, 1]


def test_repeated_warnings_fold_and_steps_of_a_training_do_not() -> None:
    rows = folded_texts(
        *(f"12:00:0{n}.000 WARNING retry {n} of 9, socket 0x7f{n}" for n in range(5)),
        *(f"step {n} loss {9 - n}.5" for n in range(4)),
    )
    assert [count for _, count in rows] == [5, 1, 1, 1, 1]
    assert rows[0][0].startswith("12:00:04")  # the newest one stands for all
    first = LogLine(0, 1, "pid 17 at 12:00:01 says 4", level="warning")
    assert normal(first) == normal(LogLine(0, 1, "pid 18 at 12:00:09 says 5", level="warning"))


def test_a_fold_opens_and_closes() -> None:
    session = LogSession({"gpu-001": [FakeFile(PATH, [0])]})
    session.write("gpu-001", PATH, "before\n" + TRACE.format(rank=0) + "\nafter")
    view = View(opened(session))
    view.sync()
    view.layout(80, 20)
    view.move(-1)
    assert len(view.sheet.rows) == 3
    assert view.unfold()
    assert len(view.sheet.rows) == 8
    assert view.unfold()
    assert len(view.sheet.rows) == 3
    assert view.sheet.rows[1].count == 6


def test_a_filter_keeps_or_leaves_out_and_new_lines_pass_it_too() -> None:
    session = one_file(20)
    buffer = opened(session)
    sheet = RowModel()
    sheet.keep = TypedPattern("line 1")
    sheet.sync(buffer)
    assert len(sheet.rows) == 11
    session.write("gpu-001", PATH, "line 100\nline 200")
    pulled(session, buffer)
    sheet.sync(buffer)
    assert texts(sheet, buffer)[-1] == "line 100"
    sheet.keep, sheet.without = None, TypedPattern("line 1")
    sheet.forget()
    sheet.sync(buffer)
    assert len(sheet.rows) == 10


# ---- several files as one


def test_files_are_merged_by_time_with_each_nodes_clock_corrected() -> None:
    ahead, right = FakeFile("/a", [0]), FakeFile("/b", [1])
    ahead.write(f"{clock(10)} cause\n  its second line without a time")
    right.write(f"{clock(5)} effect\n{clock(6)} later")
    session = LogSession({"gpu-001": [ahead], "gpu-002": [right]}, {"gpu-001": 7.0})
    buffers = [Buffer(LogSource("gpu-001", "/a", 0), session), Buffer(LogSource("gpu-002", "/b", 1), session)]
    buffers[0].offset_s = 7.0
    for buffer in buffers:
        buffer.follow()
    merge = Merge(buffers)
    pulled(session, *buffers)
    merge.sync()
    order = [merge.line(number).text.split()[-1] for number in range(merge.base, merge.end)]
    assert order == ["cause", "time", "effect", "later"]
    session.write("gpu-002", "/b", f"{clock(6.5)} afterwards")
    session.write("gpu-001", "/a", f"{clock(12.6)} between")  # 5.6 on our clock: it belongs further up
    pulled(session, *buffers)
    merge.sync()
    order = [merge.line(number).text.split()[-1] for number in range(merge.base, merge.end)]
    assert order == ["cause", "time", "effect", "between", "later", "afterwards"]


def test_a_file_that_is_loaded_later_costs_a_merge_no_call_for_each_line() -> None:
    files = [FakeFile(f"/{name}", [name]) for name in range(16)]
    for start, file in enumerate(files):
        for step in range(200):
            file.write(f"{clock(step + 0.01 * start)} step {step}")
    session = LogSession({"gpu-001": files})
    buffers = [Buffer(LogSource("gpu-001", f"/{name}", name), session) for name in range(16)]
    merge = Merge(buffers)
    for buffer in buffers:
        buffer.follow()
        pulled(session, buffer)
        calls = calls_of(merge.sync)
    assert merge.end - merge.base == 3200
    assert calls < 3200


def test_what_all_ranks_say_is_one_row_that_names_the_missing_one() -> None:
    session = story(ranks=8, steps=4, failing=5)
    sources = [source for source in choose("0-7", session.fleet, lambda _word: ()) if source.rank is not None]
    buffers = [Buffer(source, session) for source in sources]
    for buffer in buffers:
        buffer.follow()
    merge = Merge(buffers)
    pulled(session, *buffers)
    merge.sync()
    sheet = RowModel()
    sheet.sync(merge)
    last = sheet.rows[-1]
    assert last.count == 7
    assert last.ranks == {0, 1, 2, 3, 4, 6, 7}
    assert sheet.rows[0].ranks == set(range(8))


def test_merged_lines_begin_where_every_file_is_loaded() -> None:
    busy, calm = FakeFile("/a", [0]), FakeFile("/b", [1])
    for number in range(1000):
        busy.write(f"{clock(number)} busy {number}")
    calm.write(f"{clock(0)} calm 0\n{clock(900)} calm 900")
    session = LogSession({"gpu-001": [busy], "gpu-002": [calm]})
    buffers = [Buffer(LogSource("gpu-001", "/a", 0), session), Buffer(LogSource("gpu-002", "/b", 1), session)]
    for buffer in buffers:
        buffer.follow()
    merge = Merge(buffers)
    pulled(session, *buffers)
    merge.sync()
    assert merge.line(merge.base).text.endswith("busy 800")
    for _ in range(4):
        merge.earlier()
        pulled(session, *buffers)
        merge.sync()
    assert merge.line(merge.base).text.endswith("0")
    assert merge.end - merge.base == 1002


# ---- what a pane looks at


def test_scrolled_back_the_same_lines_stay_on_the_screen_while_the_file_grows() -> None:
    session = one_file(300)
    view = View(opened(session))
    view.sync()
    view.layout(80, 10)
    view.move(-30)
    view.sync()
    before = [spot.text for spot in view.layout(80, 10)]
    session.write("gpu-001", PATH, "\n".join(f"{clock(400 + n)} more {n}" for n in range(50)))
    session.poll()
    view.buffers[0].pull()
    view.sync()
    assert [spot.text for spot in view.layout(80, 10)] == before
    view.follow()
    view.sync()
    assert view.layout(80, 10)[-1].text.endswith("more 49")


def test_a_wrapped_line_is_shown_whole() -> None:
    session = LogSession({"gpu-001": [FakeFile(PATH, [0])]})
    session.write("gpu-001", PATH, "short\n" + "x" * 95 + "end")
    view = View(opened(session))
    view.wrap = True
    view.sync()
    assert "".join(spot.text for spot in view.layout(40, 10)) == "short" + "x" * 95 + "end"


# ---- choosing


def test_ranks_and_nodes_are_chosen_by_text() -> None:
    session = story(ranks=8, steps=2)

    two = [each for rank in (5, 1) for each in rank_sources(all_sources(session.fleet), rank)]

    def ranks(text: str) -> list[int | None]:
        return [source.rank for source in choose(text, session.fleet, lambda _word: two)]

    assert ranks("3") == [3]
    assert ranks("rank=3") == [3]
    assert ranks("0-2, 7") == [0, 1, 2, 7]
    assert ranks("2 0-3") == [2, 0, 1, 3]
    assert ranks("failed") == [5, 1]
    assert ranks("gpu-002") == [4, 5, 6, 7, None]  # the kernel log last
    assert ranks("gpu-*") == [0, 1, 2, 3, None, 4, 5, 6, 7, None]
    assert ranks("rank_6.log") == [6]
    assert ranks("all") == list(range(8))
    for wrong in ("99", "5-3", "gpu-9", ""):
        with pytest.raises(ChoiceError):
            choose(wrong, session.fleet, lambda _word: ())
    with pytest.raises(ChoiceError, match="ranks 0-7"):
        choose("12", session.fleet, lambda _word: ())


def test_a_rank_in_a_file_that_ranks_share_is_shown_alone() -> None:
    shared = FakeFile("/job.out", [0, 1])
    shared.write("[rank0]: a\n[rank1]: b\n  more of b\n[rank0]: c")
    session = LogSession({"gpu-001": [shared]})
    workspace = LogWorkspace(ViewState(session, lambda: 10.0, lambda: NOON))
    workspace.choose("1")
    view = workspace.opened.view_of(workspace.sources[0])
    session.poll()
    workspace.pull()
    view.sync()
    assert texts(view.sheet, view.feed) == ["[rank1]: b", "  more of b"]
    workspace.leave()
    assert not session.fleet.streams


def test_a_merged_view_has_each_line_of_a_shared_file_once() -> None:
    shared = FakeFile("/job.out", [0, 1])
    written = ["[rank0]: 12:00:01.000 a", "[rank1]: 12:00:02.000 b", "12:00:03.000 by none"]
    shared.write("\n".join(written))
    session = LogSession({"gpu-001": [shared]})
    workspace = LogWorkspace(ViewState(session, lambda: 10.0, lambda: NOON))
    workspace.choose("0-1")
    assert [source.rank for source in workspace.sources] == [0, 1]
    workspace.set_mode("merged")
    view = workspace.opened.merged
    assert view is not None
    for _ in range(3):
        workspace.pull()
        session.poll()
        view.sync()
    assert [buffer.source.name for buffer in view.buffers] == ["job.out"]
    assert texts(view.sheet, view.feed) == written


def test_failed_ranks_come_in_the_order_of_their_first_error() -> None:
    session = story(ranks=8, steps=4, failing=5)
    with_finding(session, "gpu-001", "/scratch/run7/logs/rank_1.log", "collective timed out", 1)
    with_finding(session, "gpu-002", "/scratch/run7/logs/rank_5.log", "ERROR allocator", 5)
    workspace = LogWorkspace(ViewState(session, lambda: 10.0, lambda: NOON))
    assert [source.rank for source in workspace.special("failed")] == [5, 1]
    assert [source.rank for source in first_choice(workspace.view_state)[1]] == [5, 1]


def test_numbers_are_folded() -> None:
    assert folded([3, 1, 2, 9, 2]) == "1-3,9"


# ---- times


def test_times_as_people_type_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    now = NOON + 3600
    assert time_typed("12:03:11", now, now) == NOON + 191
    assert time_typed("12:03", now, now) == NOON + 180
    assert time_typed("12:03:11.5", now, now) == NOON + 191.5
    assert time_typed("23:00", now, now) == NOON - 13 * 3600  # yesterday's: it has not been 23:00 yet
    assert time_typed("-30s", NOON, now) == NOON - 30
    assert time_typed("+5m", NOON, now) == NOON + 300
    assert time_typed("2027-01-15T08:00:00Z", NOON, now) == 1_800_000_000
    for wrong in ("25:00", "noon", "12", ""):
        with pytest.raises(TimeError):
            time_typed(wrong, now, now)


# ---- searching


def test_a_search_asks_every_node_and_sorts_what_it_finds_by_time() -> None:
    session = story(ranks=8, steps=4, failing=5)
    search = LogSearch(session, "timed out", {"gpu-001": (), "gpu-002": ()}, {"gpu-002": 3600.0})
    assert search.running
    session.poll()
    assert search.pull()
    assert not search.running
    assert len(search.hits) == 7
    assert search.hits[0].node == "gpu-002"  # its clock is an hour ahead
    assert not session.fleet.streams


def test_a_cancelled_search_takes_nothing_more() -> None:
    session = story(ranks=4, steps=4)
    session.hold = True
    search = LogSearch(session, "step", {"gpu-001": ()}, {})
    search.cancel()
    session.let_go()
    session.poll()
    search.pull()
    assert not search.hits
    assert not search.running
    assert not session.fleet.streams


def test_capitals_in_a_pattern_mean_capitals() -> None:
    session = one_file(3)
    assert LogSearch(session, "error", {}, {}).pattern.search("ERROR")
    assert not LogSearch(session, "Error", {}, {}).pattern.search("ERROR")


# ---- the pager


def test_the_pager_gets_a_file_that_only_its_owner_reads_and_that_is_gone_afterwards(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    pager = tmp_path / "pager"
    pager.write_text(
        f'#!/bin/sh\nfor f; do :; done\nls -l "$f" > {seen}\ncat "$f" >> {seen}\necho "$f" >> {seen}\n'
    )
    pager.chmod(0o755)
    assert page(["one", "two"], 2, [str(pager)]) == 0
    lines = seen.read_text().splitlines()
    assert lines[0].startswith("-rw-------")
    assert lines[1:3] == ["one", "two"]
    assert not Path(lines[3]).exists()


def test_the_pager_is_the_persons_own_where_it_exists() -> None:
    assert pager_command({"PAGER": "cat -v"}) == ["cat", "-v"]
    assert pager_command({"PAGER": "no-such-pager-here"})[:1] != ["no-such-pager-here"]


def test_a_page_on_its_way_does_not_undo_a_later_jump() -> None:
    session = one_file(1000)
    buffer = opened(session)
    session.hold = True
    buffer.go(offset=0)
    buffer.go(at=NOON + 990)
    session.let_go()
    pulled(session, buffer)
    assert buffer.target is not None
    assert buffer.line(buffer.target).text.endswith("line 990")
    assert buffer.live


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("2026-03-02 10:00:00,123 INFO [rank 3] a message of a rank", "a message of a rank"),
        ("  time      : 2026-03-02_10:00:00", "  time      : 2026-03-02_10:00:00"),
        (
            "E1127 23:03:37.889000 2 torch/distributed/api.py:1002] failed (exitcode: 1)",
            "failed (exitcode: 1)",
        ),
        ("2026-11-28 03:13:04,200 [rank11]: ERROR training failed", "training failed"),
    ],
)
def test_the_prefix_of_a_line_is_no_mere_indentation(line: str, message: str) -> None:
    assert line[message_at(line) :] == message
