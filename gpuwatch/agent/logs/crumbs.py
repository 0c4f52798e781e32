"""Where the log reader is: written by it before anything that may never end, read by the agent when it hangs.

A pipe of which the reader holds both ends. Nobody reads it while all is well, so that a crumb costs one
system call and wakes nobody; when it is full the reader empties it.
"""

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - used in type comments

_ALL = 1 << 20
_SHORTENED = 3000
"""A pipe takes up to 4096 bytes whole or not at all."""


class Crumbs(object):
    """The writing side."""

    def __init__(self, read_end, write_end):
        # type: (int, int) -> None
        self._read_end = read_end
        self._write_end = write_end
        for end in (read_end, write_end):
            os.set_blocking(end, False)

    def drop(self, what, name):
        # type: (str, str) -> None
        """About to do something (`what`: file, rule, folder) with the thing of this name."""
        crumb = (json.dumps([what, name[:_SHORTENED]])[:_SHORTENED] + "\n").encode("ascii")
        try:
            os.write(self._write_end, crumb)
        except BlockingIOError:
            os.read(self._read_end, _ALL)
            os.write(self._write_end, crumb)


def last_crumb(read_end):
    # type: (int) -> tuple[str, str]
    """What the reader was last about to do, once it does nothing any more; two empty texts if unknown."""
    os.set_blocking(read_end, False)
    data = b""
    try:
        while True:
            piece = os.read(read_end, _ALL)
            if not piece:
                break
            data = data[-2 * _SHORTENED :] + piece
    except OSError:
        pass
    try:
        what, name = json.loads(data.rstrip(b"\n").rpartition(b"\n")[2].decode("ascii"))
    except (ValueError, TypeError):
        return "", ""
    return str(what), str(name)
