"""Builds the commands that a user copies into a shell, and validates the values in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

_NUMBER = re.compile(r"[0-9]{1,18}")
FORMS: Final = {
    "node": re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}"),
    "job": re.compile(r"[1-9][0-9]{0,9}(?:[_+](?:0|[1-9][0-9]{0,6}))?"),
    "gpu": _NUMBER,
    "gpu_uuid": re.compile(r"GPU-[0-9A-Za-z-]{1,64}"),
    "rank": _NUMBER,
    "pid": re.compile(r"(?!1$)[1-9][0-9]{0,9}"),
    "object": re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"),
    "log": re.compile(r"/[A-Za-z0-9_./@+=:,~-]{1,1000}"),
}
"""Kind of value -> its allowed form.

A host name or address, Slurm's id of a job, of a task of an array (`41_3`) or of a part of a heterogeneous
job (`41+1`), a GPU's UUID, a process, an object of Kubernetes (RFC 1123), an absolute path without shell
metacharacters. 1, 0 and negative numbers are not valid processes: `kill -- -1` ends all processes of its
user.
"""
MAX_JOB = 2**32 - 1
"""Slurm's ids have 32 bits: a larger number, or one with leading zeros, is read as another job's."""


def value(kind: str, given: object) -> str | None:
    """Return `given` as text for use in a command; None if it does not match the pattern `FORMS[kind]`.

    A job number may be at most `MAX_JOB`. Values come from logs, environments and nodes: text of another form
    could inject a command.
    """
    text = "" if given is None else str(given)
    if not FORMS[kind].fullmatch(text):
        return None
    return None if kind == "job" and int(re.split("[_+]", text)[0]) > MAX_JOB else text


def command_line(argv: Sequence[str]) -> str:
    """Return `argv` quoted as one line for a POSIX shell."""
    return shlex.join(argv)


def over_ssh(options: Sequence[str], host: str, argv: Sequence[str]) -> str:
    """Return the line that runs `argv` on a host by ssh, quoted twice: the remote shell splits it again."""
    return command_line(["ssh", *options, host, *map(shlex.quote, argv)])
