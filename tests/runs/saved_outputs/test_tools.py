"""Outputs of NVIDIA's tools among logs: GPU, node and class of what they report, nothing of healthy ones."""

from __future__ import annotations

import gzip
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.report.scan.report import ScanReport, judged
from gpuwatch.rules.load import Packs, load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.saved_outputs.sections import ToolSections
from gpuwatch.runs.scan.scan import scan
from tests.counted_calls import calls_of
from tests.tool_outputs import dcgm, report, smi
from tests.tool_outputs.smi import DRIVERS, Driver

NODE = "gpu-b03"
BUS = [gpu.bus for gpu in smi.eight()]


@pytest.fixture(scope="module")
def packs() -> Packs:
    return load_packs()


def alerts(reported: ScanReport) -> list[Alert]:
    return [*reported.outside, *(alert for incident in reported.incidents for alert in incident.alerts)]


def read(folder: Path, packs: Packs, lines: Sequence[str], name: str = f"{NODE}/smi.txt") -> ScanReport:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return judged(scan(gather([folder]), packs.rules, "agent"), packs, time.time(), 0.1)


def facts(reported: ScanReport) -> set[tuple[str, str, str | None, int | None]]:
    return {(each.code, each.severity, each.node, each.gpu) for each in alerts(reported)}


QUERIES = {
    "470": [
        ("DRAM Uncorrectable", "3", "gpu.xid.ecc", "critical"),
        ("HW Thermal Slowdown", "Active", "gpu.throttled", "error"),
        ("Remapped Rows/Pending", "Yes", "gpu.remap_pending", "warning"),
        ("Pending Page Blacklist", "Yes", "gpu.remap_pending", "warning"),
    ],
    "535": [
        ("SRAM Uncorrectable", "1", "gpu.xid.ecc", "critical"),
        ("HW Power Brake Slowdown", "Active", "gpu.throttled", "error"),
        ("Clocks Event Reasons/SW Thermal Slowdown", "Active", "gpu.throttled", "warning"),
        ("Remapping Failure Occurred", "Yes", "gpu.remap_pending", "critical"),
        ("Reset Required", "Yes", "gpu.lost", "critical"),
        ("Drain and Reset Recommended", "Yes", "gpu.xid.recovery", "critical"),
    ],
    "550": [
        ("SRAM Uncorrectable Parity", "2", "gpu.xid.ecc", "critical"),
        ("SRAM Threshold Exceeded", "Yes", "gpu.xid.ecc", "error"),
        ("GPU Current Temp", "GPU requires reset", "gpu.lost", "critical"),
        ("HW Slowdown", "Active", "gpu.throttled", "error"),
    ],
    "570": [
        ("GPU Recovery Action", "Reset", "gpu.xid.recovery", "critical"),
        ("Channel Repair Pending", "Yes", "gpu.remap_pending", "warning"),
        ("Performance State", "Unknown Error", "gpu.lost", "critical"),
        ("Power Draw", "[GPU is lost]", "gpu.lost", "critical"),
    ],
}  # type: dict[Driver, list[tuple[str, str, str, str]]]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("driver", "key", "value", "code", "severity"),
    [(driver, *case) for driver, cases in QUERIES.items() for case in cases],
)
def test_a_query_tells_gpu_node_and_class(
    tmp_path: Path, packs: Packs, driver: Driver, key: str, value: str, code: str, severity: str
) -> None:
    reported = read(tmp_path, packs, smi.query(driver, smi.eight(gpu3={key: value})))
    assert facts(reported) == {(code, severity, NODE, 3)}
    (alert,) = alerts(reported)
    assert alert.fields["bus_id"] == BUS[3]
    assert alert.timed
    assert alert.first == time.mktime(time.strptime(smi.DATE))


