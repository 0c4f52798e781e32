"""What the exit status of every command means; scripts may rely on it."""

from __future__ import annotations

HEALTHY = 0
"""All is well, or the command did what it was asked."""
UNHEALTHY = 1
"""Something that was looked at is not well: a node, a GPU, a check."""
USAGE = 2
"""The command line or the hosts file is wrong; nothing was connected."""
INTERNAL = 70
"""A fault of gpuwatch itself (EX_SOFTWARE of sysexits)."""
OUTPUT = 74
"""The output could not be written (EX_IOERR of sysexits)."""
SIGNALLED = 128
"""Plus the number of the signal that ended it: TERM, or HUP of a terminal that is gone."""
INTERRUPTED = 130
"""Ended by Ctrl-C (128 + SIGINT), everything closed."""
