"""The rotated log file of a rank, which one process writes."""

from __future__ import annotations

import errno
import logging
import os
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO

from ..base.json_files import open_regular
from ..base.ranks import RankFacts

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # every use asks for None first

_LOG = logging.getLogger("gpuwatch.telemetry")
NO_FILE = frozenset((errno.ELOOP, errno.EINVAL, errno.ENXIO, errno.EISDIR))
"""Error numbers (errno) from opening something other than a regular file."""


class RankFileHandler(RotatingFileHandler):
    """A handler for a rotated file with a lock: a second process of the same rank uses another file."""

    def _open(self) -> IO[str]:  # type: ignore[override]  # the stream of a rank's file is always text
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        stream = os.fdopen(open_regular(self.baseFilename, append, 0o666), "a", encoding=self.encoding)
        if fcntl is not None:
            try:
                fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                stream.close()
                raise
            except OSError:  # the file system has no locks
                pass
        return stream


def open_rank_file(folder: Path, facts: RankFacts, max_bytes: int, backups: int) -> RankFileHandler:
    """Return the handler for the rank's file, `rank_N.log`.

    Another name if that is no regular file, or another process writes it; this is logged.

    Raises:
        OSError: the file cannot be written.
    """
    name = folder / f"rank_{facts.rank}.log"
    try:
        return RankFileHandler(str(name), maxBytes=max_bytes, backupCount=backups, encoding="utf-8")
    except OSError as error:  # another process claims this rank, or the file is a link or a FIFO
        is_taken = isinstance(error, BlockingIOError)
        if not is_taken and error.errno not in NO_FILE:
            raise
        own = folder / f"rank_{facts.rank}.pid{facts.pid}.log"
        handler = RankFileHandler(str(own), maxBytes=max_bytes, backupCount=backups, encoding="utf-8")
        if not is_taken:
            _LOG.warning("%s is not a regular file, this process writes %s", name, own.name)
            return handler
        remedy = "call setup_rank_logging after init_process_group, or start the ranks with RANK set"
        text = "another process writes %s, this one writes %s: %s"
        _LOG.warning(text, name, own.name, remedy)
        return handler
