"""One delivery attempt: sends a request or runs a command, with limits on time and size."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from email.message import Message

from gpuwatch.bounded_command import run_bounded
from gpuwatch.link.stream.bounded_http import HttpError, post
from gpuwatch.plain import plain, plain_lines
from gpuwatch.report.delivery.messages import Post

SOCKET_S, ATTEMPT_S = 10.0, 30.0
"""Timeouts in seconds: without data from the receiver, and for a whole attempt."""
MAX_ANSWER_BYTES = 4096
MAX_RETRY_AFTER_S = 600.0
MAX_REASON_CHARS = 120


class NotDeliveredError(Exception):
    """Raised if a delivery failed; the text is sanitized and contains no part of the URL."""

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(plain(reason)[:MAX_REASON_CHARS])
        self.retry_after_s = retry_after_s
        """Retry-After of the receiver, in seconds."""


def send(message: Post, *, only_json: bool = False) -> None:
    """Send the request once. `only_json`: the answer must be empty or JSON, as Alertmanager's is.

    Raises:
        NotDeliveredError: no answer in time, or one that is not 2xx, or not JSON though it must be.
    """
    try:
        text = post(message.url, message.body, message.headers, SOCKET_S, ATTEMPT_S, MAX_ANSWER_BYTES)
    except HttpError as error:
        raise NotDeliveredError(str(error), _retry_after(error.headers)) from None
    if only_json and text.strip():
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            raise NotDeliveredError("the answer is not from an Alertmanager") from None


def _retry_after(headers: Message | None) -> float | None:
    text = "" if headers is None else headers.get("Retry-After", "")
    return min(float(text), MAX_RETRY_AFTER_S) if text and text.isdecimal() else None


def run_command(argv: Sequence[str], data: bytes) -> None:
    """Run a command with the JSON on its stdin.

    Raises:
        NotDeliveredError: it cannot be started, fails, or takes too long; then its process group is killed.
    """
    try:
        done = run_bounded(argv, ATTEMPT_S, 0, data=data, new_session=True)
    except OSError as error:
        raise NotDeliveredError(f"cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise NotDeliveredError(f"took more than {ATTEMPT_S:.0f} s") from None
    if done.status:
        errors = plain_lines(done.stderr.decode("utf-8", "replace"), 1)
        raise NotDeliveredError(f"exit status {done.status}" + (f": {errors[0]}" if errors else ""))
