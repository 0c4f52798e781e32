"""What the screens state about a job that ended long ago: the order of its events, ages, nodes and files."""

from __future__ import annotations

import os
from pathlib import Path

from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.incidents.screen import IncidentsScreen
from tests.session.log_folder.folders import judged_folder

OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 5 is full."
FRAME = '  File "train.py", line 4, in <module>'
END = 1_769_232_862
"""2026-01-24 05:34:22 UTC: when the files were last written."""


def job(folder: Path) -> None:
    """Three ranks: the undated error of one, and the time-outs of the others ten minutes later."""
    for rank in (1, 2, 5):
        lines = [
            f"2026-01-24T05:{minute:02}:00Z INFO [rank{rank}] node gpu-003 step {minute} loss 2.{minute}"
            for minute in range(25)
        ]
        if rank == 5:
            lines += ["Traceback (most recent call last):", FRAME, OUT_OF_MEMORY]
        else:
            lines += [
                f"2026-01-24T05:34:02Z [rank{rank}]:[E ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog "
                "caught collective operation timeout: WorkNCCL(SeqNum=99, OpType=ALLREDUCE, NumelIn=1, "
                "NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
            ]
        (folder / f"rank_{rank}.log").write_text("\n".join(lines) + "\n")
    (folder / "requirements.txt").write_text("torch==2.6.0\nnumpy==2.1.0\n")
    for file in folder.iterdir():
        os.utime(file, (END, END))


def shown(app: GpuwatchApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def test_the_error_stands_before_what_it_explains_and_ages_count_to_the_end(tmp_path: Path) -> None:
    job(tmp_path)
    with judged_folder(tmp_path) as session:
        names = [log.path.name for log in session.report.files]
        assert names == ["rank_1.log", "rank_2.log", "rank_5.log"]
        (incident,) = session.book.incidents
        assert incident.rank == 5
        first, *rest = [each for each in incident.timeline if each.role != "hint"]
        assert (first.ranks, first.bound, first.at) == ((5,), "after", END - 622)
        assert [(each.ranks, each.bound, each.at) for each in rest] == [((1, 2), None, END - 20)]
        app = GpuwatchApp(session, clock=session.clock)
        async with app.run_test(size=(140, 50)) as pilot:
            await pilot.pause()
            app.pump()
            assert " ago" not in shown(app)
            await pilot.press("4")
            assert isinstance(app.screen, IncidentsScreen)
            app.pump()
            await pilot.pause()
            screen = shown(app)
            assert " ago" not in screen
            assert "+10m" in screen  # the time-outs, from the earliest time of the error
