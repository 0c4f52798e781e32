"""States why a connection ended, as one sentence with the remedy. Pure: text in, text out."""

from __future__ import annotations

import re

from msgspec import Struct

from gpuwatch.link.start.bundle import NO_PYTHON, NO_SMI, OLDEST_PYTHON
from gpuwatch.link.stream.remote_text import shown_lines

QUOTED_CHARACTERS = 160
AFTER_CLOSING = "see whether the node is up, and whether a firewall or sshd ends sessions"
"""What to look at after a connection was closed from the other side."""


class Ending(Struct, frozen=True):
    """The reason why a connection ended, as a sentence with the remedy."""

    reason: str
    final: bool = False
    """True: a retry cannot help without the user."""
    no_python: bool = False
    """True: the node has /bin/sh but no interpreter for the agent."""


def before_start(noise: str, stderr: str, python: str | None, what: str = "agent") -> Ending:
    """Return why the agent ended before it printed its start marker.

    Args:
        noise: The output on stdout before.
        stderr: The last lines on stderr.
        python: The interpreter that the hosts file names, if any.
        what: What was to be started.
    """
    words = shown_lines(noise, 1_000)
    if NO_PYTHON in words or NO_SMI in words:
        return _no_python(python, smi=NO_SMI not in words)
    if _is_traceback(stderr):
        return Ending(_failed(stderr, what))
    if words:
        return Ending(
            f'instead of starting the {what} the node answered "{_quote(words[:2])}"; '
            "the account must be allowed to run /bin/sh (no nologin, no forced command)"
        )
    stated = shown_lines(stderr, 2)
    if stated:
        return Ending(f'the {what} could not be started: "{_quote(stated)}"')
    return Ending(
        f"the connection was closed before the {what} started, without any output; "
        "check that the account may run commands there"
    )


def _no_python(python: str | None, *, smi: bool) -> Ending:
    oldest = ".".join(map(str, OLDEST_PYTHON))
    if python is not None:
        neither = "" if smi else ", and there is no nvidia-smi to fall back on"
        reason = f"{python} is missing on the node, or older than Python {oldest}{neither}; correct `python:`"
    else:
        neither = "" if smi else " and no nvidia-smi"
        reason = (
            f"no Python {oldest} or later{neither} was found on the node; "
            "install python3, or name one with `python:`"
        )
    return Ending(reason, final=True, no_python=True)


def after_start(bye: str | None, stderr: str, what: str = "agent", *, alone: bool = False) -> Ending:
    """Return why the agent (or `what`) ended after its start.

    Args:
        bye: Its last message, if any.
        stderr: Its last lines on stderr.
        what: What was started.
        alone: Whether it ended while the connection stood.
    """
    if _is_traceback(stderr):
        return Ending(_failed(stderr, what))
    if bye is not None:
        return Ending(f"the {what} ended: {bye}")
    stated = shown_lines(stderr, 1)
    received = f' ("{_quote(stated)}")' if stated else ""
    if alone:
        return Ending(
            f"the {what} was killed on the node while the connection stood{received}; "
            "look for the out-of-memory killer, a limit of the account, or a person"
        )
    return Ending(f"the connection was closed from the other side{received}; {AFTER_CLOSING}")


def not_started_in(seconds: float, noise: str) -> Ending:
    """Return the ending of a start whose marker did not arrive in time. `noise`: the output instead."""
    words = shown_lines(noise, 2)
    received = f'it sent "{_quote(words)}" and then nothing' if words else "nothing arrived"
    return Ending(
        f"the agent did not start within {seconds:.0f} s: {received}; "
        "check whether logging in there is slow or waits for input"
    )


def silent_for(seconds: float) -> Ending:
    """Return the ending of a live link that received nothing for `seconds`."""
    return Ending(
        f"nothing received for {seconds:.0f} s, so the link was closed; "
        "the node or the network hangs: see whether ssh to it answers"
    )


def _is_traceback(stderr: str) -> bool:
    return "Traceback (most recent call last)" in stderr


def _failed(stderr: str, what: str) -> str:
    error = _quote(shown_lines(stderr, 1))
    places = re.findall(r'File "([^"]+)", line (\d+)', stderr)
    place = " at {}:{}".format(*places[-1]) if places else ""
    return f"the {what} failed{place}: {error}; this is an error in gpuwatch, please report it"


def _quote(lines: list[str]) -> str:
    text = " / ".join(lines)
    return text if len(text) <= QUOTED_CHARACTERS else text[: QUOTED_CHARACTERS - 3] + "..."
