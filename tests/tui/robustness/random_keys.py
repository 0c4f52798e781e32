"""Presses keys, clicks, resizes and loses nodes at random, over any session; a seed does the same again."""

from __future__ import annotations

import contextlib
import inspect
import random
from collections import deque
from collections.abc import Collection
from pathlib import Path
from typing import Any

from textual.errors import NoWidget
from textual.pilot import Pilot
from textual.widgets import Input

from gpuwatch.link.opening import Links
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.toolkit import keys

ENDS = {"quit", "suspend_process"}
"""Actions that end or stop the program; `back_or_quit` does so on the fleet's screen alone."""
OUTSIDE = {"pager", "save_screen"}
"""Actions that start a program of the person's, or write files into the working folder."""
SIZES = ((80, 24), (120, 40), (200, 60), (40, 12), (160, 45), (20, 5))
TYPED = (
    "gpu", "rank=85", "temp>85 & host~=gpu", "(((", "failed", "0-7", "", "node gpu-003", "*", "12:02:03", "ä",
)  # fmt: skip
LAST = 200
CHURN = 0.05
"""Share of the gestures that lose nodes or bring them back."""


def bound_keys(without: Collection[str] = ()) -> list[str]:
    """Every key of the help page and of Textual's own parts, but for actions that end the program."""
    bindings = [binding for _, section in keys.SECTIONS for binding in section]
    pressed = {
        key.strip()
        for binding in bindings
        if binding.action.split("(")[0].split(".")[-1] not in {*ENDS, *OUTSIDE, *without}
        for key in binding.key.split(",")
    }
    return sorted(pressed | {"enter", "escape", "tab", "shift+tab", "backspace", "ctrl+a", "ctrl+k", "f1"})


class EndlessApp(GpuwatchApp):
    """The app without its own ways to quit; only a fault ends it."""

    CSS_PATH = str(Path(inspect.getfile(GpuwatchApp)).with_name("gpuwatch.tcss"))

    async def action_quit(self) -> None:
        """Stay."""

    async def action_back_or_quit(self) -> None:
        """Go back; stay on the fleet's screen, where a click on the key hints would quit, too."""
        if len(self.screen_stack) > 1:
            await super().action_back_or_quit()


class RandomKeys:
    """One person who presses anything; `history` has the last gestures, for the report of a failure."""

    def __init__(
        self,
        app: GpuwatchApp,
        pilot: Pilot[Any],
        seed: int,
        without: Collection[str] = (),
        links: Links | None = None,
    ) -> None:
        """`without`: actions whose keys are left out; `links`: the nodes that are lost and found, too."""
        self.history: deque[str] = deque(maxlen=LAST)
        self._app = app
        self._pilot = pilot
        self._rng = random.Random(seed)
        self._keys = bound_keys(without)
        self._unclicked_rows = 1 if without else 0
        """The line of key hints: a click there would press a key that is left out."""
        self._links = links

    async def gesture(self) -> None:
        """Do one item."""
        rng = self._rng
        if self._links is not None and rng.random() < CHURN:
            self._churn(self._links)
            return
        what = rng.random()
        if isinstance(self._app.focused, Input) and what < 0.4:
            text = rng.choice(TYPED)
            self.history.append(f"type {text!r}")
            self._app.focused.value = text
            await self._press("enter" if rng.random() < 0.8 else "escape")
        elif what < 0.06:
            await self._mouse()
        elif what < 0.09:
            size = rng.choice(SIZES)
            self.history.append(f"resize {size}")
            await self._pilot.resize_terminal(*size)
        elif what < 0.2:
            for _ in range(rng.randint(3, 12)):
                await self._press(rng.choice(self._keys), wait=0.0)
            await self._pilot.pause()
        else:
            await self._press(rng.choice(self._keys))

    def _churn(self, links: Links) -> None:
        """Lose one node, some or all, whatever is shown, or have the lost ones back at once."""
        if self._rng.random() < 0.3:
            self.history.append("nodes back")
            links.retry()
            return
        names = [link.node for link in links.all]
        for name in self._rng.sample(names, self._rng.choice((1, min(3, len(names)), len(names)))):
            self.history.append(f"lose {name}")
            links.hang_up(name, "the connection was closed by [/remote] host")

    async def _press(self, key: str, wait: float = 0.7) -> None:
        """Press a key; `wait`: how often (0 to 1) what it does has an end before the next one."""
        if key == "q":
            await self._pilot.pause()
            if self._app.where == "fleet":
                return
        self.history.append(key)
        self._app.simulate_key(key)
        if self._rng.random() < wait:
            await self._pilot.pause()

    async def _mouse(self) -> None:
        width, height = self._app.size
        at = self._rng.randrange(width), self._rng.randrange(height - self._unclicked_rows)
        self.history.append(f"click {at}")
        with contextlib.suppress(NoWidget):  # a screen that was just opened has no layout yet
            await self._pilot.click(offset=at, times=self._rng.choice((1, 1, 2)))
