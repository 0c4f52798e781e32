"""The measures of traces with known times."""

from __future__ import annotations

import os
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import numpy as np
import pytest

from gpuwatch.diagnose.traces.trace_verdict import compare_sections, judge_traces
from gpuwatch.runs.traces.intervals import merged, union, without
from gpuwatch.runs.traces.rank_profile import RankProfile
from gpuwatch.runs.traces.trace_files import gather_traces
from tests.runs.traces import kineto_v100
from tests.runs.traces.gpu_traces import ALL_REDUCE, GEMM, training
from tests.telemetry.frameworks.programs import need_package

RECORDED = Path(__file__).parent / "recorded"
"""Two gloo ranks under the profiler of torch 2.13 on a CPU, by `profiled_job.py`."""


def profile_of(path: Path) -> RankProfile:
    found = gather_traces([path])
    assert found.skipped == []
    return found.profiles[0]


def test_the_parts_of_a_gpu_trace_add_up_to_its_span(tmp_path: Path) -> None:
    """Document 004, line 245."""
    parts = profile_of(training(0).write(tmp_path / "t.json")).breakdown
    assert parts.basis == "gpu"
    assert parts.compute_ms == pytest.approx(1.5)
    assert parts.communication_ms == pytest.approx(0.42)
    assert parts.communication_busy_ms == pytest.approx(0.6)
    assert parts.memory_copy_ms == pytest.approx(0.15)
    assert parts.span_ms == pytest.approx(2.71)
    assert parts.idle_ms == pytest.approx(0.64)
    assert parts.exposed_share == pytest.approx(0.7)
    assert parts.communication_to_compute == pytest.approx(0.4)
    (collective,) = parts.collectives
    assert (collective.name, collective.calls, collective.bytes) == ("all_reduce", 3, 3 * 262_144)
    assert collective.exposed_ms == pytest.approx(0.42)


def test_gpu_time_belongs_to_the_operator_that_launched_it(tmp_path: Path) -> None:
    """Document 001, line 107; document 004, line 91."""
    profile = profile_of(training(0).write(tmp_path / "t.json"))
    product = next(each for each in profile.tables.by_gpu if each.name == "aten::mm")
    assert product.self_gpu_ms == pytest.approx(0.9)
    assert product.self_cpu_ms == pytest.approx(3 * 0.009)
    assert product.total_cpu_ms == pytest.approx(3 * 0.012)
    assert product.flops == 3 * 2 * 64 * 256 * 512
    assert product.shapes == ("[[64,256],[256,512]]",)
    step = next(each for each in profile.tables.by_gpu if each.name == "ProfilerStep*")
    assert (step.calls, step.self_gpu_ms) == (3, 0.0)
    assert step.total_gpu_ms == pytest.approx(2.25)
    assert profile.tables.kernels[0].name == GEMM
    assert profile.trace.gpu == "NVIDIA H100 80GB HBM3"


def test_a_trace_of_a_real_gpu_with_the_categories_of_old_versions(tmp_path: Path) -> None:
    """Document 004, line 245; the sums of Kineto's own file."""
    profile = profile_of(kineto_v100.write(tmp_path / "dgx.pt.trace.json"))
    parts = profile.breakdown
    assert (parts.basis, profile.trace.gpu, profile.trace.rank) == ("gpu", "Tesla V100-DGXS-32GB", None)
    assert parts.compute_ms == pytest.approx(0.048)
    assert parts.memory_copy_ms == pytest.approx(0.002)
    assert parts.span_ms == pytest.approx(11.946)
    assert parts.idle_ms == pytest.approx(11.896)
    assert sum(each.calls for each in profile.tables.kernels) == 30 + 2  # the copies are listed, too
    assert profile.steps_ms == pytest.approx([13.41])
    found = {each.name: each for each in profile.tables.by_gpu}
    assert [found["aten::mm"].calls, found["aten::add_"].calls] == [2, 6]
    assert found["aten::mm"].self_gpu_ms == pytest.approx(0.005)
    assert found["aten::add_"].self_gpu_ms == pytest.approx(0.008)
    assert found["Optimizer.step#SGD.step"].total_gpu_ms == pytest.approx(0.004)


def test_the_rank_that_computes_longest_is_the_straggler(tmp_path: Path) -> None:
    """Document 004, lines 30, 78, 264 and 852."""
    for rank in range(4):
        training(rank, slow=1.5 if rank == 2 else 1.0).write(tmp_path / f"rank_{rank}.json")
    verdict = judge_traces(gather_traces([tmp_path]).profiles)
    assert verdict.straggler is not None
    assert verdict.straggler.trace.rank == 2
    assert verdict.compute is not None
    assert verdict.compute.imbalance == pytest.approx(250 / 562.5)
    assert [(flag.code, flag.rank) for flag in verdict.flags] == [
        ("trace.imbalance", 2),
        ("trace.communication_high", 0),
        ("trace.communication_high", 1),
        ("trace.communication_high", 3),
    ]


