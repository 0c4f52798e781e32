"""Lines that repeat what a pattern repeats inside a repeat: found by pumping, kept as cases."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from time import process_time

import pytest

from gpuwatch.agent.logs.lines.splitter import glued
from gpuwatch.agent.logs.matching.event_form import is_absent, is_event
from gpuwatch.diagnose.last_lines.trouble_words import has_trouble_words
from gpuwatch.diagnose.stated_loss.statement import stated_loss
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.saved_outputs.model import ToolLine
from gpuwatch.runs.saved_outputs.pod_manifest import PodManifest
from gpuwatch.runs.sessions.folders.log_text import DATED
from tests.packs import patterns_of
from tests.rules.compiling.costs import at_most

GIVEN_UP_S = 5.0
SHARE = 4
MOST = 9.0
"""Times the CPU time of a line of a quarter of the length; a quadratic pattern takes 16."""
NOISE_S = 0.02

LOSS = " node gpu-17 is unreachable and was excluded"


def event(line: str) -> bool:
    return is_event(line, len(line) - 5)


def matches(rule: str) -> Callable[[str], object]:
    """All patterns of a built-in rule or dialect, searched in the line."""

    def searched(line: str) -> None:
        for each in compiled(rule):
            each.search(line)

    return searched


@cache
def compiled(rule: str) -> list[re.Pattern[str]]:
    entry = next(each for each in load_packs().all if each.id == rule)
    return [re.compile(each) for each in patterns_of(entry)]


def record_behind_bar(line: str) -> object:
    return glued(line.encode())


def dated(line: str) -> object:
    return DATED.search(line)


def pod_line(line: str) -> object:
    return PodManifest().take(ToolLine(line, 0))


CASES: list[tuple[Callable[[str], object], str, str, str, int]] = [
    (event, "except ", "a", LOSS, 4000),
    (event, "except (", "a.", LOSS, 4000),
    (event, "except ", "a, ", LOSS, 4000),
    (stated_loss, "except ", "a", LOSS, 440),
    (lambda line: is_absent(line, 0), "'", " " + 120 * ".", "", 1000),
    (matches("progress.bar_without_glyphs"), "Epoch 1 50% 1/2 [00:<", "0", "x", 4000),
    (matches("progress.bar_behind_loss"), "-0.1%|0| 1/2 [0:<", "0", "x", 4000),
    (matches("progress.epoch_bar"), "[stderr]epoch(1 0.0%|-| 1/2 [0:<", "0", "x", 4000),
    (matches("peer.connection_lost"), "", "mca_btl_tcp00", "", 4000),
    (matches("nccl.nvls_multicast"), "", "cuMulticastaaa", "", 4000),
    (matches("progress.paddle"), "", "loss: a,  global_step: 00,    ", "", 4000),
    (matches("progress.llm_c"), "", "step 0/0 | train loss aaa 0| norm   ", "", 4000),
    (matches("progress.marian"), "Ep. .0 : Up. 00 : Sen. ", ".", "x", 4000),
    (matches("progress.catboost"), "0: learn: remaining: ", " ", "x", 4000),
    (matches("progress.yolo_bar"), " 0/0 0G nan 0: 0% 0/", "0", "x", 4000),
    (has_trouble_words, "", "retcode# =-0 0 ", "", 16000),
    (has_trouble_words, "return(-0x", "d", "x", 16000),
    (record_behind_bar, "%|#", " ", "x", 16000),
    (dated, "2026-01-01 00:00:00 | INFO |", " ", "x", 4000),
    (pod_line, '"a":', " ", "x", 4000),
]
"""Function, beginning, repeated piece, end, characters."""


@pytest.mark.parametrize(("use", "beginning", "piece", "end", "size"), CASES)
def test_a_line_of_repeats_ends_soon(
    use: Callable[[str], object], beginning: str, piece: str, end: str, size: int
) -> None:
    use("")  # patterns are compiled when they are first used
    long, short = (cost_s(use, beginning + (piece * n)[:n] + end) for n in (size, size // SHARE))
    assert long < NOISE_S or long < MOST * short


def cost_s(use: Callable[[str], object], line: str) -> float:
    with at_most(GIVEN_UP_S):
        began = process_time()
        use(line)
        return process_time() - began
