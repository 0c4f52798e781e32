"""The frames: the one contract between an agent on a node and the cockpit.

An agent writes one JSON object a line; every object carries `v`, `t`, `seq` and `kind`. What the
agent does not know it leaves out, so an absent field is None here and a dash on the screen, never 0.

Units are in the names: `_pct` 0..100, `_bytes`, `_bps` bytes per second, `_w` watts, `_j` joules,
`_c` degrees Celsius, `_mhz`, `_s` seconds. Every `t` is the node's own clock, unix seconds.
"""

from gpuwatch.wire.codec import (
    MAX_LINE_BYTES,
    FrameError,
    decode,
    encode,
    encode_request,
)
from gpuwatch.wire.frames import (
    AnyFrame,
    Bye,
    Event,
    Hello,
    Ranks,
    Reply,
    Sample,
)
from gpuwatch.wire.gpus import (
    GpuFast,
    GpuInfo,
    GpuMedium,
    GpuSample,
    GpuSlow,
    MigInstance,
    Topology,
)
from gpuwatch.wire.host import (
    AgentCost,
    Disk,
    HostSample,
    IbPort,
    Nic,
)
from gpuwatch.wire.logs import (
    KERNEL_LOG,
    Finding,
    Lines,
    LogFile,
    LogLine,
    Logs,
    RankSource,
    Role,
)
from gpuwatch.wire.part import (
    WIRE_VERSION,
    Frame,
    Notice,
    Part,
    Severity,
)
from gpuwatch.wire.particulars import UNLIMITED, Particulars, RankParticulars
from gpuwatch.wire.processes import (
    Process,
    ProcessGpu,
)
from gpuwatch.wire.progress import PastStep, Progress
from gpuwatch.wire.requests import (
    AnyRequest,
    AskDumps,
    AskParticulars,
    AskRas,
    AskStacks,
    Cancel,
    LeaveFiles,
    Ping,
    ReadLines,
    Request,
    Search,
    SetInterval,
    Tail,
)
from gpuwatch.wire.stacks import (
    Dump,
    Dumps,
    KernelThread,
    ProcessStack,
    PythonThread,
    RasAnswer,
    RasAnswers,
    StackFrame,
    Stacks,
)

__all__ = [
    "KERNEL_LOG",
    "MAX_LINE_BYTES",
    "UNLIMITED",
    "WIRE_VERSION",
    "AgentCost",
    "AnyFrame",
    "AnyRequest",
    "AskDumps",
    "AskParticulars",
    "AskRas",
    "AskStacks",
    "Bye",
    "Cancel",
    "Disk",
    "Dump",
    "Dumps",
    "Event",
    "Finding",
    "Frame",
    "FrameError",
    "GpuFast",
    "GpuInfo",
    "GpuMedium",
    "GpuSample",
    "GpuSlow",
    "Hello",
    "HostSample",
    "IbPort",
    "KernelThread",
    "LeaveFiles",
    "Lines",
    "LogFile",
    "LogLine",
    "Logs",
    "MigInstance",
    "Nic",
    "Notice",
    "Part",
    "Particulars",
    "PastStep",
    "Ping",
    "Process",
    "ProcessGpu",
    "ProcessStack",
    "Progress",
    "PythonThread",
    "RankParticulars",
    "RankSource",
    "Ranks",
    "RasAnswer",
    "RasAnswers",
    "ReadLines",
    "Reply",
    "Request",
    "Role",
    "Sample",
    "Search",
    "SetInterval",
    "Severity",
    "StackFrame",
    "Stacks",
    "Tail",
    "Topology",
    "decode",
    "encode",
    "encode_request",
]
