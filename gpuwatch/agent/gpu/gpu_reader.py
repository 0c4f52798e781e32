"""Reads one GPU in a thread of its own, so that a blocked call affects no other GPU."""

import time

from ..base import nvml_codes
from ..base.ticker import Reader
from . import gpu_processes, inventory, mig, sampling_tiers, topology
from .nvml import NvmlCaller

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
    from typing import Any, Callable, Protocol

    from ..base.settings import Settings
    from ..base.ticker import Ticker
    from .nvml import Nvml

    class GpuDriver(Protocol):
        """The interface of the driver for its GPU readers."""

        nvml: "Nvml"
        settings: "Settings"
        version: "str | None"
        event_set: "Any"
        round: int

        def register(self, gpu: "GpuReader") -> bool:
            """Return True if the GPU is in the list, or was added; False if another reader has it."""

        def static_info(self) -> "dict[int, dict[str, Any]]":
            """Return index -> facts about GPUs from the driver's files."""

        def peers_of(self, gpu: "GpuReader") -> "dict[str, tuple[Any, str]]":
            """Return UUID -> (NVML handle, bus id) of all responding GPUs but `gpu`."""

        def watch(self, gpu: "GpuReader") -> None:
            """Register the GPU for the driver's events."""

        def recovered(self) -> None:
            """Clear the driver's notice, since a GPU responds again."""

        def failed(self, code: int) -> None:
            """Set the driver's notice, since a call on a GPU failed with a code about the whole driver."""


EVERYTHING_FROM_S = 2.0
"""Tick length in seconds from which all values fit into the budget of 8 calls per second."""
_PHASE_SHARE = 0.618
"""Tiers of neighbouring GPUs are offset by this share of a period, so that they are spread over the ticks."""


