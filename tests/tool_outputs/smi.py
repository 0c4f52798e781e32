"""`nvidia-smi -q` and the table of plain `nvidia-smi`, line by line as the drivers print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Driver = Literal["470", "535", "550", "570"]
DRIVERS: tuple[Driver, ...] = ("470", "535", "550", "570")
VERSIONS = {
    "470": ("470.199.02", "11.4"),
    "535": ("535.161.08", "12.2"),
    "550": ("550.90.07", "12.4"),
    "570": ("570.124.06", "12.8"),
}
WIDTH = {"470": 38, "535": 38, "550": 51, "570": 51}
DATE = "Tue Mar 12 04:31:07 2024"


@dataclass(frozen=True)
class GpuState:
    """One GPU; `values` puts other values to keys, by `section/key` or by the key alone."""

    bus: str
    minor: int
    values: Mapping[str, str] = field(default_factory=dict)


def eight(**by_index: Mapping[str, str]) -> list[GpuState]:
    """Eight GPUs, whose minor numbers are not their indices; `gpu3={...}` changes values of the fourth."""
    buses = ("07", "0F", "47", "4E", "87", "90", "B7", "BD")
    return [
        GpuState(f"00000000:{bus}:00.0", 7 - index, by_index.get(f"gpu{index}", {}))
        for index, bus in enumerate(buses)
    ]


def query(driver: Driver, gpus: Sequence[GpuState], attached: int | None = None) -> list[str]:
    """`nvidia-smi -q`."""
    version, cuda = VERSIONS[driver]
    lines = ["", "==============NVSMI LOG==============", ""]
    head = {"Timestamp": DATE, "Driver Version": version, "CUDA Version": cuda}
    lines += [_value(driver, 0, name, text) for name, text in head.items()]
    lines += ["", _value(driver, 0, "Attached GPUs", str(len(gpus) if attached is None else attached))]
    for gpu in gpus:
        lines += [f"GPU {gpu.bus}", *_body(driver, gpu), ""]
    return lines


def _value(driver: Driver, depth: int, name: str, text: str) -> str:
    indent = " " * (4 * depth)
    return f"{indent}{name:<{WIDTH[driver] + 4 - len(indent)}}: {text}"


def _body(driver: Driver, gpu: GpuState) -> list[str]:
    lines: list[str] = []
    path: list[str] = []
    for row in _template(driver, gpu).strip("\n").split("\n"):
        depth, text = (len(row) - len(row.lstrip())) // 2 + 1, row.strip()
        del path[depth - 1 :]
        if " = " not in text:
            path.append(text)
            lines.append(" " * (4 * depth) + text)
            continue
        name, _, usual = text.partition(" = ")
        keys = ["/".join((*path[start:], name)) for start in range(len(path) + 1)]
        changed = next((gpu.values[key] for key in keys if key in gpu.values), usual)
        lines.append(_value(driver, depth, name, changed))
    return lines


def _template(driver: Driver, gpu: GpuState) -> str:
    parts = [
        COMMON_TOP.replace("MINOR", str(gpu.minor)),
        RESET if driver in ("535", "550") else "",
        RECOVERY if driver == "570" else "",
        PCI,
        REASONS_470 if driver == "470" else REASONS,
        MEMORY,
        ECC if driver in ("470", "535") else ECC_550,
        RETIRED,
        ROWS if driver == "470" else ROWS_535,
        REPAIR if driver == "570" else "",
        COMMON_END,
    ]
    return "\n".join(part.strip("\n") for part in parts if part)


COMMON_TOP = """
Product Name = NVIDIA A100-SXM4-80GB
Product Brand = NVIDIA
Display Mode = Enabled
Persistence Mode = Enabled
MIG Mode
  Current = Disabled
  Pending = Disabled
Accounting Mode = Disabled
Serial Number = 1560000000000
GPU UUID = GPU-00000000-0000-0000-0000-000000000000
Minor Number = MINOR
VBIOS Version = 92.00.45.00.05
Inforom Version
  Image Version = G506.0210.00.03
  ECC Object = 6.16
GPU Operation Mode
  Current = N/A
  Pending = N/A
"""
RESET = """
GPU Reset Status
  Reset Required = No
  Drain and Reset Recommended = No
"""
RECOVERY = """
GPU Recovery Action = None
"""
PCI = """
PCI
  Bus = 0x07
  Device Id = 0x20B210DE
  GPU Link Info
    PCIe Generation
      Max = 4
      Current = 4
  Replays Since Reset = 0
  Replay Number Rollovers = 0
  Atomic Caps Inbound = N/A
Fan Speed = N/A
Performance State = P0
"""
REASONS_470 = """
Clocks Throttle Reasons
  Idle = Not Active
  Applications Clocks Setting = Not Active
  SW Power Cap = Active
  HW Slowdown = Not Active
    HW Thermal Slowdown = Not Active
    HW Power Brake Slowdown = Not Active
  Sync Boost = Not Active
  SW Thermal Slowdown = Not Active
"""
REASONS = (
    REASONS_470.replace("Throttle", "Event")
    + """
Clocks Event Reasons Counters
  SW Power Capping = 8812773 us
  SW Thermal Slowdown = 99120 us
  HW Thermal Slowdown = 712 us
  HW Power Braking = 0 us
