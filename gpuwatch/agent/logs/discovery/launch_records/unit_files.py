"""Reads the unit file of a systemd service: its working folder and its command."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

OF_SYSTEM = "/run/systemd/transient", "/etc/systemd/system", "/run/systemd/system"
"""Folders of unit files, in systemd's order; those of the distribution (/usr/lib) run no training."""
OF_USERS = ("/etc/systemd/user",)


def working_folder(
    unit: str, uid: "int | None", home: "Callable[[int], str | None]", read: "Callable[[str], str | None]"
) -> "tuple[str | None, str]":
    """Return the working folder of a service, or None, and the command that it starts, or an empty text.

    Args:
        unit: Its name; for `train@7.service` the file of the template `train@.service` is read.
        uid: The user whose manager runs it; None: the system's.
        home: uid -> home folder.
        read: Path -> text of a file, or None. Users can have anything at the path, also a pipe.
    """
    own = home(uid) if uid is not None else None
    folders: tuple[str, ...] = OF_SYSTEM if uid is None else ("/run/user/{}/systemd/transient".format(uid),)
    if own:
        folders += (own + "/.config/systemd/user",)
    folders += OF_USERS if uid is not None else ()
    head, at, _ = unit.partition("@")
    names = (unit, head + "@.service") if at else (unit,)
    for folder in folders:
        for name in names:
            text = read(os.path.join(folder, name))
            if text is not None:
                return _settings(text, own)
    return None, ""


def _settings(text: str, own: "str | None") -> "tuple[str | None, str]":
    """Return WorkingDirectory and ExecStart of a unit file; specifiers (`%i`) are not resolved."""
    folder, command = None, ""
    for line in text.splitlines():
        key, _, value = line.strip().partition("=")
        if key.rstrip() == "WorkingDirectory":
            given = value.strip().lstrip("-!")
            folder = own if given == "~" else given if given.startswith("/") and "%" not in given else None
        elif key.rstrip() == "ExecStart" and value.strip():
            command = value.strip().lstrip("-@:+!")
    return folder, command
