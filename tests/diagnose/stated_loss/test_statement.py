"""Sentences that state a lasting loss in words that no rule has, each with a harmless relative."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.stated_loss.statement import stated_loss

STATED = [
    # (line, class, a harmless line of like words)
    ("WARNING NVLink 3 on GPU 1 is down, using 17 links", "gpu.nvlink_inactive", "NVLink 3 on GPU 1 is up"),
    ("WARNING only 3 of 4 rails are up", "net.reported_down", "4 of 4 InfiniBand rails are up"),
    ("WARNING NIC mlx5_0 stays offline", "net.reported_down", "NIC mlx5_0 was offline and is back"),
    ("Power Supply 2: failure detected", "host.part_failed", "Supply 2: failure detected: Deasserted"),
    ("chassis fan 3 has stopped (0 RPM)", "host.part_failed", "chassis fan 3 has not stopped (8400 RPM)"),
    ("raid array md0 is degraded: 7 of 8 drives", "storage.lost", "raid array md0 is clean: 8 of 8 drives"),
    ("WARNING GPU 2 was excluded from the job", "gpu.lost", "WARNING no GPU was excluded from the job"),
    ("no GPU was found", "cuda.no_device", "8 GPUs were found, not training on the CPU"),
    ("WARNING no checkpoint will be written", "ckpt.write_fail", "a checkpoint will be written every hour"),
    ("wrote 0 of 64 shards to /ckpt/9", "ckpt.write_fail", "wrote 64 of 64 shards to /ckpt/9"),
    ("WARNING saved 12 of 16 shards", "ckpt.write_fail", "saved 12 of 16 shards"),
    ("the optimizer state is left out", "ckpt.write_fail", "the optimizer state is in this save"),
    ("the newest checkpoint is 26 hours old", "ckpt.write_fail", "the newest checkpoint is 2 minutes old"),
    ("WARNING checkpoint 8 is truncated", "ckpt.corrupt", "WARNING no checkpoint is truncated"),
    ("WARNING 212 of 1000 shards are unreadable", "data.samples_lost", "0 of 1000 shards are unreadable"),
    ("position of the sampler is lost", "data.samples_lost", "position of the sampler is restored"),
    ("validation was left out, its scores are incomplete", "metrics.lost", "validation was not left out"),
    ("contamination: 400 of 900 test examples", "metrics.lost", "contamination: 0 of 900 test examples"),
    ("WARNING model is not wrapped in DDP", "num.replicas_differ", "model is wrapped in DDP"),
    ("expert 4 is stale on 2 replicas", "num.replicas_differ", "expert 4 is in sync on 2 replicas"),
    ("weights differ between rank 0 and 5", "num.replicas_differ", "seeds differ between rank 0 and 5"),
    ("each rank updates its own weights", "num.replicas_differ", "each rank updates the same weights"),
    ("world size is 1 but 8 was requested", "launch.too_few", "world size is 8 and 8 was requested"),
    ("expected 16 nodes, only 15 joined", "launch.too_few", "expected 16 nodes, 16 joined"),
    ("node gpu-17 is unreachable, 31 remain", "job.members_lost", "of 32 nodes 0 are unreachable"),
    ("lost host-c, going on with 3 of 4 nodes", "job.members_lost", "lost no host, going on with 4 of 4"),
    ("pod llm-3 was evicted", "job.members_lost", "pod llm-3 was evicted and is rescheduled"),
    ("master.weight holds 12 NaN values", "num.values_nan", "master.weight holds 0 NaN values"),
    ("no gradients for 120 of 120 parameters", "train.no_effect", "no gradients for 0 of 120 parameters"),
    ("all layers are frozen, nothing is updated", "train.no_effect", "the frozen encoder is not updated"),
    ("ERROR the feature cache is gone", "job.loss_reported", "the feature cache is gone"),
]  # fmt: skip
NAMES = [
    ".gpu", "gpu", "nvlink", "port", "link", "fan", "disk", "nfs", "raid0", "node", "worker-3", "checkpoint",
    "ckpt", "iter_100", "scratch", "replicas", "pod", "data", "model",
]  # fmt: skip
"""Nouns of all classes, as names of folders."""
HARMLESS = [
    "WARNING loaded 3 of 8 checkpoint shards",
    "WARNING 3 of 4000000 records are corrupt and were skipped",
    "WARNING flash attention is unavailable, using sdpa",
    "WARNING the fast tokenizer is missing, using the slow one",
    "WARNING P2P is disabled between GPU 0 and GPU 4",
    "WARNING checkpoint step_100 was removed (keep last 3)",
    "WARNING upload of step 300 failed, retrying",
    "WARNING data loader worker 3 died and was restarted",
    "WARNING nodes that are down for 600 s are excluded",
    "WARNING if an NVSwitch is missing, all-to-all goes through the host",
    "ERROR Failed to read image file format.",
    "ERROR Task failed with exception",
    "ERROR connection to the other side was lost",
    "INFO node gpu-17 is unreachable",
]


@pytest.mark.parametrize(("line", "code"), [each[:2] for each in STATED])
def test_a_lasting_loss_has_the_class_of_what_is_lost(line: str, code: str) -> None:
    loss = stated_loss(f"2026-03-02 10:00:03 {line}")
    assert loss is not None
    assert loss.code == code


def test_harmless_sentences_state_no_loss() -> None:
    lines = [harmless for *_, harmless in STATED] + HARMLESS
    assert [line for line in lines if stated_loss(f"2026-03-02 10:00:03 {line}") is not None] == []
    assert stated_loss('    message: "worker 3 is lost"') is None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("between", ["0000:3b:00.0 ", "block: [7,0,0], ", "of a1 at b2 ", "is: ", "'x' of "])
def test_a_long_way_between_noun_and_predicate_is_read_once(between: str) -> None:
    assert stated_loss(f"WARNING GPU 3 {between * 300}x is down") is None


@pytest.mark.parametrize("name", NAMES)
def test_the_folder_of_a_program_is_no_subject(name: str) -> None:
    """torchrun prints `PATH FAILED` above the table of its ranks."""
    for path in (
        f"/home/ann/{name}/train.py",
        f"./{name}/run.sh",
        f"{name}/{name}/main.py",
        f"jobs/{name}.sbatch",
    ):
        for line in (f"{path} FAILED", f"ERROR {path} failed", f"WARNING {path} is gone"):
            found = stated_loss(line)
            assert found is None or found.code == "job.loss_reported", (line, found)


def test_a_path_is_a_subject_of_storage_and_saved_state_only() -> None:
    for line, code in (
        ("WARNING /mnt/scratch is gone", "storage.lost"),
        ("ERROR checkpoint /data/gpu/step_100.pt is truncated", "ckpt.corrupt"),
        ("ERROR GPU 3 of /data/gpu/node is dead", "gpu.lost"),
    ):
        found = stated_loss(line)
        assert found is not None
        assert found.code == code
