"""The series of jobs and ranks under gpuwatch's own names; label `job`, of ranks `rank`, `node`, `gpu`."""

from __future__ import annotations

from gpuwatch.link.prometheus.series.tier_series import MetricFamily, gauge

_J, _R = "gpuwatch_job_", "gpuwatch_rank_"

PROGRESS_SERIES = (
    gauge(f"{_J}step", "Newest step that the log reports.", "step"),
    gauge(f"{_J}steps_planned", "Steps of the whole run.", "total_steps"),
    gauge(f"{_J}epoch", "Newest epoch.", "epoch"),
    gauge(f"{_J}loss", "Newest loss; NaN if the log contains NaN.", "loss"),
    gauge(f"{_J}gradient_norm", "Newest gradient norm.", "grad_norm"),
    gauge(f"{_J}learning_rate", "Newest learning rate.", "lr"),
    gauge(f"{_J}loss_scale", "Newest loss scale.", "loss_scale"),
    gauge(f"{_J}skipped_steps", "Skipped steps that the log reports.", "skipped"),
    gauge(f"{_J}step_seconds", "Seconds of the newest step.", "step_time_s"),
    gauge(f"{_J}samples_per_second", "Samples per second that the log reports.", "samples_per_s"),
    gauge(f"{_J}model_flops_utilization_ratio", "MFU, reported or computed.", "mfu"),
    gauge(f"{_J}remaining_seconds", "Seconds to the end of the run, reported or computed.", "eta_s"),
)
"""Fields of `wire.Progress` for a job as a whole."""
JOB_UP = MetricFamily(f"{_J}up", "gauge", "1: a rank of the job runs.")
WORLD = MetricFamily(f"{_J}world_size", "gauge", "Ranks that the job should have.")
ALIVE = MetricFamily(f"{_J}ranks_alive", "gauge", "Ranks whose process runs.")
JOB_NODES = MetricFamily(f"{_J}nodes", "gauge", "Nodes that the job's ranks run on.")
TOKENS = MetricFamily(f"{_J}tokens_per_second", "gauge", "Tokens per second of all ranks together.")
TFLOPS = MetricFamily(f"{_J}gpu_flops_per_second", "gauge", "FLOP/s per GPU that the log reports.")
WAITING = MetricFamily(
    f"{_J}step_share_ratio", "gauge", "Share of the step that a part takes (communication, loading data)."
)
STEP_PERCENTILE = MetricFamily(
    f"{_J}step_percentile_seconds", "gauge", "Percentiles of the last 500 step times."
)
IMBALANCE_RATIO = MetricFamily(
    f"{_J}imbalance_ratio", "gauge", "(max - min) / mean over the ranks, by column."
)
STEPPED = MetricFamily(
    f"{_J}last_step_timestamp_seconds", "gauge", "Unix time at which the job logged its newest step."
)
SAVED_AT = MetricFamily(
    f"{_J}checkpoint_timestamp_seconds", "gauge", "Unix time at which the last checkpoint was written."
)
SAVED_STEP = MetricFamily(f"{_J}checkpoint_step", "gauge", "Step of the last checkpoint.")
SAVED_WHOLE = MetricFamily(
    f"{_J}checkpoint_complete", "gauge", "1: all files of the last checkpoint are there; 0: not."
)
STEPS_LOST = MetricFamily(f"{_J}checkpoint_steps_behind", "gauge", "Steps that a restart repeats.")
RANK_INFO = MetricFamily(f"{_R}info", "info", "Where a rank runs: node, GPU and its UUID.")
RANK_UP = MetricFamily(f"{_R}up", "gauge", "1: the process of the rank runs; 0: it has ended.")
RANK_STEP = MetricFamily(f"{_R}step", "gauge", "Newest step of a rank that logs steps.")
RANK_LAG = MetricFamily(f"{_R}lag_steps", "gauge", "Steps behind the furthest rank.")
RANK_STEP_TIME = MetricFamily(f"{_R}step_seconds", "gauge", "Step time of a rank.")
RANK_TOKENS = MetricFamily(f"{_R}tokens_per_second", "gauge", "Tokens per second that a rank reports.")
RANK_REPORTED = MetricFamily(
    f"{_R}last_step_timestamp_seconds", "gauge", "Unix time at which a rank logged its newest step."
)
RANK_WROTE = MetricFamily(
    f"{_R}last_write_timestamp_seconds", "gauge", "Unix time at which the log of a rank last grew."
)
RANK_OUTLIER = MetricFamily(f"{_R}outlier", "gauge", "1: the rank stands out from the others in this column.")
