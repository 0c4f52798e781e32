"""Sentences about profiles, as the report and the screen show them."""

from __future__ import annotations

from gpuwatch.diagnose.profiles.call_tree import CodeLine
from gpuwatch.diagnose.profiles.hot_frames import FrameDifference, HotFrame
from gpuwatch.diagnose.profiles.profiled_rank import ProfiledRank
from gpuwatch.number_text import plural

MANY_ERRORS_PCT = 20.0
SLOW_SAMPLING = 1.3
"""Factor of the nominal time from which sampling took so long that py-spy counts as too slow."""


def rank_name(profile: ProfiledRank) -> str:
    """Return `rank 5 (gpu-003 GPU 1, pid 4711)`."""
    gpu = "" if profile.gpu is None else f" GPU {profile.gpu}"
    return f"rank {profile.rank} ({profile.node}{gpu}, pid {profile.pid})"


def samples_text(profile: ProfiledRank) -> str:
    """Return how many samples were taken and in which time, or why none were."""
    if profile.main is None:
        return f"{rank_name(profile)}: {profile.why or 'no samples'}"
    seconds = profile.measured.seconds if profile.measured is not None else None
    took = "" if seconds is None else f" in {seconds:.1f} s"
    return f"{rank_name(profile)}: {plural(profile.main.samples, 'sample')} of its main thread{took}"


def measured_cost(profile: ProfiledRank) -> str:
    """Return the measured cost as text; "" if nothing was sampled."""
    each = profile.measured
    share = profile.py_spy_cpu_pct
    if each is None or share is None or each.py_spy_cpu_s is None or profile.main is None:
        return ""
    parts = [f"measured cost: py-spy {each.py_spy_cpu_s:.2f} s CPU ({share:.1f} % of one core)"]
    before, during = profile.before, profile.during
    if before.cpu_pct is not None and during.cpu_pct is not None:
        parts.append(f"the rank {before.cpu_pct:.0f} % CPU before, {during.cpu_pct:.0f} % while sampled")
    if before.step_s is not None and during.step_s is not None:
        parts.append(f"its steps {before.step_s:.3g} s before, {during.step_s:.3g} s while sampled")
    return "; ".join(parts)


def doubts(profile: ProfiledRank, rate: int) -> list[str]:
    """Return sentences on the limits of the profile's accuracy, with remedies. `rate`: samples per second."""
    found = []
    errors, each, main = profile.errors_pct, profile.measured, profile.main
    if errors is not None and errors > MANY_ERRORS_PCT:
        found.append(
            f"{errors:.0f} % of the samples could not be read while it ran; --blocking stops it for each"
        )
    if each is not None and main is not None and each.seconds:
        expected = main.samples / rate
        if each.seconds > SLOW_SAMPLING * expected + 1.0:
            found.append("py-spy fell behind (many threads or deep stacks); a lower --rate is more even")
    if each is not None and each.left_out:
        found.append(f"{plural(each.left_out, 'sample')} of rare stacks are left out")
    if profile.why is not None and "ermission" in profile.why:
        found.append(
            "py-spy may read only processes of its own user, and only where kernel.yama.ptrace_scope is 0 "
            "(or as root)"
        )
    return found


def frame_text(code: CodeLine, caller: CodeLine | None) -> str:
    """Return `all_reduce (distributed_c10d.py:2810), called by train_step (train.py:361)`."""
    return code.short if caller is None else f"{code.short}, called by {caller.short}"


def hot_row(frame: HotFrame) -> tuple[str, str, str]:
    """Return own percent, total percent and frame, as text."""
    return f"{frame.own_pct:.1f}", f"{frame.total_pct:.1f}", frame_text(frame.code, frame.caller)


def difference_row(each: FrameDifference) -> tuple[str, str, str, str]:
    """Return difference in points, own percent here, own percent there, and frame, as text."""
    return (
        f"{each.points:+.1f}",
        f"{each.own_pct:.1f}",
        f"{each.other_pct:.1f}",
        frame_text(each.code, each.caller),
    )
