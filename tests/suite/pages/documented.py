"""What the documentation says that can be checked: links with their anchors, and command lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parents[3]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMENT = re.compile(r"\s{2,}.*|\s#\s.*")
"""What stands behind a command: a description in a column of its own, or a comment."""


@cache
def pages() -> dict[str, str]:
    """Path below the root -> text of each page for people; the changelog tells of commands that are gone."""
    found = [ROOT / "README.md", ROOT / "SECURITY.md", *ROOT.glob("docs/*.md"), *ROOT.glob(".github/*.md")]
    found += ROOT.glob("packaging/*/README.md")
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted(found)}


def anchors(text: str) -> set[str]:
    """The anchors of a page: its headings as GitHub names them, and explicit ones."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([\w-]+)">', text))


@dataclass(frozen=True)
class Command:
    """A command line of a page."""

    page: str
    line: int
    words: tuple[str, ...]
    """Behind `gpuwatch`."""
    in_block: bool
    """Whether it stands in a block to copy, and not in a sentence."""


def commands() -> Iterator[Command]:
    """Every command line of the pages that starts gpuwatch, up to its first pipe or redirection."""
    for page, text in pages().items():
        fenced = False
        for number, line in enumerate(text.splitlines(), 1):
            fenced ^= line.startswith("```")
            block = fenced or line.startswith("    ")
            for each in [line.strip()] if block else re.findall(r"`(?:\$ )?(gpuwatch [^`]+)`", line):
                if words := words_of(COMMENT.sub("", each)):
                    yield Command(page, number, words, in_block=block)


def words_of(line: str) -> tuple[str, ...]:
    """The words behind `gpuwatch`, optional ones too; none where the line starts something else."""
    if run := re.fullmatch(r'make run(?: ARGS="(.*)")?', line):
        line = f"gpuwatch {run[1] or '--local'}"
    line = re.sub(r"^(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?", "", line)
    if not line.startswith("gpuwatch "):
        return ()
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
    lexer.whitespace_split = True
    words = list(takewhile(lambda word: not set(word) <= set("|;&<>"), lexer))
    return tuple(
        word.strip("[]") if word.startswith("[-") or word.endswith("]") else word for word in words[1:]
    )
