"""A node whose name no longer resolves stays connected, and is found again under another address."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.chaos.simulated import LATE_S
from tests.parts import need

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


def test_names_that_stop_resolving_and_change_their_address(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a mount namespace")
    need("sshd")
    argv = [need("unshare"), "--mount", sys.executable, "-m", "tests.end_to_end.chaos.names", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    assert seen["attempt_without_dns"] == 1
    assert seen["age_without_dns_s"] <= LATE_S
    assert seen["age_of_fixed_s"] <= LATE_S
    assert seen["new_address"]
    assert set(seen["codes"]) <= {"node_lost"}
