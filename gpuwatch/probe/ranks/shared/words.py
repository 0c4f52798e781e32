"""Describes failures: an exception's first line, how a process ended, NCCL's log lines about transports."""

from __future__ import annotations

import re
import signal
from typing import Iterable, List, Optional

MAX_ERROR_CHARS = 300
TORCH_ERRORS = (RuntimeError, OSError)
"""The exceptions of torch.distributed in all versions.

Time limits of the store are TimeoutError in torch 2.1.
"""
_UNSEEN = re.compile(r"[^\x20-\x7e\u00a1-\ufffd]+")
_WHERE = re.compile(r"^(?:what\(\):\s*)?\[(?:/|\.\.|enforce fail at )[^\]]*\]\s*")
"""Matches the file and line of gloo's own source, with which gloo begins its messages."""
_ADVICE = re.compile(r"\. (?:This is typically caused by|Is there a distributed collective mismatch).*")
_TRANSPORT = re.compile(r"NCCL INFO .* via ([A-Z][A-Za-z0-9]+)(?:/([\w ]+))?(/\S*)?")
_NOISE = (
    "hostname of the client socket cannot be retrieved",
    "NCCL INFO",
    "terminate called after throwing an instance of",
)
_SIZES_DIFFER = "preamble.length <= "


def plain(text: str) -> str:
    """Return the text in one line, without control characters, cut to `MAX_ERROR_CHARS`."""
    return _UNSEEN.sub(" ", text).strip()[:MAX_ERROR_CHARS]


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message that is not empty, shortened; its type if none is."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return _message(lines[0]) if lines else type(error).__name__


def ending(status: int) -> str:
    """Return the status of `os.waitpid` in words."""
    if os_signal(status) is None:
        return f"exit code {status >> 8}"
    number = os_signal(status) or 0
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"killed by {name}" + (", as the kernel does where memory runs out" if name == "SIGKILL" else "")


def os_signal(status: int) -> Optional[int]:
    """Return the signal that ended a process, from the status of `os.waitpid`; None if none did."""
    return status & 0x7F or None


def last_words(lines: Iterable[str]) -> str:
    """Return the last four lines of a rank's stderr without noise, after their meaning if it is known."""
    reported = [_message(line) for line in lines if line.strip() and not is_noise(line)]
    text = " | ".join(reported[-4:])
    if _SIZES_DIFFER in text:
        text = f"it was sent more bytes than it expected: the ranks do not agree on the size | {text}"
    return text[: 2 * MAX_ERROR_CHARS]


def _message(line: str) -> str:
    return _ADVICE.sub("", _WHERE.sub("", plain(line)))


def is_noise(line: str) -> bool:
    """Return True if a line of stderr does not contain the reason why the process ended."""
    return any(noise in line for noise in _NOISE)


def transport(line: str) -> Optional[str]:
    """Return the transport in a line of NCCL_DEBUG=INFO ("NET/IB", "NET/IB/GDRDMA", "P2P/CUMEM"), or None."""
    found = _TRANSPORT.search(line)
    if found is None:
        return None
    parts = [part for part in found.group(1, 2) if part and not part.isdecimal()]
    return "/".join(parts) + ("/GDRDMA" if "GDRDMA" in (found.group(3) or "") else "")


def seconds(count: float) -> str:
    """Return `30 s` or `0.5 s`."""
    return f"{count:.3g} s"


def ranks(numbers: List[int]) -> str:
    """Return `rank 3` or `ranks 3, 5 and 9`; of more than eight, the first eight and the number of others."""
    shown = [str(number) for number in numbers[:8]]
    if len(numbers) > 8:
        return f"ranks {', '.join(shown)} and {len(numbers) - 8} more"
    if len(shown) < 2:
        return f"rank {''.join(shown)}"
    return f"ranks {', '.join(shown[:-1])} and {shown[-1]}"
