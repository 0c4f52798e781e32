"""Maps exit statuses to rules of failure classes."""

from __future__ import annotations

BY_SIGNAL = {
    6: "proc.abort",
    7: "proc.bus_error",
    4: "proc.illegal_instr",
    9: "proc.sigkill",
    11: "proc.segfault",
    15: "proc.sigterm",
}


def of_exit_code(code: str) -> str | None:
    """Return the class of an exit status `137` (128 + signal) or `-9`; None if it is not a known signal."""
    number = int(code) if code.lstrip("-").isdecimal() and len(code) < 6 else 0
    return BY_SIGNAL.get(number - 128 if number > 128 else -number)
