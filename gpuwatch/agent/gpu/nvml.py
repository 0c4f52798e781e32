"""Calls NVML through the bundled pynvml: one load, one init, and calls observable from outside."""

import ctypes
import time

from ..base import nvml_codes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

_INT64_BLANK = 0x7FFFFFFFFFFFFFF0
_ALL_ONES = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)


class CallSlot(object):
    """The NVML call that a thread is in; every thread may read it, only that thread writes it."""

    def __init__(self) -> None:
        self.now: tuple[str, float] | None = None
        """(function, monotonic start time); None between calls."""
        self.calls = 0

    def in_call_for(self, monotonic: float) -> "tuple[str, float] | None":
        """Return (function, seconds in it) of the call at time `monotonic`; None between calls."""
        now = self.now
        return None if now is None else (now[0], max(0.0, monotonic - now[1]))


class Nvml(object):
    """NVML's binding and library. Thread-safe: each thread has its own slot."""

    def __init__(self) -> None:
        self.binding: Any = None

    def open(self, slot: "CallSlot") -> int:
        """Load and initialise the library; return the return code. May block forever with a faulty driver."""
        try:
            import pynvml  # noqa: PLC0415 - slow to compile, and useless on a machine without NVIDIA
        except (ImportError, OSError):
            return nvml_codes.LIBRARY_NOT_FOUND
        self.binding = pynvml
        _give_memory_back()
        code, _ = self.call(slot, "nvmlInitWithFlags", 0)
        return code

    def call(self, slot: "CallSlot", name: str, *args: "Any") -> "tuple[int, Any]":
        """Call a function of the binding; return (0, its result) or (return code, None)."""
        function = getattr(self.binding, name, None)
        if function is None:
            return nvml_codes.FUNCTION_NOT_FOUND, None
        slot.calls += 1
        slot.now = (name, time.monotonic())
        try:
            return nvml_codes.OK, function(*args)
        except self.binding.NVMLError as error:
            return _code_of(error), None
        except getattr(self.binding, "NVMLLibraryMismatchError", ()):
            return nvml_codes.FUNCTION_NOT_FOUND, None
        finally:
            slot.now = None

    def direct(self, slot: "CallSlot", name: str, *args: "Any") -> int:
        """Call a function of the library without the binding; return its return code.

        For the few calls for which the binding makes two calls (size, then data) or rebuilds every structure,
        where the call budget is tight.
        """
        function = getattr(self.binding.nvmlLib, name, None)
        if function is None:
            return nvml_codes.FUNCTION_NOT_FOUND
        slot.calls += 1
        slot.now = (name, time.monotonic())
        try:
            return int(function(*args))
        finally:
            slot.now = None


def _give_memory_back() -> None:
    """Give memory back to the system: 15 MB that compiling the binding used, and glibc would keep."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        pass  # another C library


def _code_of(error: "Any") -> int:
    return int(getattr(error, "value", nvml_codes.UNKNOWN))


class NvmlCaller(object):
    """Calls NVML for one GPU and interprets return codes (see `nvml_codes`)."""

    def __init__(self, nvml: "Nvml") -> None:
        self.nvml = nvml
        self.slot = CallSlot()
        self.missing: dict[str, str] = {}
        """Wire field -> why it has no value: not_supported, no_permission, error NNN."""
        self._never: set[tuple[str, str]] = set()

    def ask(self, fields: str, name: str, *args: "Any") -> "Any":
        """Call a function of the binding; return its result, None if there is no value.

        `fields`: the wire fields that the call fills, separated by spaces.

        Raises:
            GpuLost: the GPU or the driver is gone.
        """
        if (fields, name) in self._never:
            return None
        code, answer = self.nvml.call(self.slot, name, *args)
        if code in nvml_codes.AGAIN:
            code, answer = self.nvml.call(self.slot, name, *args)
        self.judge(fields, code, name)
        return answer

    def ask_directly(self, fields: str, name: str, *args: "Any") -> int:
        """Call a function of the library without the binding; return its return code.

        `judge` has recorded the code, except INSUFFICIENT_SIZE, which the caller handles. If these fields
        were refused for good, NOT_SUPPORTED is returned without a call.

        Raises:
            GpuLost: the GPU or the driver is gone.
        """
        if (fields, name) in self._never:
            return nvml_codes.NOT_SUPPORTED
        code = self.nvml.direct(self.slot, name, *args)
        if code in nvml_codes.AGAIN:
            code = self.nvml.direct(self.slot, name, *args)
        if code != nvml_codes.INSUFFICIENT_SIZE:
            self.judge(fields, code, name)
        return code

    def judge(self, fields: str, code: int, name: str) -> None:
        """Record in `missing`, by a return code, why these fields have no value, or that they have one.

        Raises:
            GpuLost: the GPU or the driver is gone.
        """
        if code in nvml_codes.NOTHING:
            if self.missing:
                self._report(fields, None)
        elif code in nvml_codes.LOST or code in nvml_codes.NODE:
            raise nvml_codes.GpuLost(code, name)
        elif code in nvml_codes.NEVER:
            self._never.add((fields, name))
            self._report(fields, "not_supported")
        elif code == nvml_codes.NO_PERMISSION:
            self._report(fields, "no_permission")
        else:
            self._report(fields, "error {}".format(code))

    def start_over(self) -> None:
        """Forget which calls this GPU has refused, since it may support them now."""
        self._never.clear()
        self.missing = {}

    def forget(self, fields: "Iterable[str]") -> None:
        """Remove these fields from `missing`: another source supplies them."""
        if any(field in self.missing for field in fields):
            self._report(" ".join(fields), None)

    def _report(self, fields: str, why: "str | None") -> None:
        """Set why these fields have no value, or (None) that they have one, in a new dict.

        The emitter may be reading the old one.
        """
        changed = dict(self.missing)
        for field in fields.split():
            if why is None:
                changed.pop(field, None)
            else:
                changed[field] = why
        if changed != self.missing:
            self.missing = changed


def text(value: "Any") -> "str | None":
    """Return a string of the binding (bytes or str) as str; None if it is empty."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return str(value) if value else None


def number(value: "Any") -> "int | None":
    """Return a count; None for None, "blank" sentinels (near 2^63, or all ones) and negative numbers."""
    if value is None or value < 0 or value >= _INT64_BLANK or value in _ALL_ONES:
        return None
    return int(value)
