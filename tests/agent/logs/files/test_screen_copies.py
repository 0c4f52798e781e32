"""A copy of gpuwatch's screen in a user's folder shows lines of logs and is no log itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.agent.logs.discovery.tail import LogTail
from gpuwatch.agent.logs.matching.prefilter import Prefilter
from gpuwatch.agent.logs.matching.ruleset import RuleSet

HEAD = "===== 4-80x24.txt\n gpuwatch   node-3  1 job                                     08:00:40 UTC\n"
BODY = (
    "Traceback (most recent call last):\n ✖ torch rank 3: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)
TRAIN = "2026-03-04 08:00:3{} INFO step 4{}/900 loss 2.1\n"
KEYS = "enter Open m Log / Find ? Help q Quit\n"
LOG = "".join(TRAIN.format(at, at) for at in range(9))


@pytest.mark.parametrize(
    ("text", "is_log"),
    [
        (HEAD + BODY + LOG + KEYS, False),
        (LOG + BODY, True),
        ("gpuwatch run started\n" + LOG + BODY, True),
        (LOG + "press ? Help or q Quit\n" + BODY, True),
    ],
)
def test_only_a_log_is_taken_for_one(tmp_path: Path, text: str, is_log: bool) -> None:
    path = tmp_path / "saved.txt"
    path.write_text(text)
    rules = RuleSet([])
    assert LogTail(str(path)).is_training(rules, Prefilter(rules)) is is_log
