"""Decide whether a silent job hangs, and which rank the others wait for. Pure functions over rank signs.

Example: 8 ranks are silent for 90 s. GPUs 0-6 are 100 % busy at a third of their power in training (they spin
in a collective), GPU 7 is idle: the reading is `waiting_for_one` with rank 7 as the suspect, and
`hang_threshold` is one window. If the process of rank 7 used its CPU (it may save or evaluate), the threshold
would be `PAUSE_WINDOWS` windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.diagnose.hang.power import BUSY_PCT, assumed_power, busy_with_what, spins
from gpuwatch.diagnose.hang.rank_signs import ENDED, RankSigns
from gpuwatch.diagnose.hang.stacks.kernel_waits import STOPPED
from gpuwatch.diagnose.model.verdict import Confidence, Verdict
from gpuwatch.number_text import duration, listed, plural

Reading: TypeAlias = Literal["spin", "waiting_for_one", "host", "busy"]
"""spin: all GPUs wait in a collective. waiting_for_one: all but a few do. host: no GPU works.

busy: GPUs are busy, and neither tensor activity nor training power is known to show with what.
"""

IDLE_PCT = 5.0
MAX_IDLE_SHARE = 0.1
"""More idle ranks than this share are a regular part of the job, not culprits."""
WORKING_CPU_PCT = 50.0
MAX_SHOWN_RANKS = 4
UNSEEN_POWER = "the power of these GPUs in training is unknown: gpuwatch started later"
STACKS = "Hang analysis, or gpuwatch stacks SOURCE: find the rank with a different stack"


class SilentHang(Struct, frozen=True):
    """The verdict that a silent job hangs, by signs outside of its processes, and the grounds for it."""

    verdict: Verdict
    reading: Reading
    suspects: tuple[RankSigns, ...]
    """The ranks that the others wait for; empty: the signs do not show it."""
    what: str
    """A clause: what the suspects do while the others wait; without suspects, the whole sentence."""
    guessed: bool = False
    """True if waiting GPUs are inferred from the power limit alone, not from their power in training."""


class Grounds(NamedTuple):
    """The grounds of a verdict: evidence, confidence, and the checks that would confirm it."""

    evidence: tuple[str, ...]
    confidence: Confidence
    settle: tuple[str, ...]


def silent_hang(
    job: str | None, reading: Reading, suspects: Sequence[RankSigns], what: str, grounds: Grounds
) -> SilentHang:
    """Return a hang whose verdict names the suspects with their places; the parameters are the fields."""
    verdict = Verdict(
        "signs",
        wrong=True,
        sentence=f"{_names(suspects)}: {what}" if suspects else what,
        culprits=tuple(rank.rank for rank in suspects),
        confidence=grounds.confidence,
        evidence=grounds.evidence,
        settle=grounds.settle,
        job=job,
    )
    return SilentHang(verdict, reading, tuple(suspects), what)


def verdict(
    job: str,
    ranks: Sequence[RankSigns],
    quiet_s: float,
    usual_s: float | None,
    usual_w: Mapping[str, float],
    gone: Sequence[RankSigns] = (),
) -> SilentHang | None:
    """Return the verdict on a silent job from the signs of its ranks; None: it shows no hang.

    These signs show a hang: most GPUs are busy with little power or no tensor work, all are idle, all but a
    few idle ones are busy with something unknown, or some ranks are stopped or have ended. A job without GPUs
    hangs unless most of its ranks compute. One that is stopped as a whole, or has mostly ended, does not.

    Args:
        job: Its id.
        ranks: Its ranks.
        quiet_s: Seconds for which no rank has written a line or logged a step.
        usual_s: Median seconds between two steps or lines; None: not known.
        usual_w: UUID -> watts that this GPU drew while it trained (its own median).
        gone: Ranks that existed when the job last logged something and have ended since, as last seen.
    """
    ended = [*gone, *(rank for rank in ranks if rank.reachable and rank.state == ENDED)]
    ranks = [rank for rank in ranks if rank.state != ENDED]
    if ended:
        left = sum(rank.reachable for rank in ranks)
        return _for_ended(job, ended, left, _silence(quiet_s, usual_s)) if len(ended) < left else None
    stopped = [rank for rank in ranks if rank.reachable and rank.state in STOPPED]
    if stopped:
        waiting = sum(rank.reachable for rank in ranks) - len(stopped)
        return _for_stopped(job, stopped, waiting, _silence(quiet_s, usual_s)) if waiting else None
    observed = [rank for rank in ranks if rank.reachable and rank.busy_pct is not None]
    if len(observed) < 2:
        without = [rank for rank in ranks if rank.reachable and rank.uuid is None]
        return _without_gpus(job, without, _silence(quiet_s, usual_s)) if len(without) > 1 else None
    assumed_w = assumed_power(observed, usual_w)
    spinning = [rank for rank in observed if spins(rank, {**assumed_w, **usual_w})]
    idle = [rank for rank in observed if rank.busy_pct is not None and rank.busy_pct <= IDLE_PCT]
    few_idle = len(idle) <= max(1, MAX_IDLE_SHARE * len(observed))
    silent = _silence(quiet_s, usual_s)
    if 2 * len(spinning) > len(observed):
        evidence = (silent, *_why_spinning(spinning, observed, usual_w))
        if idle and few_idle:
            return _for_one(job, idle, spinning, evidence)
        guessed = not any(spins(rank, usual_w) for rank in spinning)
        return replace(_spin(job, spinning, observed, evidence), guessed=guessed)
    if len(idle) == len(observed):
        return _host(job, observed, silent)
    blind = [rank for rank in observed if busy_with_what(rank, usual_w)]
    if few_idle and len(blind) + len(idle) == len(observed):
        return _for_one_unseen(job, idle, blind, silent) if idle else _busy(job, blind, silent)
    return None


def computes(rank: RankSigns) -> bool:
    """Return True if the process of a rank uses half a core or more, and does not wait in the kernel.

    It then saves, compiles or prepares data, and may continue by itself.
    """
    return rank.cpu_pct is not None and rank.cpu_pct >= WORKING_CPU_PCT and rank.state != "D"


def _wait(count: int) -> str:
    """Return `3 ranks wait`."""
    return f"{plural(count, 'rank')} {'waits' if count == 1 else 'wait'}"


def _silence(quiet_s: float, usual_s: float | None) -> str:
    usual = "" if usual_s is None else f" (usual gap {duration(usual_s)})"
    return f"no line and no step from any rank for {duration(quiet_s)}{usual}"


def _why_spinning(
    spinning: Sequence[RankSigns], observed: Sequence[RankSigns], usual_w: Mapping[str, float]
) -> list[str]:
    reported = [f"{len(spinning)} of {len(observed)} GPUs are at {BUSY_PCT:.0f} % or more"]
    watts = [
        (rank.power_w, usual_w[rank.uuid])
        for rank in spinning
        if rank.power_w is not None and rank.uuid is not None and rank.uuid in usual_w
    ]
    if watts:
        now, before = (sum(each) / len(watts) for each in zip(*watts, strict=True))
        reported.append(f"they draw {now:.0f} W on average; they drew {before:.0f} W during training")
    reported += _of_limit([rank for rank in spinning if rank.uuid not in usual_w])
    tensor = [rank.tensor_pct for rank in spinning if rank.tensor_pct is not None]
    if tensor:
        reported.append(f"tensor cores are active {max(tensor):.1f} % of the time at most")
    return reported


def _of_limit(spinning: Sequence[RankSigns]) -> list[str]:
    """Return a line with the mean power of these GPUs and their mean limit (watts); empty: unknown."""
    known = [(r.power_w, r.power_limit_w) for r in spinning if r.power_w is not None and r.power_limit_w]
    if not known:
        return []
    now, limit = (sum(each) / len(known) for each in zip(*known, strict=True))
    return [f"they draw {now:.0f} W on average, of a limit of {limit:.0f} W"]


def _for_one(
    job: str, idle: Sequence[RankSigns], spinning: Sequence[RankSigns], evidence: tuple[str, ...]
) -> SilentHang:
    sentence = f"idle while {_wait(len(spinning))} in a collective"
    reported = tuple(
        f"{rank.place} is at {rank.busy_pct:.0f} %{_in_kernel(rank)}" for rank in idle[:MAX_SHOWN_RANKS]
    )
    confidence: Confidence = "high" if len(idle) == 1 else "medium"
    settle = (f"py-spy dump --pid {idle[0].pid} on {idle[0].node}: see what it executes",)
    return silent_hang(
        job, "waiting_for_one", idle, sentence, Grounds((*evidence, *reported), confidence, settle)
    )


def _for_stopped(job: str, stopped: Sequence[RankSigns], waiting: int, silent: str) -> SilentHang:
    sentence = f"stopped by a signal or a debugger while {_wait(waiting)}"
    reported = tuple(
        f"process {rank.pid} of {rank.place} is in state {rank.state}" for rank in stopped[:MAX_SHOWN_RANKS]
    )
    settle = (f"kill -CONT {stopped[0].pid} on {stopped[0].node} resumes it",)
    return silent_hang(
        job, "waiting_for_one", stopped, sentence, Grounds((silent, *reported), "high", settle)
    )


def _for_ended(job: str, ended: Sequence[RankSigns], waiting: int, silent: str) -> SilentHang:
    many = len(ended) > 1
    ended_text = "their processes have" if many else "its process has"
    sentence = f"{ended_text} ended while {waiting} ranks are still running"
    reported = tuple(_gone(rank) for rank in ended[:MAX_SHOWN_RANKS])
    first = ended[0]
    settle = (f"the end of the log of rank {first.rank}, and the kernel log of {first.node}: why it ended",)
    return silent_hang(job, "waiting_for_one", ended, sentence, Grounds((silent, *reported), "high", settle))


def _gone(rank: RankSigns) -> str:
    return f"process {rank.pid} of {rank.place} is gone" if rank.pid else f"{rank.place} has no process"


def _spin(
    job: str, spinning: Sequence[RankSigns], observed: Sequence[RankSigns], evidence: tuple[str, ...]
) -> SilentHang:
    working = [rank for rank in observed if rank not in spinning]
    few = working if len(working) <= max(1, MAX_IDLE_SHARE * len(observed)) else []
    if few:
        sentence = f"still works while {_wait(len(spinning))} in a collective"
    else:
        sentence = (
            f"job {job}: {len(spinning)} of {len(observed)} ranks wait in a collective; no rank stands out"
        )
    settle = (
        STACKS,
        "NCCL RAS and the flight recorder show which rank launched fewer collectives",
    )
    return silent_hang(job, "spin", few, sentence, Grounds(evidence, "medium" if few else "low", settle))


def _for_one_unseen(
    job: str, idle: Sequence[RankSigns], busy: Sequence[RankSigns], silent: str
) -> SilentHang:
    """Return the verdict where the busy GPUs show nothing but utilization, and a few ranks are idle."""
    sentence = f"idle while {len(busy)} GPUs are fully busy and nothing is logged"
    reported = tuple(
        f"{rank.place} is at {rank.busy_pct:.0f} %{_in_kernel(rank)}" for rank in idle[:MAX_SHOWN_RANKS]
    )
    settle = (f"py-spy dump --pid {idle[0].pid} on {idle[0].node}: see what it executes", STACKS)
    evidence = (silent, UNSEEN_POWER, *reported)
    return silent_hang(job, "waiting_for_one", idle, sentence, Grounds(evidence, "medium", settle))


def _busy(job: str, busy: Sequence[RankSigns], silent: str) -> SilentHang:
    sentence = (
        f"job {job}: {len(busy)} GPUs are fully busy and nothing is logged; "
        "whether they train or wait cannot be seen from outside"
    )
    return silent_hang(job, "busy", (), sentence, Grounds((silent, UNSEEN_POWER), "low", (STACKS,)))


def _host(job: str, observed: Sequence[RankSigns], silent: str) -> SilentHang | None:
    stuck = [rank for rank in observed if rank.state == "D"]
    working = sum(map(computes, observed))
    evidence = (
        silent,
        f"all {len(observed)} GPUs are idle while their processes run",
        *([f"{working} of {len(observed)} processes use half a core or more"] if working else []),
    )
    few = stuck if stuck and len(stuck) <= max(1, MAX_IDLE_SHARE * len(observed)) else []
    if few:
        sentence = "waits in the kernel (disk or driver) while all GPUs are idle"
    else:
        sentence = f"job {job}: all {len(observed)} GPUs are idle: data, checkpoint or a barrier on the hosts"
    settle = (STACKS,)
    reported = tuple(f"{rank.place}{_in_kernel(rank)}" for rank in stuck[:MAX_SHOWN_RANKS])
    return silent_hang(
        job, "host", few, sentence, Grounds((*evidence, *reported), "medium" if few else "low", settle)
    )


def _without_gpus(job: str, ranks: Sequence[RankSigns], silent: str) -> SilentHang | None:
    """Return the verdict on a CPU job; it names a rank if only that one waits in the kernel, or computes.

    None if most ranks compute: they only print seldom.
    """
    working = [rank for rank in ranks if computes(rank)]
    if 2 * len(working) > len(ranks):
        return None  # the ranks compute and only print seldom
    stuck = [rank for rank in ranks if rank.state == "D"]
    odd = next((few for few in (stuck, working) if len(few) == 1), [])
    evidence: tuple[str, ...] = (silent, f"all {len(ranks)} ranks are running, and none has a GPU")
    if odd and odd[0].state == "D":
        sentence = f"waits in the kernel (state D) while {_wait(len(ranks) - 1)} for it"
    elif odd:
        sentence = f"computes while {_wait(len(ranks) - 1)} for it"
        evidence = (
            *evidence,
            f"{odd[0].place} uses {odd[0].cpu_pct:.0f} % of a core; the other ranks use almost none",
        )
    else:
        sentence = f"job {job}: {len(ranks)} ranks are running without output; no rank stands out"
    settle = (STACKS,)
    return silent_hang(job, "host", odd, sentence, Grounds(evidence, "medium" if odd else "low", settle))


def _names(ranks: Sequence[RankSigns]) -> str:
    return listed([rank.place for rank in ranks], MAX_SHOWN_RANKS)


def _in_kernel(rank: RankSigns) -> str:
    return f", its process {rank.pid} waits in the kernel (state D)" if rank.state == "D" else ""
