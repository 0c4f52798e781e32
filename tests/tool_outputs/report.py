"""`nvidia-bug-report.log`: the sections that it has, with lines that sound bad where they mean nothing."""

from __future__ import annotations

from collections.abc import Sequence

RULER = "____________________________________________"
NODE = "dgx-17"


def bug_report(kernel: Sequence[str], query: Sequence[str], node: str = NODE) -> list[str]:
    """A report with these lines of the kernel log and this `nvidia-smi -q`."""
    lines = [RULER, "", "Start of NVIDIA bug report log file.  Please include this file, along",
             "with a detailed description of your problem, when reporting a graphics",
             "driver bug via the NVIDIA Linux forum.", "", "nvidia-bug-report.sh Version: 34275561", "",
             "Date: Tue Mar 12 04:40:00 UTC 2024",
             f"uname: Linux {node} 5.15.0-94-generic #104-Ubuntu SMP x86_64 x86_64 x86_64 GNU/Linux",
             "command line flags: ", ""]  # fmt: skip
    for section in OTHERS:
        lines += [RULER, "", *section.strip("\n").split("\n"), ""]
    lines += [
        RULER,
        "",
        "*** /var/log/dmesg",
        "*** ls: -rw-r----- 1 root adm 132 /var/log/dmesg",
        *kernel,
        "",
    ]
    lines += [RULER, "", "/usr/bin/nvidia-smi --query", "", *query, ""]
    lines += [RULER, "", "/usr/bin/nvidia-smi nvlink --status", "", "GPU 0: NVIDIA A100 (UUID: GPU-1)",
              "\t Link 0: 25 GB/s", "\t Link 1: <inactive>", "", RULER, "",
              "End of NVIDIA bug report log file."]  # fmt: skip
    return lines


OTHERS = (
    """
*** /etc/os-release
PRETTY_NAME="Ubuntu 22.04.3 LTS"
""",
    """
*** /proc/driver/nvidia/./params
ResmanDebugLevel: 4294967295
EnableStreamMemOPs: 0
""",
    """
*** /etc/modprobe.d/nvidia.conf
# a GPU that has fallen off the bus needs a power cycle; see the notes on Xid 79
options nvidia NVreg_EnableGpuFirmware=0
""",
    """
/usr/bin/lspci -nn -vvv
07:00.0 3D controller [0302]: NVIDIA Corporation [10de:20b2]
\tDevSta: CorrErr+ NonFatalErr- FatalErr+ UnsupReq+
\tUESta: DLP- SDES- TLP- FCP- CmpltTO+
""",
    """
*** /var/lib/dkms/nvidia/535.161.08/build/make.log
make[1]: *** [Makefile:1920: modules] Error 2
RuntimeError: CUDA error: an illegal memory access was encountered
""",
    """
*** /home/ada/.nv/train.log
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
Killed
""",
    """
*** /etc/slurm/prolog.sh
grep -q 'Unable to determine the device handle' /tmp/smi && echo "GPU is lost"
""",
)
