"""Builds the frames of a tick from the readers' results."""

import time

from .base.precision import rounded
from .gpu_status import GpuWatch
from .hello import describe
from .kernel.xid_join import XidJoin, placed
from .self_cost import Cost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
    from typing import Any

    from .base.settings import Settings
    from .gpu.driver import Driver
    from .logs.supervisor import LogReader
    from .node_reader import NodeReader

_NOT_LISTED = "known to the kernel module, not listed by NVML"


class Composer(object):
    """Builds samples, process lists and the hello from the readers' results; adds events to `events`."""

    def __init__(
        self,
        driver: "Driver",
        node: "NodeReader",
        logs: "LogReader",
        events: "deque[dict[str, Any]]",
        settings: "Settings",
    ) -> None:
        self._driver = driver
        self._logs = logs
        self._node = node
        self._events = events
        self._watch = GpuWatch(node, events, settings)
        self._cost = Cost()
        self._xids = XidJoin()
        self._static_info: dict[int, dict[str, Any]] = {}
        self._hello: dict[str, Any] = {}
        self._made_of_before: list[Any] = []

    def hello(self) -> "dict[str, Any]":
        """Return the part of the hello that the node determines: keys of `wire.Hello`.

        It is built again only if something that it is made of was replaced.
        """
        made_of = self._made_of()
        if made_of != self._made_of_before or not self._driver.opened:
            self._made_of_before = made_of
            hello = describe(self._driver, self._node, self._static_info)
            self._hello = dict(hello, notices=hello["notices"] + self._logs.notices)
        return dict(self._hello)

    def _made_of(self) -> "list[Any]":
        """Return the values of which a hello is made: with the same objects as before it is unchanged."""
        driver, node = self._driver, self._node
        found: list[Any] = [
            driver.listed, driver.opened, driver.version, driver.cuda, driver.nvml_version, driver.notice,
            node.addresses, node.kernel_source, node.kernel_notice, node.processes_notice,
            self._static_info, self._logs.notices,
        ]  # fmt: skip
        for gpu in driver.gpus:
            found += [gpu.index, gpu.info, gpu.topology, gpu.lost is None]
        return found

    def tick(self, now: float, dropped: int) -> "list[dict[str, Any]]":
        """Return the frames of a tick: the sample and, if there is one, the process list.

        `now`: unix seconds.
        """
        frames: list[dict[str, Any]] = []
        gpus, static_info = self._driver.gpus, self._driver.static_info()
        self._static_info = static_info
        host = self._take_node(frames, static_info, now)
        samples = [self._watch.sample(gpu, self._driver.describe(gpu, static_info)) for gpu in gpus]
        samples += [
            {"uuid": info["uuid"], "state": "lost", "reason": _NOT_LISTED}
            for index, info in static_info.items()
            if index >= self._driver.listed
        ]
        sample: dict[str, Any] = {"kind": "sample", "v": 1, "t": round(now, 3)}
        if samples:
            sample["gpus"] = samples
        if host is not None:
            sample["host"] = rounded(host)
        if self._xids.held:
            sample["events_held"] = self._xids.held
        monotonic = time.monotonic()
        if self._cost.is_due(monotonic, dropped):
            calls = sum(gpu.asker.slot.calls for gpu in gpus)
            sample["agent"] = self._cost.read(monotonic, calls, len(gpus), dropped, self._logs.cost())
        return [sample] + frames

    def _take_node(
        self, frames: "list[dict[str, Any]]", static_info: "dict[int, dict[str, Any]]", now: float
    ) -> "dict[str, Any] | None":
        """Take what the node's reader has found; return the host sample if there is a new one, else None.

        Process lists are added to `frames`, kernel events to `events`; both go to the log reader too.
        """
        host: dict[str, Any] | None = None
        records: list[dict[str, Any]] = []
        while self._node.found:
            kind, value = self._node.found.popleft()
            if kind == "host":
                host = latest(host, value)
            elif kind == "kernel":
                records += value
            elif kind == "records":
                self._logs.kernel(value, self._node.kernel_source)
            else:
                self._logs.processes(value[0], value[3])
                frames.append(self._ranks(value[:3], now))
        self._join_events(records, static_info)
        return host

    def _join_events(self, records: "list[dict[str, Any]]", static_info: "dict[int, dict[str, Any]]") -> None:
        xids: list[dict[str, Any]] = []
        from_nvml: list[dict[str, Any]] = []
        if records:
            known = [gpu.info for gpu in self._driver.gpus if gpu.info is not None] + list(
                static_info.values()
            )
            by_bus = {info["bus_id"].upper(): info["uuid"] for info in known if "bus_id" in info}
            for event in (placed(record, by_bus) for record in records):
                (xids if event.get("event") == "xid" else self._events).append(event)
        while self._driver.xids:
            from_nvml.append(self._driver.xids.popleft())
        readable = self._node.kernel_source is not None
        self._events.extend(self._xids.take(from_nvml, xids, readable, time.monotonic()))

    def _ranks(self, found: "tuple[list[dict[str, Any]], int, str | None]", now: float) -> "dict[str, Any]":
        processes, truncated, partial = found
        frame = {"kind": "ranks", "v": 1, "t": round(now, 3), "processes": processes, "truncated": truncated}
        hanging = ["GPU {} ({})".format(index, call) for index, call in sorted(self._watch.stuck.items())]
        silent = "no news from " + ", ".join(hanging) if hanging else None
        reasons = [reason for reason in (silent, partial) if reason is not None]
        if reasons:
            frame["partial"] = "; ".join(reasons)
        return frame


def latest(before: "dict[str, Any] | None", host: "dict[str, Any]") -> "dict[str, Any]":
    """Return the newer of two host samples in one tick, with the older one's disks if it has none.

    Disks are read every 30 s.
    """
    if before is not None and "disks" in before:
        host.setdefault("disks", before["disks"])
    return host
