"""Escape and a key that a slow connection delivers in one packet."""

from __future__ import annotations

import pytest
from textual.events import Key

from gpuwatch.tui.terminal_driver import EscapeParser, two_keys


@pytest.mark.parametrize(
    ("received", "pressed"),
    [
        ("\x1b4", ["escape", "4"]),
        ("\x1bB", ["escape", "B"]),
        ("\x1b:", ["escape", "colon"]),
        ("\x1b\r", ["escape", "enter"]),
        ("\x1b4/", ["escape", "4", "slash"]),
        ("\x1b[A", ["up"]),
        ("\x1bOP", ["f1"]),
        ("\x1bf", ["ctrl+right"]),
    ],
)
def test_escape_and_a_key_in_one_packet_are_two_keys(received: str, pressed: list[str]) -> None:
    keys = [each for event in EscapeParser().feed(received) for each in two_keys(event)]
    assert [each.key for each in keys if isinstance(each, Key)] == pressed


@pytest.mark.parametrize(("key", "character", "name"), [("alt+shift+p", "P", "P"), ("alt+o", "o", "o")])
def test_a_character_that_was_read_with_alt_is_two_keys(key: str, character: str, name: str) -> None:
    keys = two_keys(Key(key, character))
    assert [each.key for each in keys if isinstance(each, Key)] == ["escape", name]
