"""Live and `scan` judge the same log files alike: a folder alarms in both, or in neither."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpuwatch.diagnose import alert_book
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.report.once.first_report import wait_for_first_report
from gpuwatch.report.once.problems.active import standing
from gpuwatch.runs.files.files import gather
from gpuwatch.session import Session
from tests.corpus.score import ALARMS, CORPUS, scanned

WAIT_S = 240.0
FOLLOWED_NOTHING = [
    "fallback-sdpa-xformers", "chatter-hf-datasets", "chatter-libibverbs", "tests-phpunit",
    "rl-mujoco-env-reset",
]  # fmt: skip
"""Harmless ones that live `once` called errors before nodes were asked for the lines below."""
OPEN_ENDS = "the end of the job makes less of it, and a file that is followed may go on"
LASTS = "a fault that lasts is not asked about; only its own words say that the program goes on"
BY_PROGRESS = "the numbers of the past and the end of the steps are judged of jobs that are seen running"
DIFFERENT = {
    "chain-time-limit-resumes": OPEN_ENDS,
    "end-ctrl-c-accelerate-saved": OPEN_ENDS,
    "end-pbs-walltime": OPEN_ENDS,
    "k8s-describe-late-start": OPEN_ENDS,
    "agent-telegraf-output-back": LASTS,
    "convert-hf-to-int8": LASTS,
    "bar-stops-at-61-percent": BY_PROGRESS,
    "diverged-and-stayed": BY_PROGRESS,
    "gradient-nan-to-the-end": BY_PROGRESS,
    "member-5-misses-a-step": BY_PROGRESS,
    "policy-loss-nan": BY_PROGRESS,
    "silent-rank-2-shared-file": BY_PROGRESS,
    "silent-worker-4-behind": BY_PROGRESS,
    "stops-at-43-percent": BY_PROGRESS,
    "stops-in-epoch-35-of-90": BY_PROGRESS,
    "translate-nll-nan": BY_PROGRESS,
    "upload-given-up": BY_PROGRESS,
    "vae-elbo-nan": BY_PROGRESS,
}


@pytest.fixture(autouse=True)
def old_lines_stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The logs of the corpus are of other years."""
    monkeypatch.setattr(alert_book, "RESOLVED_AFTER_S", float("inf"))
    yield


def alarmed_live(folder: Path) -> bool:
    """Whether a session over a real local agent alarms over the plain files of a folder."""
    files = tuple(str(each.path.resolve()) for each in gather([folder]).files if each.packing is None)
    plan = Plan((NodeSpec("vm", link="local"),), interval_s=0.2, source="test", log_options=files)
    with Session(plan) as session:
        wait_for_first_report(session, WAIT_S)
        found = standing(session.book, session.fleet, time.monotonic(), time.time())
    severities = [*(each.severity for each in found.incidents), *(each.severity for each in found.alerts)]
    return any(severity in ALARMS for severity in severities)


def alarmed_offline(folder: Path) -> bool:
    facts = scanned(folder)
    return any(each["severity"] in ALARMS for each in facts["incidents"] + facts["alerts"])


def differences(folders: list[Path]) -> dict[str, tuple[bool, bool]]:
    """Folder -> (alarmed live, alarmed offline), where these differ."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        live = list(pool.map(alarmed_live, folders))
    offline = [alarmed_offline(folder) for folder in folders]
    pairs = zip(live, offline, strict=True)
    return {each.name: pair for each, pair in zip(folders, pairs, strict=True) if pair[0] != pair[1]}


def test_harmless_folders_that_need_the_lines_below_alarm_in_neither() -> None:
    folders = [CORPUS / "harmless" / name for name in FOLLOWED_NOTHING]
    assert differences(folders) == {}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["harmless", "failures"])
def test_live_and_scan_agree_over_the_corpus(kind: str) -> None:
    folders = sorted(each for each in (CORPUS / kind).iterdir() if each.is_dir())
    found = differences(folders)
    assert found.keys() - DIFFERENT.keys() == set(), found
