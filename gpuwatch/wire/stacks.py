"""What the processes of a node do at one moment or over some seconds, reported when it is asked for."""

from __future__ import annotations

from gpuwatch.wire.base import FramePart
from gpuwatch.wire.limits import Count, Few, Many, Name, Real, Text, Whole


class StackFrame(FramePart, frozen=True):
    """One frame of Python."""

    function: Name
    file: Name
    line: Whole


class PythonThread(FramePart, frozen=True):
    """A thread of the interpreter, its innermost frame first."""

    name: Name = ""
    main: bool = False
    active: bool = False
    """Not waiting, as py-spy sees it."""
    gil: bool = False
    """It holds the interpreter's lock."""
    frames: Many[StackFrame] = []


class KernelThread(FramePart, frozen=True):
    """A thread as the kernel sees it."""

    tid: Whole
    name: Name = ""
    state: Name = "?"
    """R, S, D, Z, T."""
    cpu_pct: Real | None = None
    """Of one core, over `Stacks.seconds`."""
    wchan: Name | None = None
    """The kernel's function that it waits in; None: it runs, or this user may not know."""
    syscall: Name | None = None
    """futex, clock_nanosleep, poll; `running`."""


class ProcessStack(FramePart, frozen=True):
    """One process."""

    pid: Whole
    cpu_pct: Real | None = None
    """All its threads together."""
    threads: Many[KernelThread] = []
    """The main one first, then those that used the CPU most."""
    threads_total: Whole = 0
    children: Many[KernelThread] = []
    """Processes that it has started (a data loader's workers), those in the states D and T first."""
    python: Many[PythonThread] = []
    why: Text | None = None
    """Why there are no Python stacks."""


class Stacks(FramePart, frozen=True):
    """All that were asked for and are there."""

    processes: Many[ProcessStack] = []
    seconds: Real = 0.0
    """Between the two readings of the CPU time."""
    lacks_py_spy: bool = False
    """Of some process nothing is known in Python, because the node has no py-spy."""


class ProcessProfile(FramePart, frozen=True):
    """One process, and what sampling it cost."""

    pid: Whole
    packed: str = ""
    """py-spy's raw format, a stack and its count a line, the most frequent first: zlib, then base64."""
    left_out: Count = 0
    """Samples of rare stacks that the reply had no room for."""
    errors: Count = 0
    """Samples that could not be read; without pausing, a stack may change while it is read."""
    seconds: Real | None = None
    """From the start of py-spy to its end."""
    py_spy_cpu_s: Real | None = None
    why: Text | None = None
    """Why there are no samples."""


class Profiles(FramePart, frozen=True):
    """All that were asked for."""

    processes: Few[ProcessProfile] = []
    lacks_py_spy: bool = False
    """Some process could not be sampled, because the node has no py-spy."""


class UploadResult(FramePart, frozen=True):
    """What became of a piece of a lent program."""

    ready: bool = False
    """It is whole, and used from now on."""


class RasAnswer(FramePart, frozen=True):
    """What NCCL answered on one address."""

    address: Name
    packed: str = ""
    """Its words as they came: zlib, then base64."""
    format: Name = "text"
    """json (NCCL 2.28.7 and later) or text."""
    protocol: Name | None = None
    pids: Many[Whole] = []
    """Processes whose environment names this address; of the usual one all that name none."""
    seconds: Real = 0.0
    error: Text | None = None


class RasAnswers(FramePart, frozen=True):
    """One for each address that the asked processes use."""

    answers: Many[RasAnswer] = []
