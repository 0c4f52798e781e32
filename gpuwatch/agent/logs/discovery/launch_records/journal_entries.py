"""Reads entries of the systemd journal: folders and users of commands that may have been trainings."""

import json
import pwd
import re

from ....base.user_rights import NOBODY, ROOT
from ....ranks.launcher_names import LAUNCHERS, starts_training
from .unit_files import working_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

STARTED = "39f53479d3a045ac8e11786248231fbf"
"""MESSAGE_ID of `Started UNIT` by systemd (systemd/sd-messages.h)."""
RECORDERS = "sudo", "cron", "crond", "slurmd", "slurmstepd"
"""Programs (_COMM) whose messages name a command's folder or user."""
WRITERS = tuple(sorted(LAUNCHERS - {"slurmstepd", "conmon", "raylet"})) + (
    "python",
    "python3",
    "pt_main_thread",
)
"""Programs (_COMM) that can be a training which writes to the journal itself."""
_SLURM_USER = re.compile(r"\b(?:UID:|for UID )(\d{1,10})\b")
"""`launch task StepId=65.0 request from UID:1000 GID:1000 HOST:...`, `Launching batch job 65 for UID 1000`"""
_CRON = re.compile(r"\(([^()]{1,64})\) CMD \(")
_CHANGE_FOLDER = re.compile(r"(?:^|[;&(]) {0,4}cd (/[^\s;&|)]{1,1024})")
MAX_UID_DIGITS = 10
MAX_COMMAND = 8192
"""Characters of a command that are read."""
MAX_FOLDERS = 16
"""Most folders that one user names."""
_UNIT = re.compile(r"[\w@:.\\-]{1,240}\.service")
_FOLDERS_OF_PROGRAMS = frozenset(("bin", "sbin", "libexec"))
_FILE = re.compile(r"\.[A-Za-z]\w{0,9}$")
"""Suffix of a word that names a file: the folder is the one it lies in."""


class Launches(object):
    """The folders of commands that entries of the journal name, newest first, and users without a folder."""

    def __init__(self, home: "Callable[[int], str | None]", read: "Callable[[str], str | None]") -> None:
        """Start empty.

        Args:
            home: uid -> home folder.
            read: Path -> text of a unit file, or None.
        """
        self.folders: dict[tuple[str, int], None] = {}
        """(folder, user (uid) who named it); 0: the system's own; NOBODY: a user who is not known.

        Users choose what their entries name.
        """
        self.users: list[int] = []
        self._left: dict[int, int] = {}
        """User -> further folders that count."""
        self._home = home
        self._read = read
        self._known: set[tuple[str, int | None, int, str]] = set()

    def add(self, line: bytes) -> None:
        """Read one entry (`journalctl -o json`); lines that are none are ignored."""
        try:
            entry = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return
        if isinstance(entry, dict):
            fields = {key: value for key, value in entry.items() if isinstance(value, str)}
            self._add(fields)

    def _add(self, entry: "dict[str, str]") -> None:
        program, message = entry.get("_COMM", ""), entry.get("MESSAGE", "")[:MAX_COMMAND]
        if program == "sudo":
            self._of_sudo(message, _writer(entry))
        elif program in ("cron", "crond"):
            found = _CRON.match(message)
            if found:
                command = message[found.end() :].rstrip(")")
                self._take(command, (), _user(found.group(1), _writer(entry)))
        elif program in ("slurmd", "slurmstepd"):
            named = _SLURM_USER.search(message) if _writer(entry) == ROOT else None
            if named is not None and int(named.group(1)) != ROOT:
                self._add_user(int(named.group(1)))
        elif entry.get("MESSAGE_ID") == STARTED:
            if program == "systemd":
                self._of_unit(entry.get("USER_UNIT") or entry.get("UNIT") or "", entry, message.rstrip("."))
        else:
            unit = entry.get("_SYSTEMD_USER_UNIT") or entry.get("_SYSTEMD_UNIT") or ""
            self._of_unit(unit, entry, entry.get("_CMDLINE", ""))

    def _of_sudo(self, message: str, writer: int) -> None:
        """Take the folder and the user of a command from a message of sudo.

        Example: `alice : TTY=pts/0 ; PWD=/home/alice/run7 ; USER=root ; COMMAND=/usr/bin/torchrun train.py`.
        """
        head, _, command = message.partition(" ; COMMAND=")
        folders = [part[4:] for part in head.split(" ; ") if part.startswith("PWD=/")]
        self._take(command, folders, _user(head.partition(" : ")[0].strip(), writer))

    def _of_unit(self, unit: str, entry: "dict[str, str]", command: str) -> None:
        """Take the folders of a command that a unit has run, and of the unit's file if there is one.

        If a training command names no new folder, the user is added to `users`.
        """
        of_user = "USER_UNIT" in entry or "_SYSTEMD_USER_UNIT" in entry
        writer = _writer(entry)
        uid = writer if of_user and writer != NOBODY else None
        if (unit, uid, writer, command) in self._known:
            return
        self._known.add((unit, uid, writer, command))
        folder = None
        if _UNIT.fullmatch(unit):
            folder, started = working_folder(unit, uid, self._home, self._read)
            command = command + " " + started
        known = len(self.folders)
        without_folder = (
            self._take(command, [folder] if folder else [], writer) and len(self.folders) == known
        )
        if without_folder and writer != NOBODY:
            self._add_user(writer)

    def _add_user(self, uid: int) -> None:
        if uid not in self.users:
            self.users.append(uid)

    def _take(self, command: str, folders: "list[str] | tuple[()]", uid: int) -> bool:
        """Take the folders of a user's command if it can have been a training; return whether it can."""
        command = command[:MAX_COMMAND]
        words = [word.strip("'\"") for word in command.split()]  # a path with a blank is cut
        if not starts_training(words):
            return False
        for folder in list(folders) + _CHANGE_FOLDER.findall(command) + named_folders(words):
            if self._left.setdefault(uid, MAX_FOLDERS) and (folder, uid) not in self.folders:
                self._left[uid] -= 1
                self.folders[folder, uid] = None
        return True


def _writer(entry: "dict[str, str]") -> int:
    """Return the user (uid) of the process that wrote an entry, which journald states; or NOBODY."""
    uid = entry.get("_UID", "")
    return int(uid) if uid.isdecimal() and len(uid) <= MAX_UID_DIGITS else NOBODY


def _user(name: str, writer: int) -> int:
    """Return the uid of the user whom a program of root names; of another writer, the writer.

    Users can give their programs any name.
    """
    if writer != 0:
        return writer
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        return NOBODY


def named_folders(words: "list[str]") -> "list[str]":
    """Return the folders that the words of a command name, also in `--option=PATH`.

    Of a file its folder. Folders of programs (`/opt/venv/bin`) are left out.
    """
    found = []
    for word in words:
        path = word.rpartition("=")[2]
        if not path.startswith("/"):
            continue
        folder, _, name = path.rstrip("/").rpartition("/")
        if folder.rpartition("/")[2] in _FOLDERS_OF_PROGRAMS:
            continue
        found.append(folder if _FILE.search(name) else path.rstrip("/"))
    return [folder for folder in dict.fromkeys(found) if folder]
