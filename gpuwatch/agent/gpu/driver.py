"""The node's NVIDIA driver: initialises NVML in a thread of its own, then polls its events (Xids and others).

Every `retry_s` the thread also checks whether the driver lists more or fewer GPUs.
"""

import collections
import ctypes
import platform
import threading
import time

from ..base import notices, nvml_codes
from ..base.background import Background
from ..base.ticker import KEPT_EVENTS
from ..host.machine import nvidia_devices_on_bus
from ..kernel.xid_table import meaning
from . import inventory, proc_driver
from .gpu_reader import GpuReader
from .nvml import CallSlot, Nvml, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
    from typing import Any, Callable

    from ..base.settings import Settings
    from ..base.ticker import Ticker

_POLL_S = 1.0
_PAUSE_S = 5.0
_LIBRARY = "libnvidia-ml.so"

XID, DOUBLE_BIT_ECC, SINGLE_BIT_STORM = 0x8, 0x2, 0x200
_WANTED = XID | DOUBLE_BIT_ECC | SINGLE_BIT_STORM


class Driver(object):
    """The node's NVIDIA driver and its GPUs. `notice` explains why there are none."""

    def __init__(
        self,
        ticker: "Ticker",
        events: "deque[dict[str, Any]]",
        settings: "Settings",
        leave: "Callable[[str], None]",
    ) -> None:
        self.nvml = Nvml()
        self.slot = CallSlot()
        self.settings = settings
        self.gpus: list[GpuReader] = []
        """Replaced as a whole when a GPU is added."""
        self.listed = 0
        """Number of GPUs that NVML lists now."""
        self.round = 0
        """Incremented when `listed` changes; each GPU then re-identifies itself."""
        self.opened = False
        """True once init has failed, or has succeeded and the GPUs are listed."""
        self.notice: dict[str, Any] | None = None
        self.version: str | None = None
        self.cuda: str | None = None
        self.nvml_version: str | None = None
        self.on_bus = nvidia_devices_on_bus(settings.sys)
        self.xids: collections.deque[dict[str, Any]] = collections.deque(maxlen=KEPT_EVENTS)
        self.event_set: Any = None
        self._ticker = ticker
        self._events = events
        self._leave = leave
        self._files = Background(lambda: proc_driver.read(settings.proc), "driver files")
        self._addresses: dict[int, str] = {}
        self._joining = threading.Lock()
        self._host = platform.node()
        self._began = time.monotonic()

    def start(self) -> None:
        """Start the thread, which may block in the driver forever."""
        thread = threading.Thread(target=self._run, name="NVML")
        thread.daemon = True
        thread.start()

    def settled(self) -> bool:
        """Return True if NVML's init has returned and every GPU is identified or lost."""
        return self.opened and all(gpu.info is not None or gpu.lost is not None for gpu in self.gpus)

    @property
    def late(self) -> bool:
        """Return True if NVML's init has not returned after `cold_s`, the longest start of a driver."""
        return not self.opened and time.monotonic() - self._began >= self.settings.cold_s

    def static_info(self) -> "dict[int, dict[str, Any]]":
        """Return index -> facts from the driver's files, for GPUs that have never answered NVML.

        Empty until the files are read.
        """
        found = self._files.answer()
        if not isinstance(found, list):
            return {}
        met = {gpu.index: gpu.info["uuid"] for gpu in self.gpus if gpu.info is not None}
        return proc_driver.unmet(found, met, self.listed)

    def describe(self, gpu: "GpuReader", static_info: "dict[int, dict[str, Any]]") -> "dict[str, Any]":
        """Return a dict with keys of `wire.GpuInfo`: from NVML, else the driver's files, else its index."""
        return gpu.info or static_info.get(gpu.index) or inventory.unidentified(self._host, gpu.index)

    def register(self, gpu: "GpuReader") -> bool:
        """Add a GPU to the list; return False if another reader has the same GPU."""
        with self._joining:
            if gpu in self.gpus:
                return True
            if any(_same(gpu, other) for other in self.gpus):
                return False
            self.gpus = sorted(self.gpus + [gpu], key=lambda one: one.index)
            return True

    def peers_of(self, gpu: "GpuReader") -> "dict[str, tuple[Any, str]]":
        """Return UUID -> (NVML handle, bus id) of all responding GPUs but `gpu`."""
        return {
            other.info["uuid"]: (other.handle, other.info.get("bus_id", ""))
            for other in self.gpus
            if other is not gpu and other.info is not None and other.lost is None
        }

    def watch(self, gpu: "GpuReader") -> None:
        """Register a GPU for events; called in the GPU's own thread, because it may block."""
        if gpu.info is None or self.event_set is None:
            return
        self._addresses[_address(gpu.handle)] = gpu.info["uuid"]
        offered = gpu.asker.ask("events", "nvmlDeviceGetSupportedEventTypes", gpu.handle)
        if offered and offered & _WANTED:
            gpu.asker.ask("events", "nvmlDeviceRegisterEvents", gpu.handle, offered & _WANTED, self.event_set)

    def recovered(self) -> None:
        """Clear the driver's notice, since a GPU responds again."""
        self.notice = None

    def failed(self, code: int) -> None:
        """Set the node's notice by the return code of a call on a GPU, which is about the whole driver."""
        self.notice = notices.of_init(code, self.on_bus)

    def _run(self) -> None:
        while not self._open():
            self.opened = True
            self._ticker.wake()
            time.sleep(self.settings.retry_s)
        self._identify()
        self._new_event_set()
        _, count = self.nvml.call(self.slot, "nvmlDeviceGetCount")
        self._files.start()
        self.listed = count or 0
        self.gpus = self._readers()
        self.notice = None if self.gpus else notices.no_gpu()
        self.opened = True
        self._ticker.wake()
        for gpu in self.gpus:
            gpu.start()
        while True:
            self._follow_events(time.monotonic() + self.settings.retry_s)
            self._recheck_gpus()

    def _open(self) -> bool:
        code = self.nvml.open(self.slot)
        if code != nvml_codes.OK:
            self._trouble(code)
        return code == nvml_codes.OK

    def _trouble(self, code: int) -> None:
        """Set the notice about a driver problem.

        On a version mismatch after the library on disk was replaced, end the agent: this process keeps the
        old library.
        """
        self.failed(code)
        if code == nvml_codes.MISMATCH and proc_driver.replaced(_LIBRARY):
            self._leave("the NVIDIA library on the node was replaced; a new start loads the new one")

    def _readers(self) -> "list[GpuReader]":
        return [GpuReader(index, self, self._ticker, self._events) for index in range(self.listed)]

    def _recheck_gpus(self) -> None:
        """Handle added or removed GPUs: known ones identify themselves again, new ones get a reader.

        Sets or clears the notice by the result.
        """
        code, count = self.nvml.call(self.slot, "nvmlDeviceGetCount")
        if code in nvml_codes.NODE:
            self._trouble(self.nvml.call(self.slot, "nvmlInitWithFlags", 0)[0] or code)
            return
        if code != nvml_codes.OK:
            return
        if count:
            self.notice = None
        if count == self.listed:
            return
        self.listed, self.on_bus = count, nvidia_devices_on_bus(self.settings.sys)
        self.round += 1
        self._files.start()
        for gpu in self._readers():
            gpu.start()

    def _identify(self) -> None:
        self.version = text(self.nvml.call(self.slot, "nvmlSystemGetDriverVersion")[1])
        self.nvml_version = text(self.nvml.call(self.slot, "nvmlSystemGetNVMLVersion")[1])
        cuda = self.nvml.call(self.slot, "nvmlSystemGetCudaDriverVersion")[1]
        self.cuda = "{}.{}".format(cuda // 1000, cuda % 1000 // 10) if cuda else None

    def _new_event_set(self) -> None:
        self.event_set = self.nvml.call(self.slot, "nvmlEventSetCreate")[1]

    def _follow_events(self, until: float) -> None:
        """Poll for events until `until` (monotonic); without driver events the kernel log remains.

        A wait of 0 ms, because NVML holds the lock of the event set while it waits: a GPU that registers
        meanwhile spins until the wait ends (measured on an H200, driver 580).
        """
        while True:
            left = until - time.monotonic()
            if left <= 0:
                return
            if self.event_set is None:
                time.sleep(left)
                continue
            code, data = self.nvml.call(self.slot, "nvmlEventSetWait_v2", self.event_set, 0)
            if code == nvml_codes.OK:
                self._take(data)
                continue
            if code in nvml_codes.NEVER:
                self.event_set = None
            time.sleep(min(left, _POLL_S if code == nvml_codes.TIMEOUT else _PAUSE_S))
            if code == nvml_codes.UNKNOWN:
                self._new_event_set()

    def _take(self, data: "Any") -> None:
        uuid = self._addresses.get(_address(data.device))
        if data.eventType == XID:
            self.xids.append(xid_event(int(data.eventData), uuid))
            return
        title = (
            "Uncorrectable memory error"
            if data.eventType == DOUBLE_BIT_ECC
            else "Storm of corrected memory errors"
        )
        event = {"event": "ecc", "severity": "critical" if data.eventType == DOUBLE_BIT_ECC else "warning",
                 "title": title, "t": time.time(), "source": "nvml"}  # fmt: skip
        if uuid is not None:
            event["gpu"] = uuid
        self._events.append(event)


def xid_event(code: int, uuid: "str | None") -> "dict[str, Any]":
    """Return the event of an Xid that NVML reported, with its meaning."""
    _, severity, title, remedy = meaning(code)
    event = {"event": "xid", "code": code, "title": title, "severity": severity, "remedy": remedy,
             "source": "nvml", "t": time.time()}  # fmt: skip
    if uuid is not None:
        event["gpu"] = uuid
    return event


def _address(handle: "Any") -> int:
    """Return the address of a handle; NVML's handles are pointers, stable while the library is loaded."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _same(gpu: "GpuReader", other: "GpuReader") -> bool:
    """Return True if two readers have the same GPU: by UUID, or by index while a UUID is unknown."""
    if gpu.info is None or other.info is None:
        return gpu.index == other.index
    return bool(gpu.info["uuid"] == other.info["uuid"])
