"""NVML through the shipped pynvml: one load, one init, and calls that can be watched from outside."""

import ctypes
import time

from ..base import nvml_codes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable  # noqa: F401 - used in type comments

_INT64_BLANK = 0x7FFFFFFFFFFFFFF0
_ALL_ONES = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)


class CallSlot(object):
    """The NVML call that a thread is in, for everybody to see. One writer: that thread."""

    def __init__(self):
        # type: () -> None
        self.now = None  # type: tuple[str, float] | None
        """(function, monotonic clock when it was entered); None between calls."""
        self.calls = 0

    def in_call_for(self, monotonic):
        # type: (float) -> tuple[str, float] | None
        """(function, seconds in it), or None between calls."""
        now = self.now
        return None if now is None else (now[0], max(0.0, monotonic - now[1]))


class Nvml(object):
    """The binding and the library behind it. Any thread may call; each brings its own slot."""

    def __init__(self):
        # type: () -> None
        self.binding = None  # type: Any

    def open(self, slot):
        # type: (CallSlot) -> int
        """Load and initialise the library; the return code. May block for ever where the driver is sick."""
        try:
            import pynvml  # noqa: PLC0415 - dear to compile, and useless on a machine without NVIDIA
        except (ImportError, OSError):
            return nvml_codes.LIBRARY_NOT_FOUND
        self.binding = pynvml
        _give_memory_back()
        code, _ = self.call(slot, "nvmlInitWithFlags", 0)
        return code

    def call(self, slot, name, *args):
        # type: (CallSlot, str, *Any) -> tuple[int, Any]
        """(0, the binding's answer), or (return code, None)."""
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

    def direct(self, slot, name, *args):
        # type: (CallSlot, str, *Any) -> int
        """The return code of a library function called past the binding.

        For the few calls where the binding asks twice (for a size, then for the data) or builds every
        structure anew, and where the budget of calls is tight.
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


def _give_memory_back():
    # type: () -> None
    """Compiling the binding takes 15 MB that are free afterwards; glibc keeps them unless asked."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        pass  # another C library


def _code_of(error):
    # type: (Any) -> int
    return int(getattr(error, "value", nvml_codes.UNKNOWN))


class NvmlCaller(object):
    """Asks NVML about one GPU and gives every return code its meaning (see `nvml_codes`)."""

    def __init__(self, nvml):
        # type: (Nvml) -> None
        self.nvml = nvml
        self.slot = CallSlot()
        self.missing = {}  # type: dict[str, str]
        """Wire field -> why it has no value: not_supported, no_permission, error NNN."""
        self._never = set()  # type: set[tuple[str, str]]

    def ask(self, fields, name, *args):
        # type: (str, str, *Any) -> Any
        """The binding's answer, or None where there is none. `fields`: the wire fields it is for, by spaces.

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

    def ask_directly(self, fields, name, *args):
        # type: (str, str, *Any) -> int
        """As `ask`, past the binding; the return code, judged already."""
        if (fields, name) in self._never:
            return nvml_codes.NOT_SUPPORTED
        code = self.nvml.direct(self.slot, name, *args)
        if code in nvml_codes.AGAIN:
            code = self.nvml.direct(self.slot, name, *args)
        if code != nvml_codes.INSUFFICIENT_SIZE:
            self.judge(fields, code, name)
        return code

    def judge(self, fields, code, name):
        # type: (str, int, str) -> None
        """Remember what this code means for these fields.

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

    def start_over(self):
        # type: () -> None
        """Ask everything again: the GPU may be able to do now what it could not before."""
        self._never.clear()
        self.missing = {}

    def forget(self, fields):
        # type: (Iterable[str]) -> None
        """These fields have a value by another way: they are not missing."""
        if any(field in self.missing for field in fields):
            self._report(" ".join(fields), None)

    def _report(self, fields, why):
        # type: (str, str | None) -> None
        """Replace the whole dict: the emitter may be reading the old one."""
        changed = dict(self.missing)
        for field in fields.split():
            if why is None:
                changed.pop(field, None)
            else:
                changed[field] = why
        if changed != self.missing:
            self.missing = changed


def text(value):
    # type: (Any) -> str | None
    """A string from the binding, whichever kind it is, or None when it is empty."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return str(value) if value else None


def number(value):
    # type: (Any) -> int | None
    """A count without the sentinels that mean "blank" (near 2^63, or all ones)."""
    if value is None or value < 0 or value >= _INT64_BLANK or value in _ALL_ONES:
        return None
    return int(value)
