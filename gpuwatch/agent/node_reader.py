"""Reads the node in one thread: host, processes and kernel log. A dead mount may block any of them."""

import time

from .base import notices
from .base.ticker import Reader
from .host import host_reader, machine
from .host.addresses import own_addresses
from .kernel import kernel_log
from .processes import process_reader
from .processes.ended_ranks import EndedRanks
from .processes.gpu_holders import Holders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
    from typing import Any

    from .base.settings import Settings
    from .base.ticker import Ticker


ADDRESSES_EVERY_S = 30.0


class NodeReader(Reader):
    """Reads host, processes and kernel log in one thread, and appends (kind, value) pairs to `found`.

    host; ranks: (processes, truncated, partial, the launchers' log files); kernel: the events of the kernel
    log; records: all of it, as (unix seconds, text).
    """

    def __init__(self, ticker: "Ticker", events: "deque[dict[str, Any]]", settings: "Settings") -> None:
        Reader.__init__(self, "host", ticker, events)
        self.facts = machine.describe(settings.proc)
        self.addresses = own_addresses(settings.proc)
        self.holders = Holders(settings.proc)
        self.kernel_source: str | None = None
        self.kernel_notice: dict[str, Any] | None = None
        self.processes_notice = notices.processes_hidden(settings.proc)
        self.memory: tuple[int | None, int | None] | None = None
        """(used, total) bytes of the last reading, for GPUs that share the host's memory."""
        self._settings = settings
        self._host = host_reader.HostReader(proc=settings.proc, sys=settings.sys)
        scan_s = min(process_reader.SCAN_EVERY_S, 0.9 * settings.medium_s)
        self._processes = process_reader.ProcessReader(proc=settings.proc, scan_every_s=scan_s)
        self._ended = EndedRanks(events.append, settings.proc)
        self._log: kernel_log.KernelLog | None = None
        self._processes_due = 0.0
        self._addresses_due = 0.0

    def read(self, tick: int) -> None:
        """Read the host values and new kernel records, and the processes and addresses if they are due."""
        sample = self._host.read()
        self.memory = (sample.get("memory_used_bytes"), sample.get("memory_total_bytes"))  # type: ignore[assignment]  # the frame's table has mixed values; these two are numbers
        self.found.append(("host", sample))
        if self._log is None:
            self._log = kernel_log.KernelLog(kmsg=self._settings.kmsg)
        records = self._log.poll()
        self.kernel_source, self.kernel_notice = self._log.source, self._log.notice
        if records:
            self.found.append(("kernel", records))
        self.found.append(("records", self._log.records))
        now = time.monotonic()
        if now >= self._addresses_due:
            self._addresses_due = now + ADDRESSES_EVERY_S
            self.addresses = own_addresses(self._settings.proc)
            self.processes_notice = notices.processes_hidden(self._settings.proc)
        if tick > 1 and now >= self._processes_due:
            partial, known = self.holders.partial, self._processes  # before the holders are read
            rows, truncated = known.read(self.holders.by_pid())
            self._ended.watch(rows, known.starters)
            self._processes_due = now + (0.0 if partial else self._settings.medium_s)
            self.found.append(("ranks", (rows, truncated, known.partial or partial, known.launchers)))