class GpuReader(Reader):
    """Reads one GPU; appends ("fast" | "medium" | "slow" | "processes", value) pairs to `found`."""

    def __init__(
        self, index: int, driver: "GpuDriver", ticker: "Ticker", events: "deque[dict[str, Any]]"
    ) -> None:
        Reader.__init__(self, "GPU {}".format(index), ticker, events)
        self.index = index
        self.asker = NvmlCaller(driver.nvml)
        self.handle: Any = None
        self.info: dict[str, Any] | None = None
        """Result of `inventory.describe`; None until the GPU is identified."""
        self.answered = False
        """True once a first set of values was taken from `found`."""
        self.topology: dict[str, str] | None = None
        self.lost: nvml_codes.GpuLost | None = None
        """Why the GPU is lost, while it is."""
        self.lost_at = 0.0
        self._driver = driver
        self._settings = driver.settings
        self._round = driver.round
        self._probe_at = 0.0
        self._watched_by: Any = None
        self._health: dict[str, Any] = {}

    def read(self, tick: int) -> None:
        """Identify the GPU, read what is due, or check whether it is back."""
        try:
            if self.info is None:
                self._attach()
            elif self.lost is not None:
                if tick and time.monotonic() >= self._probe_at:
                    self._reattach(self.info)
            elif self._round != self._driver.round:
                self._reattach(self.info)
            elif tick:
                self._read_tiers()
        except nvml_codes.GpuLost as lost:
            self._mark_lost(lost)

    def _attach(self) -> None:
        if self.lost is not None and time.monotonic() < self._probe_at:
            return
        self.handle = self.asker.ask("gpu", "nvmlDeviceGetHandleByIndex", self.index)
        if self.handle is None:
            raise nvml_codes.GpuLost(nvml_codes.UNKNOWN, "nvmlDeviceGetHandleByIndex")
        info = inventory.describe(self.asker, self.handle, self.index)
        if "uuid" not in info:
            raise nvml_codes.GpuLost(nvml_codes.UNKNOWN, "nvmlDeviceGetUUID")
        self._prepare(info)
        self.info = info
        self.ended = not self._driver.register(self)
        self._mark_recovered()

    def _reattach(self, before: "dict[str, Any]") -> None:
        """Identify the GPU again, after a reset or a change of the GPU list or MIG mode.

        Handle, index and abilities may differ.

        Raises:
            GpuLost: it is not there.
        """
        self._round = self._driver.round
        handle = self.asker.ask("gpu", "nvmlDeviceGetHandleByUUID", before["uuid"].encode())
        if handle is None:
            raise nvml_codes.GpuLost(nvml_codes.GPU_NOT_FOUND, "nvmlDeviceGetHandleByUUID")
        self.asker.start_over()
        index = self.asker.ask("gpu", "nvmlDeviceGetIndex", handle)
        info = inventory.describe(self.asker, handle, self.index if index is None else index)
        info["uuid"] = before["uuid"]
        self.handle, self.index = handle, info["index"]
        self._prepare(info)
        self.info = info
        self._mark_recovered()

    def _prepare(self, info: "dict[str, Any]") -> None:
        self._fast = sampling_tiers.FastTier(self.asker, self.handle, info)
        self._slow = sampling_tiers.SlowTier(self.asker, self.handle, info)
        self._processes = gpu_processes.GpuProcesses(self.asker, self.handle, self._driver.version or "")
        self._due = {"medium": 0.0, "slow": 0.0, "processes": 0.0}
        self._watched_by = None

    def _read_tiers(self) -> None:
        everything = self._ticker.interval_s >= EVERYTHING_FROM_S
        if self._take("fast", lambda: self._fast.read(everything)) is None:
            self._fast.forget()
        if self._watched_by is not self._driver.event_set:
            self._watched_by = self._driver.event_set
            self._driver.watch(self)
        now = time.monotonic()
        if self._is_due("medium", self._settings.medium_s, now):
            self._take("medium", lambda: sampling_tiers.medium(self.asker, self.handle))
        if self._is_due("processes", self._settings.medium_s, now):
            self._take("processes", self._processes.read)
        if self._is_due("slow", self._settings.slow_s, now):
            slow = self._take("slow", self._slow.read)
            if slow is not None:
                self._compare(slow)
            self._place()
            self._notice_mig()

    def _take(self, tier: str, read: "Callable[[], dict[Any, Any]]") -> "dict[Any, Any] | None":
        """Read a tier, append its value to `found`, and return it.

        None if the driver hung meanwhile: part of the value would be outdated.
        """
        began = time.monotonic()
        value = read()
        if time.monotonic() - began >= self._settings.stuck_s:
            self._due[tier] = 0.0
            return None
        self.found.append((tier, value))
        return value

    def _is_due(self, tier: str, period: float, now: float) -> bool:
        """Return True if a tier is due: the first time, then once per period, at an offset of this GPU.

        If it is, it sets when the tier is due next.
        """
        due = self._due[tier]
        if now < due - 0.01:
            return False
        first = not due
        self._due[tier] = (now if first else due) + (
            period * (self.index * _PHASE_SHARE % 1 or 1) if first else period
        )
        if self._due[tier] < now:
            self._due[tier] = now + period
        return True

    def _notice_mig(self) -> None:
        """Identify the GPU again if its MIG mode changed: limits, abilities and instances differ."""
        info, now = self.info, mig.enabled(self.asker, self.handle)
        if info is not None and now is not None and now != info.get("mig_enabled"):
            self._reattach(info)

    def _compare(self, slow: "dict[str, Any]") -> None:
        """Append events for more uncorrectable memory errors and for a new pending recovery action."""
        errors, before = slow.get("ecc_uncorrected"), self._health.get("ecc_uncorrected")
        if errors is not None and before is not None and errors > before:
            title = "GPU {}: {} more uncorrectable memory errors".format(self.index, errors - before)
            self._event("ecc", "critical", title)
        action = slow.get("recovery_action", "none")
        if action not in ("none", self._health.get("recovery_action")):
            title = "GPU {} asks for {}".format(self.index, sampling_tiers.RECOVERY_WORDS.get(action, action))
            self._event("recovery_action", "critical", title)
        self._health = slow

    def _place(self) -> None:
        """Read the GPU's topology paths to the other GPUs: once, and again when a further GPU responds."""
        peers = self._driver.peers_of(self)
        if self.topology is None or set(peers) - set(self.topology):
            links = (self.info or {}).get("nvlink_count") or 0
            self.topology = topology.row(self.asker, self.handle, links, peers)

    def _mark_recovered(self) -> None:
        if self.lost is None:
            return
        self.lost = None
        self._driver.recovered()
        gone = time.time() - self.lost_at
        self._event("gpu_back", "info", "GPU {} answers again after {:.0f} s".format(self.index, gone))

    def _mark_lost(self, lost: "nvml_codes.GpuLost") -> None:
        self.ended = not self._driver.register(self)
        if self.ended:
            return
        self._probe_at = time.monotonic() + self._settings.probe_s
        if self.lost is None:
            self.lost_at = time.time()
            self._event(
                "gpu_lost", "critical", "GPU {}: {}".format(self.index, nvml_codes.words(lost.code)), lost
            )
        self.lost = lost
        if lost.code in nvml_codes.NODE:
            self._driver.failed(lost.code)

    def _event(self, event: str, severity: str, title: str, lost: "nvml_codes.GpuLost | None" = None) -> None:
        facts = {"event": event, "severity": severity, "title": title, "t": time.time(), "source": "nvml"}
        known = self.info or self._driver.static_info().get(self.index)
        if known is not None:
            facts["gpu"] = known["uuid"]
        if lost is not None:
            facts["detail"] = "{} returned {}".format(lost.call, lost.code)
            facts["remedy"] = (
                "Look for Xids and PCIe errors in the kernel log; reset the GPU or reboot the node."
            )
        self.events.append(facts)
