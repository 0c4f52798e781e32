"""`Y` copies an incident as Markdown; `ctrl+o` saves the screen as SVG and text."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from msgspec import structs

from gpuwatch.diagnose.incidents.markdown import as_markdown
from tests.tui.scripted_alerts import demo_book, demo_incident
from tests.tui.still import demo_session, still_app


async def test_the_incident_is_copied_and_the_screen_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    book = demo_book()
    app = still_app(demo_session(95, book=book), 95)
    copied: list[str] = []
    monkeypatch.setattr(app, "copy_to_clipboard", copied.append)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("Y")
        assert copied == [as_markdown(book.incidents[0])]
        await pilot.press("ctrl+o", "ctrl+o")
        await pilot.pause()
    saved = sorted(path.name for path in tmp_path.iterdir())
    assert [name.rpartition(".")[2] for name in saved] == ["svg", "txt"] * 2
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}
    for path in tmp_path.iterdir():
        text = path.read_text("utf-8")
        assert "gpu-011" in text
        if path.suffix == ".svg":
            ET.fromstring(text)  # noqa: S314 - our own
            assert 'url("http' not in text, "who opens it loads nothing"
        else:
            assert len(text.splitlines()) == 40


def test_markdown_has_the_parts_of_the_incident_and_no_markup_of_the_logs() -> None:
    incident = demo_incident()
    cause = incident.cause
    assert cause is not None
    hostile = structs.replace(
        cause, proof=(structs.replace(cause.proof[0], lines=("```", "<script>", "\x1b[31m# title")),)
    )
    code = "x`\n# title\x1b]52;c;AAAA\x07"
    made = structs.replace(
        incident,
        code=code,
        cause=hostile,
        alerts=(hostile, *incident.alerts[1:]),
        headline="a [link](http://x) *b*",
    )
    lines = as_markdown(made).splitlines()
    assert lines[0] == r"## a `[link](http://x)` \*b\*"
    assert sum(line.startswith("### ") for line in lines) == 3
    opened = lines.index("````")
    assert lines[opened + 1 : opened + 3] == ["```", "<script>"]
    assert lines[opened + 4] == "````"
    assert all(line.isprintable() for line in lines)
    assert not [line for line in lines if line.startswith("# ")]
    assert [line.count("`") for line in lines if line.startswith("- class")] == [2]
    assert sum(line.startswith("1. ") for line in lines) == 1


@pytest.mark.parametrize("word", ["@everyone", "@channel", "http://evil/p", "www.evil.example", "`@here`"])
def test_no_word_of_a_log_becomes_a_mention_or_a_link(word: str) -> None:
    incident = demo_incident()
    cause = incident.cause
    assert cause is not None
    hostile = structs.replace(
        cause, proof=(structs.replace(cause.proof[0], file=f"/logs/{word}/rank_0.log"),)
    )
    moments = tuple(structs.replace(moment, what=word) for moment in incident.timeline)
    made = structs.replace(
        incident, cause=hostile, alerts=(hostile, *incident.alerts[1:]), headline=f"{word} failed",
        because=f"of {word}", timeline=moments,
    )  # fmt: skip
    bare = word.strip("`")
    for line in as_markdown(made).splitlines():
        outside = "".join(line.split("`")[::2])
        assert bare not in outside
    (step,) = [
        line
        for line in as_markdown(structs.replace(made, do=(f"see {word} now",)), recorded=True).splitlines()
        if line.startswith("1. ")
    ]
    assert bare not in "".join(step.split("`")[::2])


async def test_a_note_is_written_from_the_palette_and_stands_on_the_screen() -> None:
    app = still_app(demo_session(95, book=demo_book()), 95)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4", "colon", *"note on this")
        await pilot.pause(0.3)
        await pilot.press("enter")
        await pilot.pause()
        await pilot.press(*"4711", "enter")
        await pilot.pause(0.3)
        (incident,) = app.view_state.snapshot.incidents
        assert [note.text for note in incident.notes] == ["4711"]
        assert "alice@login-1" in "".join(strip.text for strip in app.screen._compositor.render_strips())
