"""Screen 6 as data: who speaks, how far, how fast, how the ranks compare; what is unknown stays unknown."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import replace

from gpuwatch import wire
from gpuwatch.diagnose.training.job_view.build import jobs_of, received_from
from gpuwatch.diagnose.training.job_view.facts import spread, step_times
from gpuwatch.diagnose.training.job_view.mfu import flops_per_token, mfu, scope_of
from gpuwatch.diagnose.training.job_view.rank_placement import MAX_JOBS, RankPlacement
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import Model
from gpuwatch.rules.built_in import built_in_dialects
from gpuwatch.rules.load import load_packs
from gpuwatch.telemetry.training.flops import PEAKS, peak_flops
from tests.diagnose.training.reported_job import H100, NOW, WALL, Job
from tests.sentences import Sentences


def test_a_job_of_which_rank_0_alone_speaks() -> None:
    job = Job()
    job.gpus()
    for step in range(1, 41):
        fields = {"loss": 3.0, "step_time_s": 2.0, "total_steps": 1000.0, "tokens_per_s": 8000.0}
        job.report(0, step, NOW - (40 - step) * 2.0, **fields)
    made = job.facts(NOW + 1)
    assert (made.ranks_seen, made.world, made.gpus, made.nodes, made.speaker_rank) == (8, 8, 8, 2, 0)
    assert made.speaking == 1
    assert made.gpu_name == H100
    assert made.facts["step"].value == 40
    assert made.facts["step"].age_s(NOW + 1) == 1.0
    assert made.facts["eta_s"].computed
    assert made.facts["eta_s"].value == pytest.approx(960 * 2.0 - 1.0)
    assert made.times is not None
    assert (made.times.count, made.times.p50) == (40, 2.0)
    assert made.gap_s == pytest.approx(2.0)
    silent = made.rows[5]
    assert (silent.step, silent.lag, silent.step_s, silent.tokens_per_s) == (None, None, None, None)
    assert silent.clock_mhz == 1980
    assert not silent.flags
    assert "step_s" not in made.spreads


def stepped(job: str, file: str, step: int = 1) -> wire.Progress:
    return wire.Progress(
        t=WALL,
        seq=3,
        file=file,
        offset=step,
        at=WALL,
        job=job,
        dialect="progress.common",
        fields={"step": step},
    )


def test_unknown_values_are_none() -> None:
    job = Job()
    made = job.facts()
    assert made.speaker is None
    assert not made.facts
    assert made.times is None
    assert made.job_tokens_per_s is None
    row = made.rows[0]
    values = (row.memory_bytes, row.clock_mhz, row.power_w, row.temperature_c, row.throttle_pct, row.wrote_at)
    assert values == (None,) * 6


def test_a_slow_rank_stands_out_and_the_spread_says_by_how_much() -> None:
    """Document 001, line 164; document 004, line 316."""
    job = Job()
    hot = wire.GpuFast(
        t=WALL,
        memory_used_bytes=70 << 30,
        sm_clock_mhz=1095,
        throttle_pct={"thermal": 92.0, "power_cap": 0.0},
    )
    job.gpus(n1_2=hot)
    job.tell_all(20, step_time_s=2.0)
    made = job.facts()
    clock = made.spreads["clock_mhz"]
    assert clock.flagged
    assert clock.imbalance == pytest.approx((1980 - 1095) / ((7 * 1980 + 1095) / 8))
    assert {row.rank: row.flags for row in made.rows if row.flags} == {6: {"clock_mhz", "throttle"}}
    assert not made.spreads["step_s"].flagged


def test_ranks_whose_stamps_are_whole_seconds_take_equally_long() -> None:
    job = Job()
    for step in range(1, 41):
        for rank in range(job.world):
            job.report(rank, step, NOW + math.floor((step - 40) * 1.4 + 0.11 * rank))
    made = job.facts()
    assert all(row.step_s == pytest.approx(1.4, rel=0.04) for row in made.rows)
    assert not made.spreads["step_s"].flagged


def test_memory_may_differ_by_a_fifth() -> None:
    """Document 001, line 164."""

    def memory(gib: int) -> wire.GpuFast:
        return wire.GpuFast(t=WALL, memory_used_bytes=gib << 30)

    job = Job()
    job.gpus(n0_0=memory(60))
    assert not job.facts().spreads["memory_bytes"].flagged
    job.gpus(n0_0=memory(30))
    made = job.facts()
    assert made.spreads["memory_bytes"].flagged
    assert made.rows[0].flags == {"memory_bytes"}


def test_lag_counts_from_the_furthest_and_one_reported_step_is_none() -> None:
    job = Job()
    for step in (10, 20, 30, 40):  # a log that tells every tenth step
        for rank in range(8):
            if rank != 3 or step < 20:
                job.report(rank, step, NOW - (40 - step) / 10 * 2.0)
    job.report(7, 50, NOW)
    made = job.facts()
    assert [row.lag for row in made.rows] == [10, 10, 10, 40, 10, 10, 10, 0]
    assert [row.rank for row in made.rows if "lag" in row.flags] == [3]


def test_a_log_that_went_silent_among_others_that_go_on_stands_out() -> None:
    job = Job()
    job.tell_all(20)
    for step in range(21, 41):
        for rank in range(8):
            if rank != 5:
                job.report(rank, step, NOW + (step - 20) * 2.0)
    made = job.facts(NOW + 40)
    assert "log" in made.rows[5].flags
    assert not any("log" in row.flags for row in made.rows if row.rank != 5)


def test_the_log_s_age_is_counted_on_our_clock() -> None:
    job = Job(nodes=1, offset_s=100.0)
    files = [wire.LogFile("/logs/2.log", grown_at=WALL + 100.0 - 7.0, ranks=[2], pids=[102])]
    job.put("n0", wire.Logs(t=WALL, seq=4, files=files))
    made = job.facts()
    assert made.rows[2].wrote_at == pytest.approx(NOW - 7.0)
    assert made.rows[1].wrote_at is None


def test_when_steps_stop_numbers_grow_late_and_there_is_no_eta() -> None:
    job = Job()
    job.gpus()
    job.tell_all(30, total_steps=100.0, step_time_s=2.0)
    made = job.facts(NOW + 60)
    assert made.late(made.stepped_at, NOW + 60)
    assert "eta_s" not in made.facts
    assert all(row.reported_late and row.gpu_late for row in made.rows)
    assert "clock_mhz" not in made.spreads, "GPU values that old are compared with nothing"


def test_mfu_is_computed_where_model_and_gpus_are_known() -> None:
    model = Model(13e9, tokens_per_s="job")
    job = Job(model=model)
    job.gpus()
    job.report(0, 5, NOW, tokens_per_s=40_000.0)
    made = job.facts()
    assert made.facts["mfu"].computed
    assert made.facts["mfu"].value == pytest.approx(6 * 13e9 * 40_000 / (8 * 989.5e12))
    job.report(0, 6, NOW, tokens_per_s=40_000.0, mfu=0.41)
    reported = job.facts().facts["mfu"]
    assert (reported.value, reported.computed) == (0.41, False)


def test_the_person_s_own_peak_goes_before_the_table(sentences: Sentences) -> None:
    job = Job(model=Model(13e9, tokens_per_s="job", peak_tflops=1979))
    job.report(0, 5, NOW, tokens_per_s=40_000.0)
    assert job.facts().facts["mfu"].value == pytest.approx(6 * 13e9 * 40_000 / (8 * 1979e12))
    elsewhere = Job()
    elsewhere.fleet = Fleet(job.fleet.plan)
    elsewhere.report(0, 5, NOW, tokens_per_s=40_000.0)
    sentences(elsewhere.facts().why_no_mfu)


def test_mfu_says_what_it_lacks(sentences: Sentences) -> None:
    """Document 001, line 292."""
    job = Job()
    job.report(0, 5, NOW, tokens_per_s=40_000.0)
    sentences(job.facts().why_no_mfu)
    job = Job(model=Model(13e9))
    job.report(0, 5, NOW, tokens_per_s=40_000.0)
    sentences(job.facts().why_no_mfu)
    assert "mfu" not in job.facts().facts
    job.report(0, 6, NOW)
    job.fleet.progress.writers.clear()
    job.report(0, 7, NOW)
    assert job.facts().why_no_mfu == "no tokens/s logged"


def test_a_wrong_model_gives_no_mfu_over_the_peak(sentences: Sentences) -> None:
    job = Job(model=Model(13e12, tokens_per_s="job"))
    job.gpus()
    job.report(0, 5, NOW, tokens_per_s=40_000.0)
    assert "mfu" not in job.facts().facts
    sentences(job.facts().why_no_mfu)


def test_samples_become_tokens_and_tflops_become_mfu() -> None:
    job = Job(model=Model(7e9, seq_len=4096, tokens_per_s="job"))
    job.report(0, 5, NOW, samples_per_s=10.0)
    made = job.facts()
    assert made.job_tokens_per_s is not None
    assert made.job_tokens_per_s.value == 40_960
    assert made.facts["tokens_per_s"].computed
    job = Job()
    job.dialect = "megatron"
    job.report(7, 5, NOW, tflops=400.0)
    assert job.facts().facts["mfu"].value == pytest.approx(400 / 989.5)


def test_whose_tokens_a_log_tells() -> None:
    dialects = built_in_dialects()
    assert scope_of(dialects["progress.torchtitan"], 1, None) == "gpu"
    assert scope_of(dialects["progress.nanotron"], 1, None) == "job"
    assert scope_of(dialects["progress.common"], 8, None) == "gpu"
    assert scope_of(dialects["progress.common"], 1, None) is None
    assert scope_of(None, 1, None) is None
    assert scope_of(dialects["progress.torchtitan"], 1, Model(1e9, tokens_per_s="job")) == "job"


OWN_DIALECT = """
- id: progress.ours
  kind: progress
  title: Our trainer
  match: 'frobnicated (?P<step>\\d+) batches'
  tokens_of: {tokens_of}
  tflops_of: {tflops_of}
  examples: [{{line: 'frobnicated 5 batches', gives: {{step: 5}}}}]