def test_a_recovery_action_that_nothing_explains_leads(tmp_path: Path, packs: Packs) -> None:
    reported = read(tmp_path, packs, smi.query("570", smi.eight(gpu3={"GPU Recovery Action": "Reset"})))
    (incident,) = reported.incidents
    assert (incident.code, incident.node, incident.gpu) == ("gpu.xid.recovery", NODE, 3)
    both = {"GPU Recovery Action": "Reset", "DRAM Uncorrectable": "1"}
    (incident,) = read(tmp_path, packs, smi.query("570", smi.eight(gpu3=both))).incidents
    assert (incident.code, incident.gpu) == ("gpu.xid.ecc", 3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("driver", DRIVERS)
def test_healthy_outputs_raise_nothing(tmp_path: Path, packs: Packs, driver: Driver) -> None:
    (tmp_path / "notes").mkdir()
    read(tmp_path, packs, smi.query(driver, smi.eight()), "gpu-1/q.log")
    read(tmp_path, packs, smi.table(driver, {5: "N/A", 6: "Off"}), "gpu-1/smi.log")
    read(tmp_path, packs, dcgm.diag(), "gpu-1/dcgm.log")
    read(tmp_path, packs, dcgm.health(), "gpu-1/health.log")
    reported = read(tmp_path, packs, report.bug_report([], smi.query(driver, smi.eight())), "report.log.gz")
    assert facts(reported) == set()
    assert not reported.has_problems


@pytest.mark.parametrize("driver", DRIVERS)
def test_errors_of_the_gpus_life_are_a_note(tmp_path: Path, packs: Packs, driver: Driver) -> None:
    old = {"Aggregate/DRAM Uncorrectable": "12", "Remapped Rows/Uncorrectable Error": "2"}
    reported = read(tmp_path, packs, smi.query(driver, smi.eight(gpu6=old)))
    assert facts(reported) == {("gpu.ecc_history", "info", NODE, 6)}
    assert not reported.has_problems


@pytest.mark.parametrize(
    ("volatile", "pending", "expected"),
    [
        ("0", "No", {("gpu.ecc_history", "info")}),
        ("0", "Yes", {("gpu.ecc_history", "info"), ("gpu.remap_pending", "warning")}),
        ("2", "No", {("gpu.xid.ecc", "critical")}),
    ],
)
def test_double_bits_and_retired_pages_of_one_gpu_of_four(
    tmp_path: Path, packs: Packs, volatile: str, pending: str, expected: set[tuple[str, str]]
) -> None:
    text = smi.VOLTA.format(volatile=volatile, pending=pending)
    reported = read(tmp_path, packs, text.split("\n"))
    assert facts(reported) == {(code, severity, NODE, 2) for code, severity in expected}


def test_a_text_that_lost_its_indentation_or_has_prefixes_is_read_too(tmp_path: Path, packs: Packs) -> None:
    lines = smi.query(
        "550", smi.eight(gpu1={"DRAM Uncorrectable": "4"}, gpu2={"Remapped Rows/Pending": "Yes"})
    )
    expected = {("gpu.xid.ecc", "critical", 1), ("gpu.remap_pending", "warning", 2)}
    for name, node, changed in (
        ("flat", NODE, [line.strip() for line in lines]),
        ("crlf", NODE, [f"{line}\r" for line in lines]),
        ("pdsh", "gpu-c07", [f"gpu-c07: {line}" for line in lines]),
        ("prompt", "gpu-d09", ["[root@gpu-d09 ~]# nvidia-smi -q", *lines, "[root@gpu-d09 ~]# "]),
    ):
        inner = f"{name}/{NODE}/q.txt" if node == NODE else f"{name}/all/q.txt"
        reported = read(tmp_path / name, packs, changed, inner)
        assert facts(reported) == {(code, severity, node, gpu) for code, severity, gpu in expected}, name


def test_lines_of_two_hosts_in_turn_are_distinguished(tmp_path: Path, packs: Packs) -> None:
    one = smi.query("570", smi.eight(gpu0={"GPU Recovery Action": "Reboot"}))
    other = smi.query("570", smi.eight(gpu7={"HW Thermal Slowdown": "Active"}))
    lines = [line for a, b in zip(one, other, strict=True) for line in (f"gpu-c01: {a}", f"gpu-c02: {b}")]
    reported = read(tmp_path, packs, lines, "pdsh.log")
    assert facts(reported) == {
        ("gpu.xid.recovery", "critical", "gpu-c01", 0), ("gpu.throttled", "error", "gpu-c02", 7),
    }  # fmt: skip


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_table_tells_broken_gpus_and_volatile_errors(
    tmp_path: Path, packs: Packs, driver: Driver
) -> None:
    reported = read(tmp_path, packs, smi.table(driver, {2: "17"}, broken=[5]))
    assert facts(reported) == {("gpu.xid.ecc", "critical", NODE, 2), ("gpu.lost", "critical", NODE, 5)}


def test_a_table_printed_every_ten_seconds_is_one_finding(tmp_path: Path, packs: Packs) -> None:
    reported = read(tmp_path, packs, smi.table("535", {}, broken=[5]) * 20)
    assert facts(reported) == {("gpu.lost", "critical", NODE, 5)}
    (alert,) = alerts(reported)
    assert alert.count == 20


HANDLE = "Unable to determine the device handle for"
LINES = [
    (f"{HANDLE} GPU 0000:4C:00.0: GPU is lost.", "gpu.lost", None, "0000:4C:00.0"),
    (f"{HANDLE} GPU0000:4C:00.0: Unknown Error", "gpu.lost", None, "0000:4C:00.0"),
    (f"{HANDLE} GPU3: 0000:4C:00.0: Unknown Error", "gpu.lost", 3, "0000:4C:00.0"),
    ("3, 00000000:4C:00.0, 41, [GPU requires reset]", "gpu.lost", 3, "00000000:4C:00.0"),
    ("No devices were found", "gpu.driver_down", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("line", "code", "gpu", "bus"), LINES)
def test_a_tool_that_gives_up_in_one_line_tells_its_gpu(
    tmp_path: Path, packs: Packs, line: str, code: str, gpu: int | None, bus: str | None
) -> None:
    (alert,) = alerts(read(tmp_path, packs, ["index, pci.bus_id, temperature.gpu", line]))
    assert (alert.code, alert.node, alert.gpu, alert.fields.get("bus_id")) == (code, NODE, gpu, bus)


def test_topology_and_links_raise_nothing(tmp_path: Path, packs: Packs) -> None:
    topology = [
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity",
        "GPU0\t X \tNV12\tPXB\t0-63",
        "GPU1\tNV12\t X \tSYS\t64-127",
    ]
    links = ["GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)", "\t Link 0: 25 GB/s", "\t Link 1: <inactive>"]
    counters = [f"\t Link {link}: {name} Errors: 0" for link in range(4) for name in ("Replay", "CRC")]
    reported = read(tmp_path, packs, [*topology, *links, links[0], *counters])
    assert facts(reported) == set()


REMAP = (
    "GPU 3 has uncorrectable memory errors and row remappings are pending. Drain the GPU and reset it or "
    "reboot the node."
)
DIAGS = [
    (dcgm.diag([("GPU Memory", "Fail - GPU: 0", "")]), "gpu.diag_failed", [0]),
    (dcgm.diag([("Targeted Stress", "Fail - GPUs: 2, 5", "")]), "gpu.diag_failed", [2, 5]),
    (dcgm.diag([("Page Retirement/Row Remap", "Fail", REMAP)]), "gpu.remap_pending", [3]),
    (dcgm.diag([("GPU Memory", "Fail - GPU: 6", "GPU 6 detected a DBE: 2 errors.")]), "gpu.xid.ecc", [6]),
    (
        dcgm.diag([("Targeted Power", "Fail - GPU: 1", "Thermal violations of GPU 1: 4.2 s")]),
        "gpu.throttled",
        [1],
    ),
    (
        dcgm.diag(
            [
                ("GPU Memory", "Fail - GPU: 2", "Thermal violations of GPU 2: 88 s"),
                ("Targeted Power", "Fail - GPU: 2", ""),
            ]
        ),
        "gpu.diag_failed",
        [2, 2],
    ),
    (dcgm.diag_4("memory", 3, REMAP), "gpu.remap_pending", [3]),
    (dcgm.diag_4("pcie", 2, "Error counters are above their limits"), "gpu.diag_failed", [2]),
    (dcgm.health(4, "Memory system", REMAP.replace("GPU 3", "GPU 4")), "gpu.remap_pending", [4]),
    (dcgm.health(7, "NVLink system", "GPU 7 has NVLink 3 down."), "gpu.xid.nvlink", [7]),
    (dcgm.health(1, "PCIe system", "Detected XID 79 on GPU 1"), "gpu.xid.fell_off", [1]),
]


@pytest.mark.parametrize(("lines", "code", "gpus"), DIAGS)
def test_dcgm_tells_the_gpus_that_failed_and_why(
    tmp_path: Path, packs: Packs, lines: list[str], code: str, gpus: list[int]
) -> None:
    reported = read(tmp_path, packs, lines, f"{NODE}/dcgm.txt")
    assert {(each.code, each.node, each.gpu) for each in alerts(reported)} == {
        (code, NODE, gpu) for gpu in gpus
    }
    assert reported.incidents


KERNEL = [
    "[   12.100000] nvidia: module verification failed: signature and/or required key missing",
    "[88123.456789] NVRM: Xid (PCI:0000:87:00): 79, pid=90217, name=python, GPU has fallen off the bus.",
]


@pytest.mark.parametrize(
    "name", ["nvidia-bug-report.log", "nvidia-bug-report.log.gz", "case-8831/report.txt"]
)
def test_a_bug_report_tells_of_its_kernel_log_and_its_query_and_of_nothing_else(
    tmp_path: Path, packs: Packs, name: str
) -> None:
    query = smi.query("535", smi.eight(gpu1={"Remapped Rows/Pending": "Yes"}))
    reported = read(tmp_path, packs, report.bug_report(KERNEL, query), name)
    assert facts(reported) == {
        ("gpu.xid.fell_off", "critical", report.NODE, 4), ("gpu.remap_pending", "warning", report.NODE, 1),
    }  # fmt: skip
    (incident,) = reported.incidents
    assert (incident.code, incident.node, incident.gpu) == ("gpu.xid.fell_off", report.NODE, 4)


@pytest.mark.parametrize("name", ["smi.md", "gpu-b03.csv", "query.yaml", "state.json"])
def test_an_output_counts_whatever_its_file_is_called(tmp_path: Path, packs: Packs, name: str) -> None:
    lines = smi.query("550", smi.eight(gpu3={"Reset Required": "Yes"}))
    assert {each.code for each in alerts(read(tmp_path, packs, lines, f"{NODE}/{name}"))} == {"gpu.lost"}
    (tmp_path / "README.md").write_text("# Notes\n" * 400 + "\n".join(lines))
    assert len(gather([tmp_path]).files) == 1


def test_what_a_job_logs_after_a_tools_output_is_still_searched(tmp_path: Path, packs: Packs) -> None:
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    for number, output in enumerate((smi.query("570", smi.eight()), smi.table("470", {}), dcgm.diag())):
        lines = ["starting", *output, "epoch 1 begins", "ERROR : retry", error]
        reported = read(tmp_path / str(number), packs, lines, "train.log")
        assert "oom.cuda" in {each.code for each in alerts(reported)}


def test_pieces_cut_anywhere_give_the_same() -> None:
    lines = report.bug_report(KERNEL, smi.query("550", smi.eight(gpu2={"DRAM Uncorrectable": "1"})))
    data = "\n".join([*lines, *smi.table("535", {1: "2"})]).encode()

    def through(size: int) -> tuple[bytes, object]:
        sections, seen = ToolSections(), b""
        for at in range(0, len(data), size):
            left, offset = sections.feed(data[at : at + size], at)
            assert offset == len(seen)
            seen += left
        seen += sections.end()[0]
        return seen, (sections.found, sections.gpus, sections.node)

    whole = through(len(data))
    assert len(whole[0]) == len(data)
    assert whole[1] == through(4096)[1] == through(97)[1]
    assert whole[0] == through(4096)[0] == through(97)[0]


def test_a_long_report_takes_linear_time() -> None:
    def cost(copies: int) -> float:
        """Calls per byte."""
        lines = report.bug_report(KERNEL * 500, smi.query("570", smi.eight() * 8) * copies)
        data, sections = "\n".join(lines).encode(), ToolSections()

        def read() -> None:
            for at in range(0, len(data), 1 << 16):
                sections.feed(data[at : at + (1 << 16)], at)
            sections.end()

        return calls_of(read) / len(data)

    assert cost(8) < 1.5 * cost(2)
