"""Stacks and profiles of a node's processes, sent on request."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from gpuwatch.wire.base import FramePart
from gpuwatch.wire.limits import Count, Few, Many, Name, Real, Text, Whole

Seconds: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0e12)]
"""A duration, or the sum of many."""


class StackFrame(FramePart, frozen=True):
    """One Python frame."""

    function: Name
    file: Name
    line: Whole


class PythonThread(FramePart, frozen=True):
    """A Python thread, its innermost frame first."""

    name: Name = ""
    main: bool = False
    active: bool = False
    """True if py-spy considers it as not waiting."""
    gil: bool = False
    """True if it holds the global interpreter lock."""
    frames: Many[StackFrame] = []


class KernelThread(FramePart, frozen=True):
    """A thread of a process, or a child process, as listed in /proc."""

    tid: Whole
    name: Name = ""
    state: Name = "?"
    """The state in /proc: R, S, D, Z or T."""
    cpu_pct: Real | None = None
    """Percent of one core, over `Stacks.seconds`."""
    wchan: Name | None = None
    """The kernel function in which it waits; None: it runs, or this user may not read it."""
    syscall: Name | None = None
    """futex, clock_nanosleep, poll; `running`."""


class ProcessStack(FramePart, frozen=True):
    """The threads of one process and, where they could be read, its Python stacks."""

    pid: Whole
    cpu_pct: Real | None = None
    """All its threads together."""
    threads: Many[KernelThread] = []
    """The main thread first, then those that used most CPU."""
    threads_total: Whole = 0
    children: Many[KernelThread] = []
    """Its child processes (a data loader's workers), those in the states D and T first."""
    python: Many[PythonThread] = []
    why: Text | None = None
    """Why there are no Python stacks."""
    writes: Text | None = None
    """The file, no log, that it wrote between the two readings, and how much; None: none, or unknown."""
    written_bytes: Count = 0


class Stacks(FramePart, frozen=True):
    """The answer to `AskStacks`: the stacks of the requested processes that exist."""

    processes: Many[ProcessStack] = []
    seconds: Real = 0.0
    """Seconds between the two readings of the CPU time."""
    lacks_py_spy: bool = False
    """True if Python stacks are missing because the node has no py-spy."""


class ProcessProfile(FramePart, frozen=True):
    """The stack samples of one process, with the errors and the time of the sampling."""

    pid: Whole
    packed: str = ""
    """py-spy's raw format, a stack and its count per line, the most frequent first: zlib, then base64."""
    left_out: Count = 0
    """Number of samples of rare stacks that did not fit into the reply."""
    errors: Count = 0
    """Samples that could not be read; without pausing, a stack may change while it is read."""
    seconds: Real | None = None
    """From the start of py-spy to its end."""
    py_spy_cpu_s: Real | None = None
    why: Text | None = None
    """Why there are no samples."""


class Profiles(FramePart, frozen=True):
    """The answer to `AskProfile`: the stack samples of the requested processes."""

    processes: Few[ProcessProfile] = []
    lacks_py_spy: bool = False
    """True if some process could not be sampled because the node has no py-spy."""


class TimedWork(FramePart, frozen=True):
    """Number and total time of the GPU kernels, copies, fills or CPU operators of one name or category."""

    category: Literal["kernel", "copy", "memset", "cpu_op"]
    name: Name = ""
    """Empty: all of the category."""
    count: Count = 0
    seconds: Seconds = 0.0
    """Total time; of operators without the operators that they call."""


class ProcessKernels(FramePart, frozen=True):
    """The time of a process's GPU, by kernels, copies and fills, from a trace that the process recorded."""

    pid: Whole
    span_s: Seconds | None = None
    """Seconds that the trace covers; None: it does not say."""
    busy_s: Seconds | None = None
    """Seconds in which at least one kernel, copy or fill ran; None: the trace has no GPU events."""
    work: Few[TimedWork] = []
    """The 30 names with the most time; operators only of a trace without GPU events."""
    totals: Few[TimedWork] = []
    """The times by category, over all names."""
    left_out: Count = 0
    """Number of events without a plausible time."""
    trace_bytes: Count = 0
    why: Text | None = None
    """Why there are no times."""


class Kernels(FramePart, frozen=True):
    """The answer to `AskKernels`: the GPU kernel times of the requested processes."""

    processes: Few[ProcessKernels] = []


class UploadResult(FramePart, frozen=True):
    """The answer to `UploadPySpy`: whether the program is complete."""

    ready: bool = False
    """True if it is complete, and used from now on."""


class RasAnswer(FramePart, frozen=True):
    """The report of NCCL's RAS (its own state query) at one address."""

    address: Name
    packed: str = ""
    """The answer unchanged: zlib, then base64."""
    format: Name = "text"
    """json (NCCL 2.28.7 and later) or text."""
    protocol: Name | None = None
    pids: Many[Whole] = []
    """Processes whose environment contains this address; for the default address all without one."""
    seconds: Real = 0.0
    error: Text | None = None


class RasAnswers(FramePart, frozen=True):
    """The answer to `AskRas`: one report for each address that the requested processes use."""

    answers: Many[RasAnswer] = []
