"""The exit status of every command; scripts may rely on it."""

from __future__ import annotations

HEALTHY = 0
"""No problem was found, or the command did what was requested."""
UNHEALTHY = 1
"""Something that was checked is unhealthy: a node, a GPU, a check."""
USAGE = 2
"""The command line or the hosts file is invalid; nothing was connected."""
INTERNAL = 70
"""An internal fault of gpuwatch (EX_SOFTWARE of sysexits)."""
OUTPUT = 74
"""The output could not be written (EX_IOERR of sysexits)."""
SIGNALLED = 128
"""Exit status of a command that a signal (TERM, or HUP) ended, to which the signal's number is added."""
INTERRUPTED = 130
"""The command was ended by Ctrl-C (128 + SIGINT); everything is closed."""
