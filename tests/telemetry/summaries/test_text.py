"""Both printed layouts of document 001, lines 168 to 200 and 239 to 259, line by line."""

from __future__ import annotations

from typing import Any

from gpuwatch.telemetry.summaries.text import cross_rank_summary, rank_summary

SUMMARY: dict[str, Any] = {
    "hostname": "my-machine",
    "total_time": 3600.0,
    "timers": {
        "backward_pass": {"count": 4000, "total": 720.0, "mean": 0.18, "percentage": 20.0},
        "total_training": {"count": 1, "total": 3600.0, "mean": 3600.0, "percentage": 100.0},
        "epoch": {"count": 4, "total": 3590.0, "mean": 897.5, "percentage": 99.7222},
        "never": {"count": 0},
    },
    "cuda_timers": {"forward_pass": {"count": 4000, "total": 2160.0, "mean": 0.54, "percentage": 60.0}},
    "gpu_memory": [{"allocated": 1.0, "reserved": 2.0}],
    "gpu_memory_peak": {"allocated": 14.5e9 / 2**20, "reserved": 20e3},
    "gpu_temperature": {"count": 3, "mean": 72.2, "max": 76.0},
}
RANK_LAYOUT = """\
Telemetry Summary (my-machine):
Total time: 3600.0 seconds

CPU Timers:
    total_training:
        Total: 3600.0s Mean: 3600.0s
        Count: 1 Percentage of total time: 100.00%
    epoch:
        Total: 3590.0s Mean: 897.5s
        Count: 4 Percentage of total time: 99.72%
    backward_pass:
        Total: 720.0s Mean: 0.18s
        Count: 4000 Percentage of total time: 20.00%

CUDA Timers:
    forward_pass:
        Total: 2160.0s Mean: 0.54s
        Count: 4000 Percentage of total time: 60.00%

Peak GPU memory usage: 14.5 GB
GPU temperature: Mean: 72°C Max: 76°C"""


def over_ranks(mean: float, std_dev: float, least: float, most: float) -> dict[str, float]:
    return {
        "count": 4,
        "mean": mean,
        "std_dev": std_dev,
        "min": least,
        "max": most,
        "min_index": 2,
        "max_index": 3,
    }


STATISTICS = {
    "gpu_temperature": {"max": over_ranks(75.2, 2.1, 72, 78), "mean": over_ranks(71.5, 1.8, 69, 74)},
    "timers": {
        "model_forward": {
            "mean": over_ranks(0.096, 0.008, 0.085, 0.105), "max": over_ranks(0.125, 0.010, 0.115, 0.142),
        },
        "preprocessing": {"mean": over_ranks(0.016, 0.003, 0.012, 0.020)},
    },
}  # fmt: skip
CROSS_RANK_LAYOUT = """\
Cross-Rank Statistics:
GPU Temperature:
    max:
        mean: 75.2C
        std_dev: 2.1C
        min: 72.0C
        max: 78.0C
    mean:
        mean: 71.5C
        std_dev: 1.8C
        min: 69.0C
        max: 74.0C

Timers:
    model_forward:
        mean:
            mean: 0.096s
            std_dev: 0.008s
            min: 0.085s
            max: 0.105s
        max:
            mean: 0.125s
            std_dev: 0.010s
            min: 0.115s
            max: 0.142s
    preprocessing:
        mean:
            mean: 0.016s
            std_dev: 0.003s
            min: 0.012s
            max: 0.020s"""


def test_the_summary_of_a_rank() -> None:
    """Document 001, line 239."""
    assert rank_summary(SUMMARY) == RANK_LAYOUT


def test_the_statistics_across_ranks_with_the_rank_of_each_extreme() -> None:
    """The document has a remark behind each number; ours names the rank.

    Document 001, line 169.
    """
    lines = cross_rank_summary(STATISTICS, 4).splitlines()
    bare = [line.partition("  # ")[0] for line in lines]
    assert "\n".join(bare).replace("0.008s", "0.008s") == CROSS_RANK_LAYOUT
    marked = [line for line in lines if "  # rank " in line]
    assert marked[0].endswith("min: 72.0C  # rank 2")
    assert len(marked) == 10


def test_small_times_keep_their_digits() -> None:
    timers = {"x": {"count": 1, "total": 1.234e-5, "mean": 1.234e-5, "percentage": 0.0}}
    assert "Mean: 1.23e-05s" in rank_summary({**SUMMARY, "timers": timers})