"""


@pytest.mark.parametrize(
    ("tokens_of", "tflops_of", "whole", "share"),
    [("gpu", "job", 8 * 500.0, 400 / 8 / 989.5), ("job", "gpu", 500.0, 400 / 989.5)],
)
def test_a_sites_own_dialect_states_what_its_rates_are_of(
    tokens_of: str, tflops_of: str, whole: float, share: float, tmp_path: Path
) -> None:
    pack = tmp_path / "site.yaml"
    pack.write_text(OWN_DIALECT.format(tokens_of=tokens_of, tflops_of=tflops_of))
    job = Job(packs=load_packs([pack]))
    job.dialect = "ours"
    job.report(0, 5, NOW, tokens_per_s=500.0, tflops=400.0)
    made = job.facts()
    assert made.job_tokens_per_s is not None
    assert made.job_tokens_per_s.value == whole
    assert made.facts["mfu"].value == pytest.approx(share)


def test_attention_counts_where_the_shape_is_known() -> None:
    model = Model(13e9, layers=40, hidden=5120, seq_len=8192)
    assert flops_per_token(model) == 6 * 13e9 + 12 * 40 * 5120 * 8192
    assert mfu(1000.0, 1, replace(model, layers=None), 1e15) == pytest.approx(6 * 13e9 * 1000 / 1e15)


@pytest.mark.parametrize(
    ("name", "tera"),
    [
        ("NVIDIA H100 80GB HBM3", 989.5), ("NVIDIA H100 PCIe", 756.5), ("NVIDIA H100 NVL", 835.5),
        ("NVIDIA H200", 989.5), ("NVIDIA H200 NVL", 835.5), ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA GH200 480GB", 989.5), ("NVIDIA B200", 2250), ("NVIDIA GB200", 2500), ("NVIDIA L40S", 362.05),
        ("NVIDIA L40", 181.05), ("NVIDIA L4", 121), ("NVIDIA A10", 125), ("NVIDIA GeForce RTX 3090", 71),
        ("NVIDIA B300 SXM6 AC", 2250), ("NVIDIA GB300", 2500), ("NVIDIA GeForce RTX 5090", 209.5),
        ("NVIDIA RTX A6000", 154.8), ("NVIDIA RTX 6000 Ada Generation", 364.25), ("NVIDIA A30", 165),
        ("NVIDIA A800-SXM4-80GB", 312), ("NVIDIA A40", 149.7), ("NVIDIA H800", 989.5),
    ],
)  # fmt: skip
def test_peaks_by_the_driver_s_names(name: str, tera: float) -> None:
    assert peak_flops(name) == tera * 1e12


def test_peaks_of_others_are_not_guessed() -> None:
    for name in (
        "Tesla V100-SXM2-32GB", "NVIDIA A10G", "NVIDIA H20", "NVIDIA RTX A1000", "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA L40G",
    ):  # fmt: skip
        assert peak_flops(name) is None, name
    assert all(source for _, _, source in PEAKS)


def test_timers_say_what_a_step_waits_for() -> None:
    job = Job()
    reported = wire.Progress(
        t=WALL, seq=3, file="/logs/0.log", offset=0, at=WALL, rank=0, job="77",
        dialect="progress.deepspeed_step",
        fields={"step": 5, "step_time_s": 2.0}, phases_s={"backward_allreduce": 0.9, "dataloader": 0.1},
    )  # fmt: skip
    job.put("n0", reported)
    shares = {each.what: (each.share, each.flagged) for each in job.facts().shares}
    assert shares == {"communication": (0.45, True), "loading data": (0.05, False)}


def test_jobs_are_listed_and_ended_ones_are_remembered() -> None:
    job = Job()
    job.report(0, 5, NOW)
    job.placement.refresh(job.fleet)
    job.run("78", NOW + 5)
    job.placement.refresh(job.fleet)
    assert jobs_of(job.placement, job.received()) == ["78", "77"]
    made = job.facts(NOW + 5, "77")
    assert made.ranks_seen == 8
    assert not any(row.alive for row in made.rows)
    assert made.rows[0].step == 5


def test_a_rank_that_ends_keeps_its_place() -> None:
    job = Job()
    job.gpus()
    job.facts()
    job.run(at=NOW + 5, leave=6)
    row = job.facts(NOW + 5).rows[6]
    assert (row.rank, row.node, row.gpu, row.alive) == (6, "n1", 2, False)


def test_seats_do_not_grow_without_end() -> None:
    job = Job(nodes=1)
    for number in range(MAX_JOBS + 20):
        job.run(f"j{number}", NOW + number)
        job.placement.refresh(job.fleet)
    assert len(job.placement.jobs) == MAX_JOBS
    assert f"j{MAX_JOBS + 19}" in job.placement.jobs


def test_a_training_without_ranks_or_job_is_one_too() -> None:
    job = Job(nodes=1)
    alone = wire.Process(pid=9, name="python3", gpus=[wire.ProcessGpu("n0-1")], logs=["/logs/None.log"])
    job.put("n0", wire.Ranks(t=WALL, seq=1, processes=[alone]), NOW + 1)
    job.gpus(NOW + 1)
    reported = wire.Progress(
        t=WALL,
        seq=3,
        file="/logs/None.log",
        offset=0,
        at=WALL,
        dialect="progress.step_in_ms",
        fields={"step": 5},
    )
    job.put("n0", reported, NOW + 1)
    job.placement.refresh(job.fleet)
    assert jobs_of(job.placement, job.received())[0] == "n0 pid 9"
    made = job.facts(NOW + 1, "n0 pid 9")
    assert len(made.rows) == 1
    assert (made.rows[0].gpu, made.rows[0].step, made.speaker_rank) == (1, 5, None)


def test_spread_and_percentiles() -> None:
    """Document 004, line 298."""
    apart = spread([1.0, 2.0, 3.0], 0.1)
    assert apart is not None
    assert (apart.mean, apart.least, apart.most, apart.imbalance, apart.flagged) == (2.0, 1.0, 3.0, 1.0, True)
    assert apart.std == pytest.approx((2 / 3) ** 0.5)
    assert spread([1.0], 0.1) is None
    zero = spread([0.0, 0.0], 0.1)
    assert zero is not None
    assert zero.imbalance is None
    times = step_times([float(n) for n in range(1, 101)])
    assert times is not None
    assert (times.p50, times.p95, times.p99) == (50.0, 95.0, 99.0)
    assert step_times([]) is None


def test_lines_without_a_rank_beside_those_of_ranks_are_no_rank_of_their_own() -> None:
    """A tqdm bar in the launcher's log, where other lines begin with `[rank1]`."""
    job = Job()
    job.tell_all(3)
    job.report(None, 9, NOW)
    made = job.facts()
    assert [row.rank for row in made.rows] == list(range(8))
    assert made.speaking == 8


