"""The stage that tests each GPU alone, since a GPU may be slow without the network."""

from __future__ import annotations

from msgspec.structs import replace

from gpuwatch.probe.orchestration.planning.plan import GpuCheck
from gpuwatch.probe.orchestration.stages.ranks import RankControl
from gpuwatch.probe.orchestration.stages.run import FailedError, ProbeRun
from gpuwatch.probe.protocol import Step
from gpuwatch.probe.results import GpuResult

COPY_BYTES = 256 << 20


def check_gpus(run: ProbeRun, ranks: RankControl) -> None:
    """Make the planned tests of each GPU, as far as time allows, and add the results to `results.gpus`.

    Raises:
        FailedError: a rank died, or a node was lost.
        CancelledError: the user has cancelled.
    """
    plan = run.plan
    assert plan is not None  # noqa: S101 - the preflight has made it
    if not plan.gpu_checks:
        return
    run.enter("gpus")
    everyone = [slot.rank for slot in run.results.slots if slot.rank not in run.stuck]
    for what in plan.gpu_checks:
        if run.left_s() <= 0:
            run.leave_out(f"the GPU check {what}")
            continue
        size = 0 if what == "matmul" else COPY_BYTES
        step = Step(
            id=0, what=what, bytes=size, warmup=2, iterations=10, timeout_s=run.results.request.timeout_s
        )
        outcome = ranks.step(step, everyone)
        for rank, done in outcome.done.items():
            if done.error is not None:
                run.note(f"{run.name(rank)}: {what}: {done.error}")
            elif done.value is not None and done.value > 0:
                before = run.results.gpus.get(rank, GpuResult(rank))
                run.results.gpus[rank] = _with(before, what, done.value)
        run.step_done()
        if outcome.failure is not None or outcome.missing:
            raise FailedError(
                outcome.failure or f"{ranks.names(outcome.missing)} did not finish the {what} check"
            )


def _with(result: GpuResult, what: GpuCheck, value: float) -> GpuResult:
    if what == "matmul":
        return replace(result, matmul_flops=value)
    if what == "copy":
        return replace(result, copy_bps=value)
    return replace(result, h2d_bps=value) if what == "h2d" else replace(result, d2h_bps=value)
