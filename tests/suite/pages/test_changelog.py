"""CHANGELOG.md has the form of Keep a Changelog, and its newest release is the version of the program."""

from __future__ import annotations

import re
from pathlib import Path

from gpuwatch import __version__
from gpuwatch.telemetry.base.settings import LIBRARY_VERSION

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "CHANGELOG.md").read_text()
MAX_NOTES = 100
"""More lines than that nobody reads."""
GROUPS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_newest_release_is_this_version() -> None:
    headings = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    newest = re.fullmatch(r"\[([\d.]+)\] - \d{4}-\d\d-\d\d", headings[1])
    assert newest
    assert (newest[1], LIBRARY_VERSION) == (__version__, __version__)


def test_changes_stand_in_the_groups_of_the_form() -> None:
    assert set(re.findall(r"^### (.+)$", PAGE, re.MULTILINE)) <= GROUPS
    released = PAGE.partition("## [0.2.0]")[2]
    lines = len(re.findall(r"^- ", released, re.MULTILINE))
    assert lines < MAX_NOTES, (
        f"{lines} notes: if a merge brought the old list back, take CHANGELOG.md of main and put your own "
        "lines alone on top of Added"
    )


def test_the_version_stands_nowhere_else_in_another_number() -> None:
    assert f'"gpuwatch {__version__}"' in (ROOT / "docs" / "gpuwatch.1").read_text()
    assert f'"gpuwatch run {__version__}"' in (ROOT / "docs" / "sessions.md").read_text()
