"""What follows the lines of a rule decides: a rank that steps on had no failure, one that stops had one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.rules.model.rule import Rule
from tests.corpus.score import packs, scanned

STEPS, RANKS, FAILED = 24, 3, 1
LASTING = ("amd.", "gpu.", "intel.", "kernel.", "pcie.")
"""Families of faults that last, whatever the job does meanwhile: they are not caught by a program."""
LASTING_CLASSES = {
    "ckpt.mismatch",  # the run went on with other weights
    "cuda.ecc",
    "cuda.nvlink",
    "nccl.driver_insufficient",
    "nccl.wrong_results",
    "rdma.async_fatal",
    "slurm.kill_timeout",
}
RULES = sorted(
    (
        rule
        for rule in packs().all
        if isinstance(rule, Rule) and rule.examples and rule.severity in ("error", "critical")
    ),
    key=lambda rule: rule.id,
)
PASSING = [rule for rule in RULES if not rule.id.startswith(LASTING) and rule.id not in LASTING_CLASSES]


def written(folder: Path, rule: Rule, *, steps_after: int) -> None:
    """Write the log of each rank; one has the example in the middle, with `steps_after` steps below."""
    for rank in range(RANKS):
        lines = []
        for step in range(1, STEPS // 2 + steps_after + 1):
            at = f"2026-10-18 04:{step // 6:02d}:{step % 6 * 10 + rank:02d}"
            lines.append(f"{at} step {step}/{STEPS} loss {4 / step:.3f}")
            if step == STEPS // 2 and rank == FAILED:
                lines += [f"{at} {line}" for line in rule.examples[0].splitlines()]
        if steps_after:
            lines.append(f"2026-10-18 04:30:0{rank} Training finished after {STEPS} steps")
        (folder / f"rank{rank}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")


def alarms(folder: Path) -> list[tuple[str, str]]:
    facts = scanned(folder)
    every = facts["incidents"] + facts["alerts"]
    return [(each["class"], each["severity"]) for each in every if each["severity"] in ("error", "critical")]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("rule", PASSING, ids=lambda rule: rule.id)
def test_steps_that_follow_soften_an_example(rule: Rule, tmp_path: Path) -> None:
    written(tmp_path, rule, steps_after=STEPS // 2)
    assert not alarms(tmp_path)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_an_example_at_the_end_of_a_log_is_trouble(rule: Rule, tmp_path: Path) -> None:
    written(tmp_path, rule, steps_after=0)
    assert alarms(tmp_path)
