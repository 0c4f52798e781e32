"""Asks `journalctl` for entries that may be of trainings; no user's entries hide those of others."""

import os
import select
import time

from ...ipc.lifeline import die_with
from .journal_entries import RECORDERS, STARTED, WRITERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import Callable, Iterator

JOURNAL_S = 3.0
"""Seconds that `journalctl` may take, for all questions together."""
MAX_ENTRIES = 400
"""Entries of the journal per question, newest first."""
MAX_OF_ROOT = 2000
"""The same for root's programs, which log for all users: sudo, cron, slurmd, systemd."""
MAX_WRITERS = 64
"""Most users whose entries are asked for one by one."""
MAX_BYTES = 4 << 20
WAIT_S = 0.02
_OF_ROOT = b"0"
_QUESTIONS = (
    (["_COMM=" + name for name in RECORDERS], ["MESSAGE_ID=" + STARTED]),
    (["_COMM=" + name for name in WRITERS],),
)
"""Two, so that a program that writes many lines hides no command of a user; each of alternative matches."""


class JournalQuestions(object):
    """Gives the entries to `take`, newest first.

    Where a question has more than the limit, it is asked for each user again.
    """

    def __init__(self, take: "Callable[[bytes], object]", since: float) -> None:
        """Prepare; `since`: unix seconds of the oldest entry. The time that the answers may take begins."""
        self.cut = False
        """True if entries of some user were left out."""
        self._take = take
        self._since = since
        self._deadline = time.monotonic() + JOURNAL_S
        self._count = 0
        """Entries of the last answer."""
        self._is_full = False
        """True if a limit ended the last answer."""

    def steps(self) -> "Iterator[None]":
        """Ask all questions; a step of the iterator reads some lines of an answer."""
        for question in _QUESTIONS:
            for _ in self._entries(question, MAX_ENTRIES):
                yield
            if not self._is_full:
                continue
            users: list[bytes] = []
            for _ in self._ask(["-F", "_UID"], users.append):
                yield
            self.cut = self.cut or not 0 < len(users) <= MAX_WRITERS
            for user in users[:MAX_WRITERS]:
                most = MAX_OF_ROOT if user == _OF_ROOT else MAX_ENTRIES
                for _ in self._entries(question, most, ["_UID=" + user.decode("ascii", "replace")]):
                    yield
                self.cut = self.cut or (self._is_full and user == _OF_ROOT)
            self.cut = self.cut or time.monotonic() >= self._deadline

    def _entries(
        self, question: "tuple[list[str], ...]", most: int, also: "tuple[()] | list[str]" = ()
    ) -> "Iterator[None]":
        """Ask for the newest entries of a question that have all the matches `also`."""
        seconds = max(0, int(time.time() - self._since))
        words = ["-o", "json", "-r", "-n", str(most), "--since=-{}s".format(seconds)]
        for number, matches in enumerate(question):
            words += (["+"] if number else []) + matches + list(also)
        for _ in self._ask(words, self._take):
            yield
        self._is_full = self._is_full or self._count >= most

    def _ask(self, words: "list[str]", take: "Callable[[bytes], object]") -> "Iterator[None]":
        """Give the lines of an answer to `take`, until it ends or a limit is reached."""
        import subprocess  # noqa: PLC0415 - 1 MB, for nodes with a journal only

        self._count, self._is_full = 0, True
        me, left = os.getpid(), MAX_BYTES
        try:
            child = subprocess.Popen(
                ["journalctl", "-q", "--no-pager"] + words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                preexec_fn=lambda: die_with(me),  # noqa: PLW1509 - one system call
            )
        except OSError:
            self._is_full = False
            return
        try:
            lines, rest = [], b""
            while left > 0 and time.monotonic() < self._deadline:
                data = _next_bytes(child)
                if data == b"":
                    self._is_full = False
                    break
                if data is not None:
                    left -= len(data)
                    *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    if time.monotonic() < self._deadline:
                        self._count += 1
                        take(line)
                lines = []
                yield
        finally:
            child.kill()
            child.wait()
            child.stdout.close()  # type: ignore[union-attr]  # started with stdout=PIPE


def _next_bytes(child: "subprocess.Popen[bytes]") -> "bytes | None":
    """Return what a child has written, empty at its end; None: nothing within `WAIT_S`."""
    output = child.stdout
    assert output is not None  # noqa: S101 - started with stdout=PIPE
    if not select.select([output], [], [], WAIT_S)[0]:
        return None
    return os.read(output.fileno(), 1 << 16)
