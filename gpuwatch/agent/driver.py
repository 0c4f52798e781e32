"""The NVIDIA driver of the node: one init in a thread of its own, then its events (Xid and others)."""

import collections
import ctypes
import threading
import time

from . import notices, returns, xid
from .gpu import Gpu
from .nvml import CallSlot, Nvml, text
from .pulse import KEPT_EVENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque  # noqa: F401 - used in type comments
    from typing import Any  # noqa: F401 - used in type comments

    from .pulse import Pulse  # noqa: F401 - used in type comments

RETRY_S = 30.0
"""After an init that *came back* with an error: somebody may load the driver meanwhile."""
_WAIT_MS = 5000
_PAUSE_S = 5.0

XID, DOUBLE_BIT_ECC, SINGLE_BIT_STORM = 0x8, 0x2, 0x200
_WANTED = XID | DOUBLE_BIT_ECC | SINGLE_BIT_STORM


class Driver(object):
    """The GPUs and what is known of the driver. `notice` says why there are none."""

    def __init__(self, pulse, events, on_bus):
        # type: (Pulse, deque[dict[str, Any]], int | None) -> None
        self.nvml = Nvml()
        self.slot = CallSlot()
        self.gpus = []  # type: list[Gpu]
        self.opened = False
        """Whether init came back, with whatever result."""
        self.notice = None  # type: dict[str, Any] | None
        self.version = None  # type: str | None
        self.cuda = None  # type: str | None
        self.nvml_version = None  # type: str | None
        self.on_bus = on_bus
        self.xids = collections.deque(maxlen=KEPT_EVENTS)  # type: collections.deque[dict[str, Any]]
        self._pulse = pulse
        self._events = events
        self.event_set = None  # type: Any
        self._addresses = {}  # type: dict[int, str]

    def start(self):
        # type: () -> None
        """Start the thread; it may be stuck in the driver for ever."""
        thread = threading.Thread(target=self._run, name="NVML")
        thread.daemon = True
        thread.start()

    def settled(self):
        # type: () -> bool
        """Whether init came back and every GPU has said who it is, or that it is lost."""
        return self.opened and all(gpu.info is not None or gpu.lost is not None for gpu in self.gpus)

    def peers_of(self, gpu):
        # type: (Gpu) -> dict[str, tuple[Any, str]]
        """UUID -> (handle, bus id) of the other GPUs that have answered."""
        return {
            other.info["uuid"]: (other.handle, other.info.get("bus_id", ""))
            for other in self.gpus
            if other is not gpu and other.info is not None and other.lost is None
        }

    def watch(self, gpu):
        # type: (Gpu) -> None
        """Register a GPU for events; called in the GPU's own thread, because it may block."""
        if gpu.info is None or self.event_set is None:
            return
        self._addresses[_address(gpu.handle)] = gpu.info["uuid"]
        offered = gpu.asker.ask("events", "nvmlDeviceGetSupportedEventTypes", gpu.handle)
        if offered and offered & _WANTED:
            gpu.asker.ask("events", "nvmlDeviceRegisterEvents", gpu.handle, offered & _WANTED, self.event_set)

    def recovered(self):
        # type: () -> None
        """A GPU answers again: whatever was wrong with the driver is over."""
        self.notice = None

    def failed(self, code):
        # type: (int) -> None
        """A call on a GPU said that the driver of the whole node is in trouble."""
        self.notice = notices.of_init(code, self.on_bus)

    def _run(self):
        # type: () -> None
        while True:
            code = self.nvml.open(self.slot)
            if code == returns.OK:
                break
            self.notice = notices.of_init(code, self.on_bus)
            self.opened = True
            time.sleep(RETRY_S)
        self._identify()
        self._new_event_set()
        _, count = self.nvml.call(self.slot, "nvmlDeviceGetCount")
        gpus = [Gpu(index, self, self._pulse, self._events) for index in range(count or 0)]
        self.gpus = gpus
        self.notice = None if gpus else notices.no_gpu()
        self.opened = True
        for gpu in gpus:
            gpu.start()
        if gpus and self.event_set is not None:
            self._follow_events()

    def _identify(self):
        # type: () -> None
        self.version = text(self.nvml.call(self.slot, "nvmlSystemGetDriverVersion")[1])
        self.nvml_version = text(self.nvml.call(self.slot, "nvmlSystemGetNVMLVersion")[1])
        cuda = self.nvml.call(self.slot, "nvmlSystemGetCudaDriverVersion")[1]
        self.cuda = "{}.{}".format(cuda // 1000, cuda % 1000 // 10) if cuda else None

    def _new_event_set(self):
        # type: () -> None
        self.event_set = self.nvml.call(self.slot, "nvmlEventSetCreate")[1]

    def _follow_events(self):
        # type: () -> None
        """Wait for events for ever; where the driver has none to give, the kernel log is left."""
        while True:
            code, data = self.nvml.call(self.slot, "nvmlEventSetWait_v2", self.event_set, _WAIT_MS)
            if code == returns.OK:
                self._take(data)
            elif code in returns.NEVER:
                return
            elif code == returns.UNKNOWN:
                time.sleep(_PAUSE_S)
                self._new_event_set()
            elif code != returns.TIMEOUT:
                time.sleep(_PAUSE_S)

    def _take(self, data):
        # type: (Any) -> None
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


def xid_event(code, uuid):
    # type: (int, str | None) -> dict[str, Any]
    """An Xid with its meaning, as NVML told it."""
    title, severity, remedy = xid.meaning(code)
    event = {"event": "xid", "code": code, "title": title, "severity": severity, "remedy": remedy,
             "source": "nvml", "t": time.time()}  # fmt: skip
    if uuid is not None:
        event["gpu"] = uuid
    return event


def _address(handle):
    # type: (Any) -> int
    """NVML's handles are pointers that stay the same while the library is loaded."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
