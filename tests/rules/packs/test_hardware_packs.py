"""What the packs for hardware, driver, memory and kernel take out of lines, and what ends their findings."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from gpuwatch.agent.logs.scanning.scanner import Scanner
from tests.packs import built_in_rules


def found(text: str) -> list[dict[str, Any]]:
    """The newest state of each finding."""
    numbers = itertools.count()
    scanner = Scanner(built_in_rules(), "kernel log", lambda: next(numbers))
    reported = [*scanner.feed(text.encode(), 0, 1.0), *scanner.end()]
    return list({each["id"]: each for each in reported}.values())


def of(rule: str, text: str) -> dict[str, Any]:
    (finding,) = [each for each in found(text) if each["rule"] == rule]
    return finding


@pytest.mark.parametrize(
    "before",
    [
        "[10442.100021] ",
        "[Wed Sep  4 13:01:22 2030] ",
        "Sep 04 13:01:22 gpu-8 kernel: ",
        "2030-09-04T13:01:22.100021+02:00 gpu-8 kernel: ",
        "<3>[10442.100021][ T9120] ",
        'fatal: [gpu-8] => {"msg": "',
    ],
)
def test_an_xid_names_its_gpu_and_process_behind_any_prefix(before: str) -> None:
    finding = of(
        "gpu.xid.fell_off", before + "NVRM: Xid (PCI:0000:9d:00): 79, pid=70211, name=pt_main, lost\n"
    )
    fields = finding["fields"]
    assert (fields["xid"], fields["bus_id"], fields["process"]) == (79, "0000:9d:00", "pt_main")
    assert finding["pid"] == 70211
    assert finding["severity"] == "critical"


def test_a_link_error_names_the_link_and_how_bad_it_is() -> None:
    finding = of("gpu.xid.nvlink", "NVRM: Xid (PCI:0009:01:00): 146, TLW_RX Nonfatal XC0 i0 Link 06 (0x1)\n")
    assert (finding["fields"]["fatal"], finding["fields"]["link"]) == ("Nonfatal", 6)
    assert finding["severity"] == "warning"


def test_a_switch_error_is_as_bad_as_its_own_word_and_reported_once() -> None:
    head = "nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 22013, "
    text = (
        head
        + "Fatal, Link 09 Minion Link DLREQ\n"
        + head
        + "Severity 1 Engine instance 09\n"
        + head
        + "Data {0x1}\n"
    )
    finding = of("gpu.nvswitch.sxid", text)
    assert finding["severity"] == "critical"
    assert (finding["fields"]["sxid"], finding["count"]) == (22013, 1)


def test_what_the_driver_wants_done_is_a_field() -> None:
    line = "NVRM: Xid (PCI:0000:9d:00): 154, GPU recovery action changed from 0x0 (None) to 0x{}\n"
    assert of("gpu.xid.recovery", line.format("3 (Drain P2P)"))["fields"]["action"] == "Drain P2P"
    done = of("gpu.xid.recovery", line.replace("0x0 (None)", "0x1 (GPU Reset Required)").format("0 (None)"))
    assert done["severity"] == "info"


def test_an_out_of_memory_tells_its_sizes() -> None:
    line = (
        "[rank6]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 6 has a total "
        "capacity of 79.20 GiB of which 802.00 MiB is free. Process 4100 has 12.00 GiB memory in use. Of the "
        "allocated memory 60.10 GiB is allocated by PyTorch, and 3.30 GiB is reserved by PyTorch but "
        "unallocated.\n"
    )
    finding = of("oom.cuda", line)
    fields = finding["fields"]
    assert finding["rank"] == 6
    assert (fields["size"], fields["device"], fields["total"], fields["free"]) == (
        "1.50 GiB",
        6,
        "79.20 GiB",
        "802.00 MiB",
    )
    assert (fields["other_pid"], fields["other_used"], fields["reserved"]) == (4100, "12.00 GiB", "3.30 GiB")


def test_the_kernels_victim_is_named_and_a_limit_is_not_the_machine() -> None:
    line = "ut of memory: Killed process 8123 (pt_data_worker) total-vm:9kB, anon-rss:7300kB, file-rss:1kB\n"
    finding = of("oom.host.kernel", "[9.000001] O" + line)
    assert (finding["pid"], finding["fields"]["victim"]) == (8123, "pt_data_worker")
    assert finding["fields"]["rss_kb"] == 7300
    assert {each["rule"] for each in found("[9.000001] Memory cgroup o" + line)} == {"oom.host.cgroup"}


def test_a_link_that_comes_up_again_closes_only_its_own_finding() -> None:
    text = (
        "mlx5_core 0000:3b:00.0 ens3f0np0: Link down\n"
        "mlx5_core 0000:3b:00.1 ens3f1np1: Link down\n"
        "mlx5_core 0000:3b:00.0 ens3f0np0: Link up\n"
    )
    down = [each for each in found(text) if each["rule"] == "net.nic.link"]
    assert {each["fields"]["device"]: each["closed"] for each in down if "closed" in each} == {
        "ens3f0np0": True
    }
    assert {each["fields"]["device"] for each in down} == {"ens3f0np0", "ens3f1np1"}


def test_a_processor_that_cools_down_closes_its_finding() -> None:
    text = (
        "mce: CPU12: Package temperature above threshold, cpu clock throttled (total events = 3)\n"
        "mce: CPU12: Package temperature/speed normal\n"
    )
    assert of("host.cpu_throttle", text)["closed"]


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("EDAC MC2: 3 CE memory read error on CPU_SrcID#1_MC#2_Chan#0_DIMM#1", "warning"),
        ("EDAC MC2: 1 UE memory read error on CPU_SrcID#1_MC#2_Chan#0_DIMM#1", "critical"),
        ("{2}[Hardware Error]: event severity: recoverable", "critical"),
        ("[Hardware Error]: Corrected error, no action required.", "warning"),
    ],
)
def test_repaired_and_lost_memory_are_distinguished(line: str, severity: str) -> None:
    assert of("kernel.mce", line + "\n")["severity"] == severity


@pytest.mark.parametrize(
    "line",
    [
        "        SRAM Uncorrectable                : 0",
        "amdgpu 0000:23:00.0: amdgpu: 0 uncorrectable hardware errors detected in sdma block",
        "nvidia-smi: GPU 3 temperature 61, power 402 W, ECC errors 0",
        "pcieport 0000:37:01.0: AER: enabled with IRQ 130",
        "EDAC MC: Ver: 3.0.0",
        "INFO: generated in a room full of zoom lenses, no oom here",
        "watchdog: soft lockup detector enabled",
        "    except (RuntimeError, torch.OutOfMemoryError):",
    ],
)
def test_healthy_lines_are_nothing(line: str) -> None:
    assert found(line + "\n") == []
