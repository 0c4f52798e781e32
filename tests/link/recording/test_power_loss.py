"""After a power loss all that was committed is there: of each file only what was flushed is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from gpuwatch.link.recording.reader import Recording
from gpuwatch.link.recording.tee import MICRO
from tests.parts import need_compiler

ROOT = Path(__file__).parents[3]
PROGRAM = """
import os, sys, time
from pathlib import Path
from tests.link.recording.test_writer import NODES, PLAN, block
from gpuwatch.link.recording.writer import RecordingWriter

writer = RecordingWriter(Path(sys.argv[1]), PLAN, NODES)
for second in range(1, 8):
    writer.put(block(second, 3_000))
    while writer.state.frames < second:
        time.sleep(0.01)
os._exit(0)  # nothing is closed, no checkpoint is made
"""


def test_what_was_committed_outlives_a_power_loss(tmp_path: Path) -> None:
    need_compiler()
    library, disk = tmp_path / "durable.so", tmp_path / "disk"
    disk.mkdir()
    source = Path(__file__).with_name("durable.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    env = os.environ | {"LD_PRELOAD": str(library), "DURABLE": str(disk)}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "a.gpw")]
    subprocess.run(command, check=True, env=env, cwd=ROOT, timeout=110)
    assert sorted(each.name for each in disk.iterdir()) == ["a.gpw", "a.gpw-wal"]
    with closing(Recording(disk / "a.gpw")) as recording:
        assert [each.first // MICRO for each in recording.blocks(0)] == list(range(1, 8))
        assert recording.damaged == 0