def test_a_job_none_of_whose_lines_names_a_rank_keeps_its_row() -> None:
    job = Job(1)
    job.put("n0", wire.Ranks(t=WALL, seq=1, processes=[]))
    job.placement = RankPlacement()
    job.report(None, 9, NOW)
    assert [row.rank for row in job.facts().rows] == [None]


@pytest.mark.parametrize("age_s", [300, 5])
def test_the_log_of_a_job_that_ended_before_another_began_is_not_of_that(age_s: float) -> None:
    job = Job(1)
    processes = [
        wire.Process(pid=100 + rank, name="python3", rank=rank, world_size=3, job="77", start=WALL - 60)
        for rank in range(3)
    ]
    job.put("n0", wire.Ranks(t=WALL, seq=1, processes=processes))
    job.placement = RankPlacement()
    for rank in range(3):
        job.report(rank, 12, NOW)
    logged = wire.Progress(
        t=WALL, seq=3, file="/old/3.log", offset=100, at=WALL - age_s, rank=3, dialect="progress.common",
        fields={"step": 9},
    )  # fmt: skip
    job.put("n0", logged)
    assert [row.rank for row in job.facts().rows] == [0, 1, 2] + [3] * (age_s < 60)


def test_of_ended_jobs_the_one_that_stepped_last_comes_first() -> None:
    job = Job()
    for name, at in (("70", NOW - 600), ("99", NOW), ("80", NOW - 60)):
        job.put("n0", stepped(name, f"/logs/{name}.log"), at)
    job.run("none")
    job.fleet.nodes["n0"].processes, job.fleet.nodes["n1"].processes = [], []
    job.placement.refresh(job.fleet)
    ended = [
        each for each in jobs_of(job.placement, received_from(job.fleet, job.placement)) if each != "none"
    ]
    assert ended == ["99", "80", "70"]


@pytest.mark.parametrize(("ntasks", "by_rank"), [("8", True), ("2", False)])
def test_the_tasks_of_srun_are_the_ranks_where_the_processes_agree(ntasks: str, by_rank: bool) -> None:
    job = Job()
    for node in job.fleet.nodes.values():
        processes = [
            structs.replace(
                each, job="88", variables={"SLURM_PROCID": str(each.rank), "SLURM_NTASKS": ntasks}
            )
            for each in node.processes
        ]
        job.put(node.name, wire.Ranks(t=WALL, seq=2, processes=processes))
    for task in range(8):
        job.put("n0", structs.replace(stepped("88", "/logs/slurm-88.out"), index=task, index_of="task"))
    ranks = {each.rank for each in job.fleet.progress.writers.values()}
    assert ranks == (set(range(8)) if by_rank else {None})
    job.put("n1", wire.Ranks(t=WALL, seq=3, processes=[]))
    job.put("n0", structs.replace(stepped("88", "/logs/slurm-88.out", step=2), index=5, index_of="task"))
    assert (
        any(each.value("step") == 2 for each in job.fleet.progress.writers.values() if each.rank == 5)
        == by_rank
    )
