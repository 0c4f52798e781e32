"""Builds notices: sentences about the whole node with a problem and its remedy.

They are dicts with the keys of `wire.Notice`.
"""

import errno
import os
import sys

from . import nvml_codes, procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROCESSES_HIDDEN = "processes_hidden"
FIRST_PERSON = 1000
"""Lowest user id of persons (login.defs UID_MIN); lower ids run services."""


def no_gpu() -> "dict[str, Any]":
    """Return the notice for a machine without an NVIDIA GPU, or whose driver lists none."""
    if sys.platform == "darwin":
        return _notice("mps", "info", "Apple machine: its GPU has no NVML, so only the host is shown.")
    return _notice("no_gpu", "info", "No NVIDIA GPU here: only the host is shown.")


def of_init(code: int, on_bus: "int | None") -> "dict[str, Any]":
    """Return the notice that states why nvmlInit failed.

    Without a driver and a device on the bus it is `no_gpu`. `on_bus`: number of NVIDIA display devices on the
    PCI bus; None: unknown.
    """
    if code == nvml_codes.MISMATCH:
        return _notice(
            "driver_mismatch",
            "critical",
            "The NVIDIA library and the loaded kernel module have different versions: no GPU can be read.",
            "Reboot, or stop every GPU process and reload the module: rmmod nvidia_uvm nvidia_drm "
            "nvidia_modeset nvidia && modprobe nvidia. The agent tries again every 30 s and restarts when "
            "the library was replaced; if this notice remains, end gpuwatch and start it again.",
        )
    if (
        code in (nvml_codes.LIBRARY_NOT_FOUND, nvml_codes.DRIVER_NOT_LOADED)
        and not on_bus
        and not _driver_in_kernel()
    ):
        return no_gpu()
    if code == nvml_codes.LIBRARY_NOT_FOUND:
        return _notice(
            "library_missing",
            "warning",
            "libnvidia-ml.so.1 is not found: no GPU can be read.",
            "Install the NVIDIA driver's libraries; start a container with --gpus all (utility capability).",
        )
    if code == nvml_codes.DRIVER_NOT_LOADED:
        return _notice(
            "driver_not_loaded",
            "critical",
            "The NVIDIA kernel module is not loaded: no GPU can be read.",
            "Load it: modprobe nvidia. If that fails, read dmesg: a new kernel needs the module rebuilt.",
        )
    return _notice(
        "nvml_error",
        "critical",
        "NVML does not start (error {}): no GPU can be read.".format(code),
        "Run nvidia-smi on the node and read the kernel log; init is tried again every 30 s.",
    )


def starting(call: str, late: bool = False) -> "dict[str, Any]":
    """Return the notice that NVML's init has not returned yet; it states no time, so its text stays equal.

    `late`: init takes longer than a driver needs that no process holds open.
    """
    return _notice(
        "nvml_starting",
        "warning" if late else "info",
        "NVML has not answered yet ({}): only the host is shown until it does.".format(call),
        "If this persists, the driver hangs: read the kernel log; usually only a reboot helps.",
    )


def fewer_than_on_bus(
    found: int, on_bus: "int | None", hidden: "bool | None" = None
) -> "dict[str, Any] | None":
    """Return the notice that NVML lists fewer GPUs than the PCI bus has.

    None if it does not, lists none, or the bus is unknown. In a container this may be intended. `hidden`:
    whether this is one; None: find out.
    """
    if on_bus is None or not found or found >= on_bus:
        return None
    text = "{} of {} GPUs: the driver lists fewer than are on the PCI bus.".format(found, on_bus)
    if in_container() if hidden is None else hidden:
        return _notice(
            "gpu_missing", "info", text, "This is a container; it may have access to only some of the GPUs."
        )
    return _notice(
        "gpu_missing",
        "critical",
        text,
        "Read the kernel log for Xids and PCIe errors; reboot the node, then reseat the GPU.",
    )


def processes_hidden(proc: str = "/proc", user: "int | None" = None) -> "dict[str, Any] | None":
    """Return the notice that this user cannot see some processes or environments, and thus some ranks.

    None: all are visible.
    """
    own = os.geteuid() if user is None else user
    if procfs.read_bytes(proc + "/self/stat") is not None and procfs.read_bytes(proc + "/1/stat") is None:
        text = (
            "Processes of other users are not visible (/proc is mounted with hidepid): their jobs are not "
            "shown."
        )
    elif own != 0 and _has_closed_environment(proc, own):
        text = (
            "The environments of other users' processes cannot be read (the agent is not running as root): "
            "their ranks and jobs may be missing."
        )
    else:
        return None
    return _notice(
        PROCESSES_HIDDEN,
        "info",
        text,
        "Run the agent as root, or as the user of the jobs.",
    )


def _has_closed_environment(proc: str, own: int) -> bool:
    """Return True if a person other than `own` (uid from 1000) has a process with unreadable environment."""
    for pid in procfs.names(proc):
        if not pid.isdecimal():
            continue
        try:
            owner = os.stat(os.path.join(proc, pid)).st_uid
            if owner >= FIRST_PERSON and owner != own:
                os.close(os.open(os.path.join(proc, pid, "environ"), os.O_RDONLY))
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                return True
    return False


def _driver_in_kernel() -> bool:
    return os.path.exists("/proc/driver/nvidia/version")


def in_container() -> bool:
    """Return True if the agent runs in a Docker or Podman container, where GPUs may be hidden."""
    return os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv")


def _notice(code: str, severity: str, text: str, remedy: "str | None" = None) -> "dict[str, Any]":
    notice = {"code": code, "severity": severity, "text": text}
    if remedy is not None:
        notice["remedy"] = remedy
    return notice
