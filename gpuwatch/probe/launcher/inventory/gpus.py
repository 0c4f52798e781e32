"""Reads the GPUs with NVML, each in its own thread: one that hangs is reported and delays nothing.

CUDA is not used, so that the ranks can be forked before anything initialises it.
"""

import time

from gpuwatch.agent.base import notices, nvml_codes
from gpuwatch.agent.base.background import Background
from gpuwatch.agent.gpu import gpu_processes, inventory
from gpuwatch.agent.gpu.nvml import CallSlot, Nvml, NvmlCaller, number, text
from gpuwatch.agent.gpu.sampling_tiers import FastTier, SlowTier
from gpuwatch.agent.host.machine import nvidia_devices_on_bus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

MAX_PROBED_GPUS = 64


class Card(object):
    """One GPU: the query in progress, and why the GPU is unusable."""

    def __init__(self, nvml: "Nvml", index: int) -> None:
        self.index = index
        self.asker = NvmlCaller(nvml)
        self.handle: Any = None
        self.info: dict[str, Any] = {}
        """Keys of `wire.GpuInfo`; `uuid` is among them once the GPU has answered."""
        self.health: SlowTier | None = None
        self.lost: str | None = None
        self.busy: Background | None = None
        """The last query, which may never return."""

    def ask(self, question: "Callable[[Card], dict[str, Any]]") -> bool:
        """Start a query in a thread; return False if the previous one still hangs or no thread can start."""

        def answer() -> object:
            try:
                return question(self)
            except nvml_codes.GpuLost as lost:
                self.lost = str(lost)
                return None

        if self.busy is not None and not self.busy.wait(0.0):
            return False
        self.busy = Background(answer, "GPU {}".format(self.index))
        return self.busy.start()

    def answer(self, deadline: float) -> "dict[str, Any] | None":
        """Return the result of the last query, waiting until `deadline` (monotonic).

        None: it did not return, it failed, or the GPU is lost.
        """
        if self.busy is None or not self.busy.wait(deadline):
            return None
        found = self.busy.answer()
        return found if isinstance(found, dict) else None

    def trouble(self) -> str:
        """Return why the GPU does not answer, as a sentence."""
        if self.lost is not None:
            return "GPU {}: {}".format(self.index, self.lost)
        stuck = self.asker.slot.in_call_for(time.monotonic())
        where = "it hangs in {}".format(stuck[0]) if stuck else "it is too slow"
        return "GPU {} does not answer: {}".format(self.index, where)


class Gpus(object):
    """All GPUs of this node."""

    def __init__(self) -> None:
        self._nvml = Nvml()
        self._slot = CallSlot()
        self._driver = ""
        self._opening = Background(self._open, "NVML")
        self._code = nvml_codes.UNKNOWN
        self._on_bus: int | None = None
        self.cards: list[Card] = []

    def inventory(self, deadline: float) -> "tuple[list[dict[str, Any]], list[str]]":
        """Return dicts with the keys of `protocol.InventoryGpu`, and notes on what was not readable."""
        notes = self._opened(deadline)
        return self._all(self._describe, deadline, notes), notes

    def counters(self, deadline: float) -> "dict[str, float]":
        """Return the GPUs' part of `protocol.Counters`; a GPU that does not answer in time is left out."""
        values: dict[str, float] = {}
        for found in self._all(_counters, deadline, []):
            values.update(found)
        return values

    def _all(
        self, question: "Callable[[Card], dict[str, Any]]", deadline: float, notes: "list[str]"
    ) -> "list[dict[str, Any]]":
        found = []
        for card in [each for each in self.cards if each.ask(question)]:
            reported = card.answer(deadline)
            if reported is not None:
                found.append(reported)
            else:
                notes.append(card.trouble())
        return found

    def _opened(self, deadline: float) -> "list[str]":
        """Load NVML and list the GPUs; return why that failed, empty if it did not or there is no GPU."""
        self._opening.start()
        if not self._opening.wait(deadline):
            stuck = self._slot.in_call_for(time.monotonic())
            return [
                "NVML does not answer{}: no GPU is known".format(" ({})".format(stuck[0]) if stuck else "")
            ]
        if self._code == nvml_codes.OK:
            return []
        notice = notices.of_init(self._code, self._on_bus)
        return [] if notice["code"] == "no_gpu" else [str(notice["text"])]

    def _open(self) -> None:
        self._on_bus = nvidia_devices_on_bus()
        self._code = self._nvml.open(self._slot)
        if self._code == nvml_codes.OK:
            self._driver = text(self._nvml.call(self._slot, "nvmlSystemGetDriverVersion")[1]) or ""
            self._code, count = self._nvml.call(self._slot, "nvmlDeviceGetCount")
            self.cards = [Card(self._nvml, index) for index in range(min(count or 0, MAX_PROBED_GPUS))]

    def _describe(self, card: "Card") -> "dict[str, Any]":
        asker = card.asker
        card.handle = asker.ask("gpu", "nvmlDeviceGetHandleByIndex", card.index)
        if card.handle is None:
            raise nvml_codes.GpuLost(nvml_codes.UNKNOWN, "nvmlDeviceGetHandleByIndex")
        info = inventory.describe(asker, card.handle, card.index)
        if "uuid" not in info:
            raise nvml_codes.GpuLost(nvml_codes.UNKNOWN, "nvmlDeviceGetUUID")
        card.info = info
        card.health = SlowTier(asker, card.handle, dict(info, mig_enabled=False))
        card.health.read()  # the first time only finds out in which of several ways this GPU counts
        now = FastTier(asker, card.handle, info).read(False)
        facts = {key: info.get(key) for key in ("index", "uuid", "name", "bus_id", "memory_total_bytes")}
        facts["memory_used_bytes"] = now.get("memory_used_bytes")
        facts["util_pct"] = now.get("utilization_pct")
        facts = {key: value for key, value in facts.items() if value is not None}
        held = gpu_processes.GpuProcesses(asker, card.handle, self._driver).read()
        facts["users"] = [
            dict(pid=pid, **{key: value for key, value in hold.items() if key == "memory_bytes"})
            for pid, hold in sorted(held.items())
        ]
        return facts


def _counters(card: "Card") -> "dict[str, float]":
    if card.health is None:
        return {}
    uuid, handle, asker = card.info["uuid"], card.handle, card.asker
    slow = card.health.read()
    values = {
        "nvlink:{}:{}".format(uuid, name): float(count)
        for name, count in (slow.get("nvlink_errors") or {}).items()
    }
    named = {
        "pcie:{}:replays".format(uuid): slow.get("pcie_replays"),
        "=pcie:{}:gen".format(uuid): number(
            asker.ask("pcie_gen", "nvmlDeviceGetCurrPcieLinkGeneration", handle)
        ),
        "=pcie:{}:width".format(uuid): number(
            asker.ask("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", handle)
        ),
    }
    values.update({name: float(value) for name, value in named.items() if value is not None})
    return values
