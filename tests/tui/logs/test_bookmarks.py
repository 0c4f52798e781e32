"""Bookmarks stay when the screen is left and when gpuwatch ends."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gpuwatch.tui.logs.data.line_window import UNKNOWN
from gpuwatch.tui.logs.search.bookmark_file import BookmarkFile, KeptBookmark
from tests.tui.logs.log_desk import log_desk
from tests.tui.logs.log_nodes import story


async def test_bookmarks_survive_the_screen_and_the_session(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "gpuwatch"
    async with log_desk(story(), state_folder=folder) as workspace:
        await workspace.type("c", "5")
        marked = workspace.under_cursor()
        await workspace.press("b", "1", "3")
        assert len(workspace.screen.workspace.bookmarks) == 1
    file = folder / "bookmarks.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each["text"] for each in msgspec.json.decode(file.read_bytes())] == [marked]

    foreign = file.read_bytes().replace(b'"node": "', b'"node": "of-another-cluster-')
    file.write_bytes(file.read_bytes()[:-2] + b"," + foreign[1:])
    async with log_desk(story(), state_folder=folder) as workspace:  # after a restart
        await workspace.press("B")
        assert "1 bookmark;" in workspace.text()
        await workspace.press("enter", "escape")
        assert workspace.under_cursor() == marked
        await workspace.press("b")
        assert len(workspace.screen.workspace.bookmarks) == 0
    assert msgspec.json.decode(file.read_bytes()) == msgspec.json.decode(foreign)


async def test_a_mark_of_an_earlier_session_is_not_on_another_line_of_a_replaced_file(tmp_path: Path) -> None:
    async with log_desk(story(), state_folder=tmp_path) as workspace:
        await workspace.type("c", "5")
        await workspace.press("b")
    file = tmp_path / "bookmarks.json"
    file.write_bytes(file.read_bytes().replace(b'"text": "', b'"text": "another line '))
    async with log_desk(story(), state_folder=tmp_path) as workspace:
        await workspace.type("c", "5")
        view = workspace.screen.pane.view
        assert view is not None
        line, (source, _) = view.line(), view.feed.place(view.cursor)
        assert line is not None
        assert not workspace.screen.workspace.bookmarks.holds(
            (source.node, source.file, line.offset), line.text
        )


ENTRY = '[{{"node": "n", "file": "f", "offset": {offset}, "text": "x", "at": {at}, "rank": {rank}}}]'


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "text",
    [
        "{ not a list",
        '[{"x": ' + "[" * 200_000,
        ENTRY.format(offset=-1, at=1, rank=0),
        ENTRY.format(offset=10**40, at=1, rank=0),
        ENTRY.format(offset=1, at=1e308, rank=0),
        ENTRY.format(offset=1, at=1, rank=-(2**70)),
    ],
    ids=["no list", "deep", "negative", "large", "time", "rank"],
)
async def test_a_damaged_file_is_set_aside_and_bookmarks_are_kept_on(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bookmarks.json"
    file.write_text(text)
    async with log_desk(story(), state_folder=tmp_path) as workspace:
        await workspace.type("c", "5")
        await workspace.press("b")
        assert len(workspace.screen.workspace.bookmarks) == 1
        assert str(file) in (workspace.screen.workspace.bookmarks.trouble or "")
    assert (tmp_path / "bookmarks.json.damaged").read_text() == text
    assert len(msgspec.json.decode(file.read_bytes())) == 1


def test_a_line_without_a_time_keeps_its_bookmark(tmp_path: Path) -> None:
    file = BookmarkFile(tmp_path / "bookmarks.json")
    file.change(lambda kept: kept.append(KeptBookmark("n", "f", 0, "x", None)))
    assert [(each.text, each.time) for each in file.read()] == [("x", UNKNOWN)]
    assert file.trouble is None


async def test_a_file_that_may_not_be_read_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "bookmarks.json"
    file.write_text("[]")
    file.chmod(0o666)
    async with log_desk(story(), state_folder=tmp_path) as workspace:
        await workspace.type("c", "5")
        await workspace.press("b")
        assert len(workspace.screen.workspace.bookmarks) == 1
        assert str(file) in (workspace.screen.workspace.bookmarks.trouble or "")
    assert file.read_text() == "[]"


def test_bookmarks_of_two_cockpits_are_both_kept(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path;"
        "from gpuwatch.tui.logs.search.bookmark_file import BookmarkFile, KeptBookmark;"
        "mine = BookmarkFile(Path(sys.argv[1]));"
        "[mine.change(lambda kept, at=at: kept.append("
        "KeptBookmark(node=sys.argv[2], file='f', offset=at, text='x', at=0.0, rank=None)))"
        " for at in range(30)]"
    )
    file = tmp_path / "bookmarks.json"
    running = [subprocess.Popen([sys.executable, "-c", program, str(file), node]) for node in "abc"]
    assert [one.wait(60) for one in running] == [0, 0, 0]
    kept = BookmarkFile(file).read()
    assert {(each.node, each.offset) for each in kept} == {(node, at) for node in "abc" for at in range(30)}
