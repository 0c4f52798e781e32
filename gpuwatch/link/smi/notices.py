"""The notices and events of a node without Python, each with its remedy."""

from __future__ import annotations

from gpuwatch.link.start.bundle import OLDEST_PYTHON
from gpuwatch.wire import Event, Notice

_OLDEST = ".".join(map(str, OLDEST_PYTHON))


def no_python(python: str | None) -> Notice:
    """Return the notice that only nvidia-smi is available. `python`: from the hosts file."""
    why = (
        f"Python {_OLDEST} or later is missing"
        if python is None
        else f"{python} is missing or older than Python {_OLDEST}"
    )
    return Notice(
        code="no_python",
        severity="warning",
        text=f"{why}: GPU values come from nvidia-smi. Not available: processes, ranks, Xids, NVLink and "
        "PCIe rates, activity counters, remapped rows, network and disks; logs cannot be followed.",
        remedy="Install python3, or name an interpreter with `python:` in the hosts file.",
    )


def starting() -> Notice:
    """Return the notice that nvidia-smi has written nothing yet: an unused driver starts slowly."""
    return Notice(
        code="nvml_starting",
        severity="info",
        text="nvidia-smi has not answered yet: only the host is shown until it does.",
    )


def ended(words: list[str]) -> Notice:
    """Return the notice that nvidia-smi exited; `words` are the lines of its output."""
    stated = " ".join(words) or "it printed nothing"
    return Notice(
        code="nvidia_smi_failed",
        severity="critical",
        text=f"nvidia-smi ended: {stated}",
        remedy="Run nvidia-smi on the node and read the kernel log; gpuwatch restarts nvidia-smi by itself.",
    )


def silent() -> Notice:
    """Return the notice that nvidia-smi runs but prints nothing.

    Without a time, so that the text stays equal.
    """
    return Notice(
        code="nvidia_smi_silent",
        severity="critical",
        text="nvidia-smi runs and prints nothing: the driver may hang.",
        remedy="Read the kernel log for Xids; usually only a reboot helps.",
    )


def unknown(name: str, reason: str) -> Notice:
    """Return the notice of a GPU that was lost before its UUID could be read."""
    return Notice(
        code="gpu_missing",
        severity="critical",
        text=f"{name} does not answer: {reason}.",
        remedy="Read the kernel log for Xids and PCIe errors; reset the GPU or reboot the node.",
    )


def lost(t: float, index: int, uuid: str, reason: str) -> Event:
    """Return the event of a GPU that was lost after it had answered; `t` is the node's clock."""
    return Event(
        t=t,
        seq=0,
        event="gpu_lost",
        severity="critical",
        title=f"GPU {index} is lost: {reason}",
        gpu=uuid,
        remedy="Read the kernel log for Xids and PCIe errors; reset the GPU or reboot the node.",
        source="agent",
    )


def back(t: float, index: int, uuid: str) -> Event:
    """Return the event of a lost GPU that responds again; `t` is the node's clock."""
    return Event(t=t, seq=0, event="gpu_back", title=f"GPU {index} answers again", gpu=uuid, source="agent")
