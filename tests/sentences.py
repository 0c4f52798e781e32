"""The product's sentences as tests meet them: one golden file per package, `tests/<package>/sentences.json`.

A test asserts codes, ranks and numbers itself and passes the wording to the fixture `sentences`. What differs
from the golden file fails the test at its end: its own assertions are judged first. After an intended change
of wording `pytest --update-sentences` writes the sentences of the tests that it runs: review them.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
FILE = "sentences.json"
COLOURS = re.compile(r"\\u001b\[[\d;?]*[A-Za-z]")
VOLATILE = re.compile(
    r"\b\d\d:\d\d:\d\d\b|(?<=127\.0\.0\.1:)\d+|(?<=127\.0\.0\.1\]:)\d+|(?<=SHA256:)[\w+/]{43}"
)
"""Times of the day, which stand in local time; ports that a test took; fingerprints of keys that it made."""


def golden_file(test_file: Path) -> Path:
    """The golden file of a test's package: the folder directly under `tests`."""
    return TESTS / test_file.relative_to(TESTS).parts[0] / FILE


def line_of(text: str, *marks: str) -> str:
    """The first line that holds each of the marks (a rank, a node, a number), without its indentation."""
    for line in text.splitlines():
        if all(mark in line for mark in marks):
            return " ".join(line.split())
    raise AssertionError(f"no line with {marks} in\n{text}")


class Sentences:
    """What one test met, in its order, repetitions once.

    A text of several lines is kept as a list of lines; `folders` of the test run stand under their names.
    """

    def __init__(self, test: str, folders: Mapping[str, str]) -> None:
        self._test = test
        self._folders = folders
        self.met: list[Any] = []

    def __call__(self, wording: object, but: str = "") -> None:
        """Take a wording; `but` is the pattern of what else differs from run to run."""
        text = json.dumps(wording, ensure_ascii=False)
        for folder, name in self._folders.items():
            text = text.replace(folder, name)
        text = VOLATILE.sub("…", COLOURS.sub("", text))
        shown = json.loads(re.sub(but, "…", text) if but else text)
        if isinstance(shown, str) and "\n" in shown.strip("\n"):
            shown = shown.splitlines()
        if self.met[-1:] != [shown]:
            self.met.append(shown)

    def difference(self, file: Path) -> str:
        """What to tell if the golden file differs, else nothing."""
        golden = json.loads(file.read_text()).get(self._test) if file.exists() else None
        if golden == self.met:
            return ""
        old, new = (json.dumps(each, indent=2, ensure_ascii=False) for each in (golden, self.met))
        heading = f"{file}: other sentences in {self._test} (if intended: pytest --update-sentences)"
        return f"{heading}\ngolden: {old}\nmet: {new}"

    def update(self, file: Path) -> None:
        """Write what was met; test processes of one package take turns."""
        with file.open("a+") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            stream.seek(0)
            golden = json.loads(stream.read() or "{}")
            golden[self._test] = self.met
            stream.truncate(0)
            stream.write(json.dumps(golden, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
