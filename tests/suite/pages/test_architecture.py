"""docs/architecture.md: each folder has a row, and its walk of a log line is what happens."""

from __future__ import annotations

import itertools
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from gpuwatch.agent.logs.files.follower import Follower
from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.agent.output_stream import OutputStream
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.frame_stream import FrameStream, Started
from gpuwatch.link.stream.inbox import Arrival, Inbox, Refused
from gpuwatch.rules.load import load_packs
from tests.packs import built_in_rules
from tests.tui.screen_text import text_on
from tests.tui.still import NOW, StillSession, still_app

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_every_folder_has_one_row() -> None:
    rows = re.findall(r"^\| `([\w/]+/)` \|", PAGE.partition("## The folders")[2], re.MULTILINE)
    folders = {file.parent.relative_to(ROOT / "gpuwatch") for file in (ROOT / "gpuwatch").rglob("*.py")}
    assert sorted(rows) == sorted(f"{folder}/" for folder in folders - {Path()})


LINE = "[rank5]: RuntimeError: CUDA error: an illegal memory access was encountered"
STEPS = re.findall(r"^\| `([\w/]+\.py)` \| `(\w+)` \|", PAGE, re.MULTILINE)
OTHER_PROCESSES = {
    "agent/logs/file_turns.py", "agent/logs/guarded_scan.py", "agent/logs/reporter.py",
    "agent/logs/ipc/outbox.py", "agent/logs/supervisor.py", "agent/emitter.py", "link/agent/agent_link.py",
    "session/session.py",
}  # fmt: skip
"""Steps of the loops of the agent, its log reader and the session, which this test plays."""


PLACES = re.findall(r"^\| .* \| `(\w+)` in `([\w/]+\.py)` \|", PAGE, re.MULTILINE)
"""Function and file of each row of "Which function ..."."""


def test_the_functions_of_the_page_exist() -> None:
    assert len(STEPS) > 20
    assert len(PLACES) > 15
    for path, name in [*STEPS, *((path, name) for name, path in PLACES)]:
        source = (ROOT / "gpuwatch" / path).read_text()
        assert re.search(rf"^ *(?:async )?def {name}\(", source, re.MULTILINE), (path, name)


@contextmanager
def called(order: dict[tuple[str, str], None]) -> Iterator[None]:
    """Put each function of gpuwatch into `order` when it is first called."""
    top = f"{ROOT / 'gpuwatch'}{os.sep}"

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(top):
            order.setdefault((frame.f_code.co_filename.removeprefix(top), frame.f_code.co_name), None)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def read_on_the_node(log: Path, moment: float) -> list[dict[str, Any]]:
    """The findings of a file, by the parts of the log reader."""
    follower = Follower(str(log), time.monotonic)
    follower.open(0)
    piece = follower.read(1 << 20)
    assert piece is not None
    scanner = Scanner(built_in_rules(), str(log), itertools.count(1).__next__)
    found = [*scanner.feed(piece.data, piece.offset, moment), *scanner.end()]
    follower.close()
    return [{"kind": "finding", "v": 1, "seq": 1, **finding, "t": moment} for finding in found]


def sent(frames: list[dict[str, Any]]) -> bytes:
    """What the agent writes for these frames."""
    ours, its = os.pipe()
    out = OutputStream(its, "nonce")
    out.write(frames)
    data = os.read(ours, 1 << 20)
    os.close(ours)
    os.close(its)
    return data


async def test_a_line_goes_the_way_of_the_walk_to_the_screen(tmp_path: Path) -> None:
    moment, order = time.time(), dict[tuple[str, str], None]()
    log = tmp_path / "rank5.log"
    log.write_text(f"{LINE}\n")
    packs = load_packs()
    session = StillSession(Plan((NodeSpec("gpu-001"),)))
    session.packs, session.book = packs, AlertBook(packs, session.plan.thresholds)
    built_in_rules()
    with called(order):
        data = sent(read_on_the_node(log, moment))
        inbox = Inbox()
        for item in FrameStream("nonce").feed(data, NOW):
            if not isinstance(item, Started):
                assert not isinstance(item, Refused)
                inbox.put(Arrival("gpu-001", NOW, item))
        for arrival in inbox.drain():
            session.fleet.apply(arrival)
        while not session.book.incidents:
            session.book.update(session.fleet, NOW, moment)
        app = still_app(session)
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.press("4")
            await pilot.pause()
            shown = text_on(app)
    assert session.book.incidents[0].headline.split(" at ")[0][:60] in shown
    walked = [step for step in STEPS if step[0] not in OTHER_PROCESSES]
    assert len(walked) > 12
    assert [step for step in walked if step not in order] == []
    happened = sorted(walked, key=list(order).index)
    assert happened == walked
