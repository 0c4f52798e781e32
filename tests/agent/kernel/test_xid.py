from __future__ import annotations

from typing import get_args

import pytest

from gpuwatch import wire
from gpuwatch.agent.kernel.xid_lines import event
from gpuwatch.agent.kernel.xid_table import CATALOGUE, meaning


def test_every_entry_of_the_catalogue_is_complete() -> None:
    used = {8, 11, 13, 25, 31, 32, *range(37, 42), *range(43, 47), 48, 54, 60, *range(62, 65), *range(66, 73)}
    used |= {*range(74, 81), *range(82, 87), 88, 89, *range(92, 108), 109, 110, *range(119, 122)}
    used |= {*range(126, 138), *range(139, 173)}
    assert used <= set(CATALOGUE)
    for name, severity, title, remedy in CATALOGUE.values():
        assert name.startswith("gpu.xid.")
        assert title
        assert severity in get_args(wire.Severity)
        assert remedy.endswith(".")


@pytest.mark.parametrize(
    ("code", "severity"),
    [(79, "critical"), (48, "critical"), (94, "critical"), (31, "error"), (37, "warning"), (45, "info")],
)
def test_hardware_is_worse_than_a_program(code: int, severity: str) -> None:
    assert meaning(code)[1] == severity


def test_a_code_that_nobody_knows_is_a_warning() -> None:
    name, severity, _, remedy = meaning(177)
    assert (name, severity) == ("gpu.xid.unknown", "warning")
    assert "Xid list" in remedy


@pytest.mark.parametrize(
    ("line", "code", "bus_id", "pid"),
    [
        (
            "NVRM: Xid (PCI:0000:41:00): 79, pid=12542, name=python3, GPU has fallen off",
            79,
            "00000000:41:00.0",
            12542,
        ),
        ("NVRM: Xid (0000:0a:00): 13, Graphics Exception: ESR 0x5167b0", 13, "00000000:0A:00.0", None),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained", 94, "00000000:01:00.0", 7194),
        (
            "NVRM: Xid (PCI:0004:01:00): 119, pid='<unknown>', name=<unknown>, Timeout",
            119,
            "00000004:01:00.0",
            None,
        ),
        ("NVRM: Xid (PCI:0000:01:00): 38, pid=1659,", 38, "00000000:01:00.0", 1659),
        ("NVRM: Xid (PCI:0000:01:00): 45", 45, "00000000:01:00.0", None),
        ("[T4123] NVRM: Xid (PCI:0000:01:00.0): 31, Ch 00000010", 31, "00000000:01:00.0", None),
        ("NVRM: Xid (PCI:...): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 11", 145, None, None),
    ],
)
def test_the_forms_of_the_line(line: str, code: int, bus_id: str | None, pid: int | None) -> None:
    found = event(line)
    assert found is not None
    assert (found["event"], found["code"], found.get("bus_id"), found.get("pid")) == (
        "xid",
        code,
        bus_id,
        pid,
    )
    assert found["source"] == "kernel"


def test_nonfatal_in_the_line_is_a_warning() -> None:
    fatal = event("NVRM: Xid (PCI:0000:01:00): 149, NETIR Fatal XC0 i0 Link 5")
    nonfatal = event("NVRM: Xid (PCI:0000:01:00): 144, SAW_MVB Nonfatal XC0 i0 Link 0")
    assert [(found or {})["severity"] for found in (fatal, nonfatal)] == ["critical", "warning"]


def test_a_gpu_that_fell_off_without_a_code() -> None:
    text = "NVRM: The NVIDIA GPU 0000:b3:00.0\nNVRM: (PCI ID: 10de:26b5) installed in this system has\n"
    found = event(text + "NVRM: fallen off the bus and is not responding to commands.")
    assert found is not None
    assert (found["severity"], found["bus_id"]) == ("critical", "00000000:B3:00.0")
    assert found["code"] is None
    assert "\n" not in str(found["detail"])


def test_switch_errors_are_reported_by_their_own_word() -> None:
    found = event("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress error")
    assert found is not None
    assert (found["event"], found["code"], found["severity"]) == ("sxid", 12028, "warning")


@pytest.mark.parametrize(
    "line",
    ["NVRM: loading NVIDIA UNIX x86_64 Kernel Module", "usb 1-1: Xid", "NVRM: Xid errors are documented at"],
)
def test_other_lines_are_nothing(line: str) -> None:
    assert event(line) is None