""".lstrip("\n")
)
MEMORY = """
FB Memory Usage
  Total = 81920 MiB
  Used = 71330 MiB
  Free = 10589 MiB
Compute Mode = Default
Utilization
  Gpu = 100 %
  Memory = 61 %
ECC Mode
  Current = Enabled
  Pending = Enabled
"""
ECC = """
ECC Errors
  Volatile
    SRAM Correctable = 0
    SRAM Uncorrectable = 0
    DRAM Correctable = 0
    DRAM Uncorrectable = 0
  Aggregate
    SRAM Correctable = 0
    SRAM Uncorrectable = 0
    DRAM Correctable = 0
    DRAM Uncorrectable = 0
"""
ECC_550 = """
ECC Errors
  Volatile
    SRAM Correctable = 0
    SRAM Uncorrectable Parity = 0
    SRAM Uncorrectable SEC-DED = 0
    DRAM Correctable = 0
    DRAM Uncorrectable = 0
  Aggregate
    SRAM Correctable = 0
    SRAM Uncorrectable Parity = 0
    SRAM Uncorrectable SEC-DED = 0
    DRAM Correctable = 0
    DRAM Uncorrectable = 0
    SRAM Threshold Exceeded = No
  Aggregate Uncorrectable SRAM Sources
    SRAM L2 = 0
    SRAM SM = 0
    SRAM Microcontroller = 0
    SRAM PCIE = 0
    SRAM Other = 0
"""
RETIRED = """
Retired Pages
  Single Bit ECC = N/A
  Double Bit ECC = N/A
  Pending Page Blacklist = N/A
"""
ROWS = """
Remapped Rows
  Correctable Error = 0
  Uncorrectable Error = 0
  Pending = No
  Remapping Failure Occurred = No
"""
ROWS_535 = (
    ROWS
    + """
  Bank Remap Availability Histogram
    Max = 640 bank(s)
    High = 0 bank(s)
    Partial = 0 bank(s)
    Low = 0 bank(s)
    None = 0 bank(s)
""".lstrip("\n")
)
REPAIR = """
Channel Repair Pending = No
TPC Repair Pending = No
"""
COMMON_END = """
Temperature
  GPU Current Temp = 61 C
  GPU Shutdown Temp = 92 C
  GPU Slowdown Temp = 89 C
Power Readings
  Power Draw = 391.20 W
  Power Limit = 400.00 W
Max Clocks
  SM = 1410 MHz
Fabric
  State = N/A
  Status = N/A
Processes
  GPU instance ID = N/A
  Process ID = 90217
    Type = C
    Name = python train.py --on-error=retry
    Used GPU Memory = 71200 MiB
"""

VOLTA = """
==============NVSMI LOG==============

Timestamp                                 : Mon Aug  2 10:00:44 2021
Driver Version                            : 470.57.02
CUDA Version                              : 11.4

Attached GPUs                             : 4
GPU 00000000:8A:00.0
    Minor Number                          : 2
    Ecc Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            Single Bit
                Device Memory             : 0
                Total                     : 0
            Double Bit
                Device Memory             : {volatile}
                Texture Memory            : N/A
                Total                     : {volatile}
        Aggregate
            Single Bit
                Device Memory             : 41
                Total                     : 41
            Double Bit
                Device Memory             : 6
                Total                     : 6
    Retired Pages
        Single Bit ECC                    : 2
        Double Bit ECC                    : 1
        Pending Page Blacklist            : {pending}
    Remapped Rows                         : N/A
"""
"""One GPU of four (`nvidia-smi -q -i 2`), whose memory retires pages and counts double bits."""


def table(
    driver: Driver, ecc: Mapping[int, str], broken: Sequence[int] = (), host: str = "", gpus: int = 8
) -> list[str]:
    """Plain `nvidia-smi`: the ECC cell by index, and the GPUs that answer with ERR!."""
    version, cuda = VERSIONS[driver]
    rule = "+" + "-" * 81 + "+" if driver != "470" else "+" + "-" * 77 + "+"
    lines = [
        DATE + "       ",
        rule,
        f"| NVIDIA-SMI {version}    Driver Version: {version}    CUDA Version: {cuda}     |",
        "|-------------------------------+----------------------+----------------------+",
        "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |",
        "|                               |                      |               MIG M. |",
        "|===============================+======================+======================|",
    ]
    for index, state in enumerate(eight()[:gpus]):
        bad = index in broken
        mem = "Unknown Error" if bad else "71330MiB / 81920MiB"
        fan = "|ERR!  ERR! ERR!   ERR! / ERR! |" if bad else "| N/A   61C    P0   391W / 400W |"
        lines += [
            f"|   {index}  NVIDIA A100-SXM...  On   | {state.bus} Off | {ecc.get(index, '0'):>20} |",
            f"{fan} {mem:>20} | {'ERR!' if bad else '100%':>8}      Default |",
            "|                               |                      | "
            + ("ERR!" if bad else "Disabled")
            + " |",
            "+-------------------------------+----------------------+----------------------+",
        ]
    lines += [
        "",
        rule,
        "| Processes:                                                                  |",
        "|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |",
        "|=============================================================================|",
        "|    3   N/A  N/A     90217      C   ...train ERR! fatal error.py   71200MiB |",
        rule,
    ]
    return [f"{host}{line}" for line in lines]