def test_cycles_of_one_rank_are_not_compared(tmp_path: Path) -> None:
    for rank in range(2):
        for cycle, slow in ((1, 3.0), (2, 1.0)):
            name = f"host_{40 + rank}.17600000{cycle}0.pt.trace.json"
            training(rank, slow=slow).write(tmp_path / name)
    found = gather_traces([tmp_path])
    assert [(each.trace.rank, Path(each.trace.file).name) for each in found.profiles] == [
        (0, "host_40.1760000020.pt.trace.json"),
        (1, "host_41.1760000020.pt.trace.json"),
    ]
    assert len(found.older) == 2
    verdict = judge_traces(found.profiles)
    assert (verdict.straggler, "trace.imbalance" in {flag.code for flag in verdict.flags}) == (None, False)


def test_cycles_of_a_process_without_a_rank_are_one_process(tmp_path: Path) -> None:
    for cycle, slow in ((1, 1.0), (2, 3.0)):
        text = training(0, slow=slow).text().replace("distributedInfo", "other")
        (tmp_path / f"host_7.17600000{cycle}0.pt.trace.json").write_text(text)
    found = gather_traces([tmp_path])
    assert (len(found.profiles), len(found.older)) == (1, 1)
    assert judge_traces(found.profiles).compute is None


def test_a_rank_that_also_waits_longest_is_no_straggler(tmp_path: Path) -> None:
    training(0).write(tmp_path / "rank_0.json")
    slow = training(1, slow=1.5)
    for step in range(3):
        slow.launch("c10d::allreduce_", ALL_REDUCE, step * 1000.0 + 900, step * 1000.0 + 905, 90.0, stream=20)
    slow.write(tmp_path / "rank_1.json")
    verdict = judge_traces(gather_traces([tmp_path]).profiles)
    assert (verdict.straggler, verdict.confidence) == (None, None)
    assert verdict.doubt is not None


def test_a_difference_within_noise_names_nobody(tmp_path: Path) -> None:
    for rank, slow in ((0, 0.1), (1, 0.2)):
        training(rank, slow=slow, hidden=0.0).write(tmp_path / f"rank_{rank}.json")
    verdict = judge_traces(gather_traces([tmp_path]).profiles)
    assert verdict.compute is not None
    assert (verdict.compute.imbalance or 0) > 0.1
    assert (verdict.straggler, verdict.doubt) == (None, None)


