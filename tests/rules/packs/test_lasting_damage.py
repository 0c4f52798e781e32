"""Damage in a program's own words is found between training steps; the same words in harmless use are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.report.scan.report import judged
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan

LINES = [
    # (line, its class, a harmless line of the same words)
    ("accelerator 3 vanished from the host", "gpu.lost", "no accelerator vanished from the host"),
    ("6 of 8 GPUs answer, going on", "gpu.lost", "8 of 8 GPUs answer, going on"),
    ("GPU 1: 2 uncorrectable ECC errors", "gpu.memory_error", "GPU 1: 0 uncorrectable ECC errors"),
    ("GPU 4 is throttled by heat", "gpu.slowed", "GPU 4 is not throttled by heat"),
    ("mlx5_1 port 1 is down", "net.reported_down", "mlx5_1 port 1 is up"),
    ("PSU 2 of the chassis has failed", "host.part_failed", "PSU 2 of the chassis has 2100 W"),
    ("9 bad sectors on /dev/sdb", "storage.device", "disk sdb reports 0 bad sectors"),
    ("/data was remounted read-only", "storage.readonly", "/data was not remounted read-only"),
    ("checkpoint 900 was never committed", "ckpt.write_fail", "checkpoint 900 was committed"),
    ("checkpoint 800 is truncated", "ckpt.corrupt", "checkpoint 800 is truncated, taking 700 instead"),
    ("weight hashes differ on ranks 0 and 4", "num.replicas_differ", "weight hashes of ranks 0 and 4 match"),
    ("the test loss never recovered", "num.diverged", "the test loss recovered"),
    ("70 shards are missing", "data.samples_lost", "0 shards are missing"),
    ("world size is 2 but 16 was requested", "launch.too_few", "world size is 16 and 16 was requested"),
    ("proceeding with 15 of 16 nodes", "job.members_lost", "proceeding with 16 of 16 nodes"),
]  # fmt: skip


def found(folder: Path, lines: list[str]) -> list[Alert]:
    """What is reported, notes left out, of a log with these lines between four steps above and below them."""
    steps = [f"2026-03-02 10:00:{number:02d} INFO step {number} loss 2.{number}1" for number in range(8)]
    (folder / "rank_3.log").write_text("\n".join([*steps[:4], *lines, *steps[4:], ""]))
    packs = load_packs()
    report = judged(scan(gather([folder]), packs.all, "agent"), packs, 1_800_000_000.0, 0.1)
    alerts = [alert for incident in report.incidents for alert in incident.alerts] + list(report.outside)
    return [alert for alert in alerts if alert.severity != "info"]


def stamped(line: str) -> str:
    return f"2026-03-02 10:00:03 INFO {line}"


@pytest.mark.parametrize(("line", "code"), [each[:2] for each in LINES])
def test_steps_do_not_refute_damage(line: str, code: str, tmp_path: Path) -> None:
    assert {alert.code for alert in found(tmp_path, [stamped(line)])} == {code}


@pytest.mark.parametrize(
    ("counted", "damage"),
    [
        (
            'grep -c "Unable to determine the device handle for GPU" smi.log: %d',
            "Unable to determine the device handle for GPU%d: 0000:AB:00.0: Unknown Error",
        ),
        ("EDAC MC1: %d UE memory read error, 0 CE since boot", "EDAC MC1: %d UE memory read error on DIMM#0"),
        ("of 512 shards %d are corrupt (crc mismatch)", "of 512 shards %d are corrupt (crc mismatch)"),
    ],
)
def test_a_count_of_0_is_no_damage(counted: str, damage: str, tmp_path: Path) -> None:
    assert found(tmp_path, ["2026-03-02 10:00:03 " + counted % 0]) == []
    assert found(tmp_path, ["2026-03-02 10:00:03 " + damage % 3]) != []


SAMPLE = [
    "Q: it crashes",
    "Traceback (most recent call last):",
    '  File "train.py", line 12, in <module>',
    "    loss.backward()",
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23 GiB total)",
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
    "so reduce the batch size.",
]


@pytest.mark.parametrize(
    ("heading", "end"),
    [(">>> sample at step 40", "<<< end of sample"), ("----- generated text -----", "-----")],
)
def test_text_that_a_model_generated_is_no_event(heading: str, end: str, tmp_path: Path) -> None:
    assert found(tmp_path, [heading, *SAMPLE, end]) == []
    assert found(tmp_path, [heading, "Q: it crashes", end, *SAMPLE, "-----"]) != []
    assert found(tmp_path, [heading, *SAMPLE, "=" * 60, "train.py FAILED", "-" * 60]) != []


def test_the_same_words_in_harmless_use_are_no_damage(tmp_path: Path) -> None:
    assert found(tmp_path, [stamped(harmless) for _, _, harmless in LINES]) == []


@pytest.mark.parametrize(
    "lines",
    [
        ["checkpoint 900 could not be written", "saved checkpoint 901"],
        ["mlx5_1 port 1 is down", "mlx5_1 port 1 is up again"],
    ],
)
def test_a_later_line_that_makes_up_for_it_leaves_a_note(lines: list[str], tmp_path: Path) -> None:
    first, last = map(stamped, lines)
    assert found(tmp_path, [first]) != []
    assert found(tmp_path, [first, last.replace("10:00:03", "10:00:04")]) == []


@pytest.mark.parametrize(
    ("lost", "repaired"),
    [
        ("WARNING node gpu-17 is unreachable", "node gpu-17 is reachable again"),
        ("WARNING expert 7 on GPU 1 is out of sync", "expert 7 on GPU 1 is in sync"),
        ("WARNING wrote 0 of 64 shards", "WARNING wrote 64 of 64 shards"),
    ],
)
def test_a_loss_in_any_words_lasts_until_a_line_names_its_repair(
    lost: str, repaired: str, tmp_path: Path
) -> None:
    line, later = f"2026-03-02 10:00:03 {lost}", f"2026-03-02 10:00:04 {repaired}"
    (alert,) = found(tmp_path, [line])
    assert alert.severity == "warning"
    assert found(tmp_path, [line, later]) == []
    assert found(tmp_path, [line, later.replace("17", "18").replace("t 7", "t 8").replace("64", "32")]) != []


def test_an_error_line_that_denies_a_loss_stays_an_error_without_a_rule(tmp_path: Path) -> None:
    (alert,) = found(tmp_path, ["2026-03-02 10:00:09 ERROR no GPU has fallen off the bus"])
    assert alert.code == "rank.error_unexplained"


def test_conditional_prose_and_the_log_of_a_passed_test_are_no_events(tmp_path: Path) -> None:
    assert found(tmp_path, ["If the loss is nan for 50 steps, restart from the last checkpoint."]) == []
    captured = "ERROR    ckpt:ckpt.py:88 cannot write /tmp/x: [Errno 28] No space left on device"
    heading = "----- captured log of test_disk_full (passed) -----"
    assert found(tmp_path, [heading, captured, captured]) == []
    assert found(tmp_path, [captured]) != []


def test_a_rank_that_finds_its_local_loss_not_finite_is_named_with_its_node(tmp_path: Path) -> None:
    line = "Rank 27, node dgx-17, device 3, iteration 14211: Unexpected result nan "
    line += "(message='found NaN in local forward loss calculation')"
    (nan,) = (each for each in found(tmp_path, [f"[rank27]: RuntimeError: {line}"]) if "nan" in each.code)
    assert (nan.rank, nan.node) == (27, "dgx-17")
