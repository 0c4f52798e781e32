"""Screen 6 shows inference servers, with and without a training beside them."""

from __future__ import annotations

import pytest

from gpuwatch.link.serving.engines import read_page
from tests.link.serving.pages import vllm
from tests.tui.screen_text import text_on
from tests.tui.still import NOW, judged_session, still_app

SECOND = 95


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_a_server_stands_over_the_ranks(size: tuple[int, int]) -> None:
    session = judged_session(SECOND)
    for n in range(13):
        page = vllm(running=18, waiting=43, stop=10 * n, fast=5 * n, all=10 * n)
        session.fleet.servers.take("llama\x1b[2J", read_page(page, NOW - 60 + 5 * n), NOW - 60 + 5 * n)
    app = still_app(session, SECOND)
    async with app.run_test(size=size) as pilot:
        await pilot.press("6")
        for _ in range(3):
            app.pump()
            await pilot.pause()
        text = " ".join(text_on(app).split())
    assert "43 waiting" in text
    assert "p95" in text
    assert "\x1b" not in text
