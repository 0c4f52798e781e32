"""Where the log reader is: written by it before anything that may never end, read by the agent when it hangs.

A pipe of which the reader holds both ends. Nobody reads it while all is well, so that a crumb costs one
system call and wakes nobody; when it is full the reader empties it.
"""

import os

_ALL = 1 << 20
_SHORTENED = 1000
_WHOLE = 4096
"""A pipe takes so many bytes whole or not at all."""


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
        text = "{} {}".format(what, name[:_SHORTENED]).replace("\n", "\0")  # no path holds a NUL
        crumb = (text + "\n").encode("utf-8", "surrogateescape")[-_WHOLE:]
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
            data = data[-2 * _WHOLE :] + piece
    except OSError:
        pass
    crumb = data[:-1].rpartition(b"\n")[2].decode("utf-8", "surrogateescape").replace("\0", "\n")
    what, _, name = crumb.partition(" ")
    return what, name
