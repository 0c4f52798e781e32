"""Scans files step by step; announces each step to the agent, and continues after faults."""

from .files.packing_magic import packed_inside
from .watchdog.stretches import CAREFUL, SKIPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .checkpoints.lookup import CheckpointFiles
    from .files.backlog import Backlog
    from .files.entry import FileEntry
    from .ipc.activity_marker import ActivityMarker
    from .ipc.outbox import Outbox
    from .reporter import Numbers, Reporter
    from .scanning.scanner import Scanner
    from .watchdog.stretches import Stretches


class GuardedScan(object):
    """Scans pieces of files with their scanners, and reports findings and progress."""

    def __init__(
        self,
        stretches: "Stretches",
        marker: "ActivityMarker",
        checkpoints: "CheckpointFiles",
        numbers: "Numbers",
        reporter: "Reporter",
        outbox: "Outbox",
    ) -> None:
        self._stretches = stretches
        self._marker = marker
        self._checkpoints = checkpoints
        self._numbers = numbers
        self._reporter = reporter
        self.outbox = outbox

    def feed(
        self,
        entry: "FileEntry",
        scanner: "Scanner",
        inode: int,
        piece: "tuple[bytes, int, float, bool]",
        scanned: "Callable[[int], None]",
    ) -> None:
        """Scan a piece (bytes, offset, arrival, backlog), without ranges on which earlier readers hung.

        `scanned` is called with the number of bytes done, before their findings are sent.
        """
        data, offset, arrived, backlog = piece
        packed = packed_inside(data)
        if packed is not None:
            entry.skipped = True
            self._reporter.trouble("{} holds {} data".format(entry.name, packed), "they are not searched")
        first = self._numbers.next
        entry.step.begin()
        for begin, portion, how in self._stretches.cut(entry.path, inode, data, offset):
            scanned(len(portion))
            if how == SKIPPED:
                scanner.seam()
                entry.skipped = True
                continue
            self._marker.scan(entry.path, inode, scanner.unread_from(begin), begin + len(portion))
            self.safely(entry, scanner.feed, portion, begin, arrived, backlog)
            if how == CAREFUL:
                self.safely(entry, scanner.progress, send=self._reporter.progress)
                self.outbox.flush()  # so that lines which are slow together do not look like one that hangs
        entry.step.end(len(data), self._numbers.next - first)
        self._marker.idle()

    def safely(
        self, entry: "FileEntry", scan: "Callable[..., list[dict[str, Any]]]", *arguments: "Any", **how: "Any"
    ) -> None:
        """Call the function `scan` and report its results, as findings or by `send`.

        An exception other than OSError is reported, and the file counts as not fully searched.
        """
        try:
            found = scan(*arguments)
        except OSError:
            raise
        except Exception as error:
            self._reporter.trouble("scanning {} failed".format(entry.name), repr(error))
            entry.skipped = True
            return
        finally:
            self._tell_failed(entry)
        how.get("send", self._report_findings)(found)
        if found:
            self._reporter.place(entry)

    def _tell_failed(self, entry: "FileEntry") -> None:
        """Report the lines of a file that are not fully searched, and mark the file as not fully searched."""
        for scanner in entry.scanners():
            for begin, end, why in scanner.take_failed():
                detail = "bytes {} to {}: {}".format(begin, end, why)
                self._reporter.trouble("a line of {} is not searched".format(entry.name), detail)
                entry.skipped = True
            for begin, end in scanner.take_partly_searched():
                title = "a record of {} has too many lines to search all".format(entry.name)
                self._reporter.trouble(title, "bytes {} to {}".format(begin, end))
                entry.skipped = True

    def _report_findings(self, found: "list[dict[str, Any]]") -> None:
        """Send findings, with facts about checkpoint files added; growing files are completed later."""
        self._reporter.send([self._checkpoints.with_files(finding) for finding in found])

    def enter(self, entry: "FileEntry", scanner: "Scanner", backlog: "Backlog | None" = None) -> None:
        """Announce on the activity marker the scan of a file's unread range, or of `backlog`'s part."""
        if backlog is not None:
            self._marker.scan(entry.path, backlog.inode, *backlog.whole)
        elif entry.follower is not None and scanner.pending is not None:
            self._marker.scan(entry.path, entry.follower.inode, *scanner.pending)

    def progress(self, entry: "FileEntry", scanner: "Scanner") -> None:
        """Send the training progress in the newest lines of a file."""
        self.enter(entry, scanner)
        self.safely(entry, scanner.progress, send=self._reporter.progress)
