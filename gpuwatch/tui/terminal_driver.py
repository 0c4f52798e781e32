"""Textual's driver for terminals, made safe against the loss of the terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, TextIO

from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key
from textual.message import Message

_ESCAPE = "\x1b"
_INTRODUCERS = "[OP]_^X"
"""Characters that begin a control sequence after an escape (ECMA-48 and SS3)."""
_WORD_MOVES = "bf"
"""Characters that terminals on macOS send after an escape for option and an arrow key."""


class EscapeParser(XTermParser):
    """A parser to which an escape and a character, received together, are two keys.

    A slow connection delivers both in one packet. Textual's parser takes them for a character typed with alt:
    escape and 4 would be a cent sign.
    """

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[Key]:
        if len(sequence) == 2 and sequence[0] == _ESCAPE and _is_key(sequence[1]):
            return [Key("escape", _ESCAPE), *super()._sequence_to_key_events(sequence[1])]
        return super()._sequence_to_key_events(sequence, alt)


def _is_key(character: str) -> bool:
    return character == "\r" or (character.isprintable() and character not in _INTRODUCERS + _WORD_MOVES)


def two_keys(message: Message) -> list[Message]:
    """Return escape and the character for a key that was read as the character with alt; else the message."""
    if isinstance(message, Key) and message.key.startswith("alt+") and message.character:
        character = message.character
        name = character if character.isalnum() else message.key.removeprefix("alt+")
        return [Key("escape", _ESCAPE), Key(name, character)]
    return [message]


class IgnoreWriteErrors:
    """A file that drops output which cannot be written, because the terminal is gone.

    Without it, Textual's writer thread dies at the first failure, its bounded queue fills up, and the process
    blocks forever with every connection open.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()


class TerminalDriver(LinuxDriver):
    """LinuxDriver (which Textual also uses on macOS) with an output file that ignores write errors."""

    def __init__(self, app: App[object], **options: Any) -> None:  # noqa: ANN401 - Textual's own
        super().__init__(app, **options)
        linux_driver.XTermParser = EscapeParser  # type: ignore[attr-defined]  # the driver's thread makes its parser
        if self._file is not None:
            self._file = IgnoreWriteErrors(self._file)  # type: ignore[assignment]  # all that the writer thread asks of a file

    def start_application_mode(self) -> None:
        """Take over the terminal, but not again in an app that ends.

        A stopped app (ctrl+z) whose terminal is closed gets HUP, and CONT more than once: threads that start
        after the last ones have ended keep the process alive, reading a terminal that is gone.
        """
        if self._key_thread is None or self._app.return_code is None:
            super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual's own

    def process_message(self, message: Message) -> None:
        for each in two_keys(message):
            super().process_message(each)
