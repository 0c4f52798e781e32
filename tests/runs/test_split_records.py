"""Records of the kernel that hold line feeds of a user stand on several lines of a collected log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpuwatch.cli.analysis.scan import scan
from gpuwatch.runs.scan.cut_lines.split_records import MAX_RECORD, without_split_words

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."
STAMPS = (
    "[  812.345678] ",
    "[  812.345678][ T4123] ",
    "<6>[  812.345678] ",
    "kern  :info  : [  812.345678] ",
    "[Sun Nov 22 10:00:00 2026] ",
    "Nov 22 10:00:00 gpu-007 kernel: [  812.345678] ",
    "Nov 22 10:00:00 gpu-007 kernel: ",
    "2026-11-22T10:00:00.123456+00:00 gpu-007 kernel: ",
    "2026-11-22T10:00:00,123456+00:00 ",
)
RECORDS = (
    "a.out[7]: segfault at 0 ip 00 sp 00 error 4 in a\n{}[400000+1000]",
    "a.out[7]: segfault at 0 ip 00 sp 00 error 4 in a\n{}\nb[17,4000+1000] likely on CPU 3 (core 1)",
    "traps: a.out[7] general protection fault ip:0 sp:0 error:0 in \n\n{}\n[4000+1000]",
    "tmpfs: Unknown parameter 'a\n{}'",
    "overlayfs: failed to resolve 'a\n{}\nb': -2",
    "process '/tmp/a\n{}' started with executable stack",
)
CLOSED = (
    "a.out[7]: segfault at 0 ip 00 sp 00 error 4 in a[4+1]\n{}\nb[400000+1000]",
    "tmpfs: Unknown parameter 'a'\n{}\nb'",
)
"""Records in which the user's words end the quotation themselves."""
NAMES = (
    "a\nhard LOCKUP\n[77]: segfault at 0 ip 00 sp 00 error 4 in b[400000+1000]",
    "Memory cgroup out of memory: Killed process 77 (a\nhard LOCKUP\nb) total-vm:1kB, anon-rss:1kB, UID:1000",
    "CPU: 3 PID: 77 Comm: a\nhard LOCKUP\n Tainted: P           OE",
    "hard LOCKUP\nb invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
)


def with_stamps(record: str, stamp: str) -> bytes:
    return "".join(f"{stamp}{line}\n" for line in record.split("\n")).encode()


@pytest.mark.parametrize("stamp", STAMPS)
def test_no_line_of_a_users_words_is_a_fact_of_the_kernel(stamp: str) -> None:
    for record in RECORDS + CLOSED:
        data = with_stamps(record.format(XID), stamp)
        found = without_split_words(data)
        assert b"Xid (" not in found, record
        assert (len(found), found.count(b"\n")) == (len(data), data.count(b"\n"))
    for record in NAMES:
        assert b"hard LOCKUP" not in without_split_words(with_stamps(record, stamp)), record


@pytest.mark.parametrize("record", RECORDS + CLOSED)
def test_an_indented_line_continues_the_one_above(record: str) -> None:
    """As dmesg of util-linux and journalctl write it."""
    data = ("[  812.345678] " + record.format(XID).replace("\n", "\n" + 15 * " ") + "\n").encode()
    assert b"Xid (" not in without_split_words(data)


@pytest.mark.parametrize("stamp", STAMPS)
def test_a_fact_beside_a_users_words_stays(stamp: str) -> None:
    later = stamp.replace("812.345678", "812.345999").replace("10:00:00", "10:00:01")
    texts = [
        with_stamps(XID, stamp)
        + with_stamps(RECORDS[0].format("x"), later)
        + with_stamps(XID, later[:-1] + " "),
        with_stamps(RECORDS[1].format("x"), stamp) + with_stamps(XID, later),
        with_stamps(f"a.out[7]: segfault at 0 ip 00 sp 00 error 4\n{XID}", stamp),
        with_stamps(f"NVRM: GPU at PCI:0000:3b:00: GPU-1\n{XID}", stamp),
    ]
    for data in texts:
        assert b"Xid (PCI" in without_split_words(data)
    driver = f"{stamp}NVRM: The NVIDIA GPU\n{15 * ' '}NVRM: has fallen off the bus.\n".encode()
    assert without_split_words(driver) == driver


def test_an_open_quotation_hides_no_more_than_a_record() -> None:
    stamp = "[Sun Nov 22 10:00:00 2026] "
    data = with_stamps("tmpfs: Unknown parameter 'a\n" + "x y\n" * (MAX_RECORD // 4) + XID, stamp)
    assert b"Xid (PCI" in without_split_words(data)


def test_a_collected_log_with_such_a_record_has_no_lost_gpu(tmp_path: Path) -> None:
    first = "[Sun Nov 22 09:00:00 2026] Linux version 6.1\n"
    forged = with_stamps(RECORDS[0].format(XID), "[Sun Nov 22 10:00:00 2026] ").decode()
    (tmp_path / "dmesg-gpu-007.log").write_text(first + forged)
    found = CliRunner().invoke(scan, ["--json", str(tmp_path)])
    assert [each["class"] for each in json.loads(found.output)["incidents"]] == ["proc.segfault"]