def test_a_trace_that_is_cut_off_is_compared_with_none(tmp_path: Path) -> None:
    for rank in range(2):
        training(rank, slow=1.6).write(tmp_path / f"rank_{rank}.json")
    cut = training(2, slow=1.6).text()
    (tmp_path / "rank_2.json").write_text(cut[: len(cut) // 2])
    verdict = judge_traces(gather_traces([tmp_path]).profiles)
    assert verdict.straggler is None
    assert [(flag.code, flag.rank) for flag in verdict.flags][:1] == [("trace.incomplete", 2)]


def test_equal_ranks_with_little_communication_are_not_flagged(tmp_path: Path) -> None:
    for rank in range(2):
        training(rank, slow=1.6).write(tmp_path / f"rank_{rank}.json")
    assert judge_traces(gather_traces([tmp_path]).profiles).flags == ()


def test_a_recorded_cpu_trace_is_measured_by_its_operators() -> None:
    first, second = gather_traces([RECORDED]).profiles
    assert [(each.trace.rank, each.trace.world_size, each.breakdown.basis) for each in (first, second)] == [
        (0, 2, "cpu"),
        (1, 2, "cpu"),
    ]
    assert len(first.steps_ms) == 3
    assert first.breakdown.collectives[0].name == "all_reduce"
    own = {each.name: each.self_cpu_ms for each in first.tables.by_self_cpu}
    assert own["aten::mm"] == pytest.approx(22.635, abs=0.001)  # torch's own table of this run
    assert own["c10d::allreduce_"] == pytest.approx(18.712, abs=0.001)
    assert own["DistributedDataParallel.forward"] == pytest.approx(19.701, abs=0.001)
    assert own["ProfilerStep*"] == pytest.approx(44.975, abs=0.001)
    verdict = judge_traces([first, second])
    assert verdict.straggler is second
    assert verdict.confidence == "high"


def test_sections_of_a_tracer_with_a_rank_as_category(tmp_path: Path) -> None:
    """Document 004, line 612."""
    path = tmp_path / "traces.json"
    path.write_text(
        '[{"name": "forward_pass", "cat": "rank_0", "ph": "X", "ts": 1e15, "dur": 2000, "pid": 0, "tid": 0},'
        ' {"name": "forward_pass", "cat": "rank_1", "ph": "X", "ts": 1e15, "dur": 5000, "pid": 1, "tid": 0}]'
    )
    profiles = gather_traces([path]).profiles
    assert [(each.trace.rank, each.sections[0].total_ms) for each in profiles] == [(0, 2.0), (1, 5.0)]
    (compared,) = compare_sections(profiles)
    assert (compared.name, compared.spread.most, compared.spread.most_label) == (
        "forward_pass",
        5.0,
        "rank 1",
    )
    assert judge_traces(profiles).flags == ()


def test_impossible_times_and_hostile_names_cost_their_event_only(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    event = '{"name": "%s", "cat": "cpu_op", "ph": "X", "ts": %s, "dur": %s, "pid": 0, "tid": 0}'
    wild = [event % each for each in (("a\\u001b[31m", "5", "2"), ("b", "1e308", "1e308"), ("c", "4", "-9"))]
    path.write_text(f"[{', '.join(wild)}]")
    (profile,) = gather_traces([path]).profiles
    assert (profile.event_count, profile.trace.unreadable) == (2, 1)
    assert profile.breakdown.span_ms == pytest.approx(0.003)
    assert all("\x1b" not in each.name for each in profile.tables.by_self_cpu)


def test_intervals_are_measures() -> None:
    chance = np.random.default_rng(3)
    starts, others = chance.integers(0, 900, (2, 60)).astype(float)
    these, those = merged(starts, starts + 7), merged(others, others + 11)
    axis = np.arange(1000)[:, None]
    of_these = ((axis >= starts) & (axis < starts + 7)).any(axis=1)
    of_those = ((axis >= others) & (axis < others + 11)).any(axis=1)
    assert these.total == of_these.sum()
    assert union(these, those).total == (of_these | of_those).sum()
    assert without(these, those).total == (of_these & ~of_those).sum()
    assert these.covered(those.starts, those.ends).sum() == (of_these & of_those).sum()


@pytest.mark.long
def test_holistic_trace_analysis_measures_the_same(tmp_path: Path) -> None:
    need_package("hta")
    for rank, slow in ((0, 1.0), (1, 1.5)):
        training(rank, slow=slow, hidden=75.0).write(tmp_path / f"rank{rank}.json")
    program = (
        "import sys, json; from hta.trace_analysis import TraceAnalysis\n"
        "made = TraceAnalysis(trace_dir=sys.argv[1], include_last_profiler_step=True)\n"
        "times = made.get_temporal_breakdown(visualize=False)\n"
        "hidden = made.get_comm_comp_overlap(visualize=False)\n"
        "print(repr([times.to_dict('records'), hidden.to_dict('records')]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=110,
    )
    times, hidden = eval(ran.stdout.splitlines()[-1], {"np": np, "nan": float("nan")})  # noqa: S307 - our own program
    for profile, time, overlap in zip(gather_traces([tmp_path]).profiles, times, hidden, strict=True):
        parts = profile.breakdown
        assert time["rank"] == profile.trace.rank
        assert time["compute_time_pctg"] == pytest.approx(100 * parts.compute_ms / parts.span_ms, abs=0.01)
        assert time["idle_time_pctg"] == pytest.approx(100 * parts.idle_ms / parts.span_ms, abs=0.01)
        assert parts.exposed_share is not None
        assert overlap["comp_comm_overlap_pctg"] == pytest.approx(100 * (1 - parts.exposed_share), abs=0.01)


@pytest.mark.long
def test_the_profiler_of_the_installed_torch_is_read(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    job = Path(__file__).with_name("profiled_job.py")
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "WORLD_SIZE": "2"}
    common |= {"MASTER_PORT": str(29_000 + os.getpid() % 2000), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen([sys.executable, str(job), str(tmp_path)], env={**common, "RANK": str(rank)})
        for rank in range(2)
    ]
    assert [rank.wait(timeout=100) for rank in ranks] == [0, 0]
    found = gather_traces([tmp_path])
    assert [each.trace.rank for each in found.profiles] == [0, 1]
    for profile in found.profiles:
        table = literal_eval((tmp_path / f"table{profile.trace.rank}.txt").read_text())
        for each in profile.tables.by_self_cpu[:8]:
            assert each.self_cpu_ms == pytest.approx(table[each.name] / 1e3, rel=0.01, abs=0.01)
    verdict = judge_traces(found.profiles)
    assert verdict.straggler is found.profiles[1]
