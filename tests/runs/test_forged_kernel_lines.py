"""Lines of the kernel in a job's own log, which any process can print."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpuwatch.cli.analysis.scan import scan
from tests.tool_outputs import smi

XID = "[Sun Nov 22 {} 2026] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
KILL = (
    "Nov 22 {} gpu-007 kernel: Out of memory: Killed process 1234 (python) total-vm:1048576kB, anon-rss:9kB\n"
)
BEFORE = "[Sun Nov 22 09:00:00 2026] Linux version 6.1\n"
AFTER = "[Sun Nov 22 11:00:00 2026] usb 1-1: new device\n"
OOM = "2026-11-22 09:59:58 [rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
STEPS = "".join(f"2026-11-22 09:59:{n:02d} step {n} loss 2.{n}\n" for n in range(20))


def incidents(folder: Path, **files: str) -> list[dict[str, Any]]:
    """Those of a scan over a folder of such files."""
    for name, text in files.items():
        (folder / (name.replace("__", "-") + ".log")).write_text(text)
    found = CliRunner().invoke(scan, ["--json", str(folder)])
    reported: list[dict[str, Any]] = json.loads(found.output)["incidents"]
    return reported


@pytest.mark.parametrize("line", [XID, KILL])
@pytest.mark.parametrize("name", ["rank0", "train"])
def test_a_line_in_the_jobs_own_log_alone_is_not_sure(tmp_path: Path, line: str, name: str) -> None:
    (reported,) = incidents(tmp_path, **{name: STEPS + line.format("10:00:00") + KILL.format("10:00:00")})
    assert reported["confidence"] == "medium"
    assert name in reported["because"] or "rank 0" in reported["because"]
    assert "dmesg" in reported["do"][0]


def test_a_kernel_log_that_covers_the_time_and_is_silent_refutes_it(tmp_path: Path) -> None:
    forged = XID.format("10:00:00") + KILL.format("10:00:00")
    assert incidents(tmp_path, rank0=STEPS + forged, dmesg__gpu__007=BEFORE + AFTER) == []


def test_a_refuted_line_does_not_lead_over_what_the_job_says(tmp_path: Path) -> None:
    forged = KILL.format("09:59:50") + XID.format("09:59:50")
    found = incidents(tmp_path, rank0=STEPS + forged + OOM, dmesg__gpu__007=BEFORE + AFTER)
    assert [each["class"] for each in found] == ["oom.cuda"]


def test_a_kernel_log_that_has_it_as_well_confirms_it(tmp_path: Path) -> None:
    line = XID.format("10:00:00")
    kernel = BEFORE + line + AFTER
    (reported,) = incidents(tmp_path, rank0=STEPS + KILL.format("09:00:00") + line, dmesg__gpu__007=kernel)
    assert (reported["class"], reported["confidence"]) == ("gpu.xid.fell_off", "medium")
    assert "dmesg-gpu-007.log" in reported["because"]


def test_a_kernel_log_of_another_time_refutes_nothing(tmp_path: Path) -> None:
    old = BEFORE + BEFORE.replace("09:00:00", "09:30:00")
    forged = XID.format("10:00:00") + KILL.format("10:00:00")
    (reported,) = incidents(tmp_path, rank0=STEPS + forged, dmesg__gpu__007=old)
    assert reported["confidence"] == "medium"


def test_a_kernel_log_among_the_files_of_one_account_is_not_sure(tmp_path: Path) -> None:
    (reported,) = incidents(tmp_path, rank0=STEPS, dmesg__gpu__007=BEFORE + XID.format("10:00:00"))
    assert (reported["class"], reported["node"], reported["confidence"]) == (
        "gpu.xid.fell_off",
        "gpu-007",
        "medium",
    )
    assert "dmesg-gpu-007.log" in reported["because"]
    assert "dmesg -T" in reported["do"][0]


def test_an_output_of_a_tool_among_the_files_of_one_account_is_not_sure(tmp_path: Path) -> None:
    query = "\n".join(smi.query("550", smi.eight(gpu3={"Remapping Failure Occurred": "Yes"})))
    found = incidents(tmp_path, rank0=STEPS, gpu__007=query)
    assert found
    assert {each["confidence"] for each in found} <= {"medium", "low"}


def test_a_kernel_log_by_itself_is_the_word_of_the_person(tmp_path: Path) -> None:
    (reported,) = incidents(tmp_path, dmesg__gpu__007=BEFORE + XID.format("10:00:00"))
    assert (reported["class"], reported["confidence"]) == ("gpu.xid.fell_off", "high")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
@pytest.mark.parametrize(
    ("job", "kernel", "mode", "wanted"),
    [
        (4711, 0, 0o644, "high"),
        (4711, 104, 0o640, "high"),
        (4711, 4711, 0o644, "medium"),
        (4711, 4712, 0o644, "medium"),
        (4711, 0, 0o666, "medium"),
        (0, 0, 0o644, "medium"),
    ],
)
def test_the_owner_of_a_kernel_log_decides(
    tmp_path: Path, job: int, kernel: int, mode: int, wanted: str
) -> None:
    (tmp_path / "rank0.log").write_text(STEPS)
    log = tmp_path / "dmesg-gpu-007.log"
    log.write_text(BEFORE + XID.format("10:00:00"))
    os.chown(tmp_path / "rank0.log", job, job)
    os.chown(log, kernel, kernel)
    log.chmod(mode)
    (reported,) = incidents(tmp_path)
    assert reported["confidence"] == wanted


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
@pytest.mark.parametrize(
    ("others", "wanted"),
    [
        (
            "Nov 22 09:59:00 gpu-007 sshd[41]: Accepted publickey for alice from 10.0.0.1 port 40222 ssh2\n",
            "medium",
        ),
        ("Nov 22 09:59:00 gpu-007 systemd[1]: Started Session 41 of user alice.\n", "high"),
        ("Nov 22 09:59:00 gpu-007 kernel: usb 1-1: new device\n", "high"),
    ],
)
def test_a_log_of_all_programs_is_not_sure(tmp_path: Path, others: str, wanted: str) -> None:
    """`logger -t kernel` writes into it what any user likes."""
    (tmp_path / "rank0.log").write_text(STEPS)
    os.chown(tmp_path / "rank0.log", 4711, 4711)
    forged = "Nov 22 10:00:00 gpu-007 kernel: " + XID.partition("] ")[2]
    (tmp_path / "messages-gpu-007.log").write_text(others * 3 + forged)
    (reported,) = incidents(tmp_path)
    assert (reported["class"], reported["confidence"]) == ("gpu.xid.fell_off", wanted)


def test_a_file_of_the_name_of_the_nodes_kernel_log_is_an_ordinary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernel log").write_text(STEPS + XID.format("10:00:00"))
    monkeypatch.chdir(tmp_path)
    (reported,) = incidents(Path())
    assert reported["confidence"] == "medium"


@pytest.mark.parametrize(
    "line",
    [
        XID.format("09:59:50"),
        KILL.format("09:59:50"),
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python\n",
        "NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=python\n",
        "NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=python\n",
    ],
)
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OOM, "oom.cuda"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n", "oom.cuda"),
        ("Traceback (most recent call last):\nKeyError: 'label'\n", "python.exception"),
    ],
)
def test_a_printed_line_leads_over_no_error_of_its_own_rank(
    tmp_path: Path, line: str, error: str, code: str
) -> None:
    found = incidents(tmp_path, rank0=STEPS + line + error)
    assert found[0]["class"] == code


def test_a_printed_line_leads_over_what_its_fault_brings_about(tmp_path: Path) -> None:
    effect = "2026-11-22 09:59:58 [rank0]: torch.AcceleratorError: CUDA error: an illegal memory access\n"
    (reported,) = incidents(tmp_path, rank0=STEPS + XID.format("09:59:50") + effect)
    assert reported["class"] == "gpu.xid.fell_off"
