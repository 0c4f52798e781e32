"""Presses keys, clicks, resizes and loses nodes at random, over any session; a seed does the same again."""

from __future__ import annotations

import inspect
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from textual import events
from textual.pilot import Pilot, WaitForScreenTimeout
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
SCREENS = "123456"
STUCK_CPU_S = 30.0
"""CPU seconds of this process after which a screen that has not handled its messages is stuck."""
STUCK_TRIES = 6
"""Waits of Textual's pilot, of 30 s each, after which it is stuck although it takes no CPU."""


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
            await self._type()
        elif what < 0.06:
            await self._click()
        elif what < 0.08:
            await self._wheel()
        elif what < 0.11:
            size = rng.choice(SIZES)
            self.history.append(f"resize {size}")
            await self._patiently(lambda: self._pilot.resize_terminal(*size))
        elif what < 0.2:
            for _ in range(rng.randint(3, 12)):
                await self._press(rng.choice(self._keys), wait=0.0)
            await self._settle()
        elif what < 0.22:
            await self._frozen_and_filtered()
        else:
            await self._press(rng.choice(self._keys))

    async def _type(self) -> None:
        """Replace the text of the focused field, if one is focused, and mostly accept it."""
        field = self._app.focused
        if isinstance(field, Input):
            text = self._rng.choice(TYPED)
            self.history.append(f"type {text!r}")
            field.value = text
            await self._press("enter" if self._rng.random() < 0.8 else "escape")

    async def _frozen_and_filtered(self) -> None:
        """Freeze (a recording: play or pause), go to an incident, filter, and see some screens like that."""
        rng = self._rng
        for key in rng.sample(("p", "right_curly_bracket", "exclamation_mark", "L", "greater_than_sign"), 3):
            await self._press(key)
        await self._press("slash", wait=1.0)
        await self._type()
        for key in rng.sample(SCREENS, 3):
            await self._press(key)

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
        """Press a key; `wait`: the probability (0 to 1) that the screen settles before the next one."""
        if key == "q":
            await self._settle()
            if self._app.where == "fleet":
                return
        self.history.append(key)
        self._app.simulate_key(key)
        if self._rng.random() < wait:
            await self._settle()

    def _cell(self) -> tuple[int, int]:
        """Return a random cell (x, y) of the screen above the unclicked rows, often one of a tab."""
        width, height = self._app.size
        tabs = [(tab.region.x, tab.region.y) for tab in self._app.screen.query("ContentTab")]
        if (
            shown := [(x, y) for x, y in tabs if 0 <= x < width and 0 < y < height]
        ) and self._rng.random() < 0.3:
            return self._rng.choice(shown)
        return self._rng.randrange(width), self._rng.randrange(height - self._unclicked_rows)

    async def _click(self) -> None:
        """Click once or twice, or drag from one cell to another."""
        begin = self._cell()
        end = self._cell() if self._rng.random() < 0.2 else begin
        times = self._rng.choice((1, 1, 2))
        self.history.append(f"click {begin} to {end}, {times} times")
        for _ in range(times):
            self._mouse(events.MouseDown, begin, button=1)
            if end != begin:
                self._mouse(events.MouseMove, end, button=1)
            self._mouse(events.MouseUp, end, button=1)
        await self._settle()

    async def _wheel(self) -> None:
        """Turn the wheel over one cell, some steps or many."""
        at = self._cell()
        turned = self._rng.choice((events.MouseScrollUp, events.MouseScrollDown))
        steps = self._rng.choice((1, 5, 60))
        self.history.append(f"{turned.__name__} {at}, {steps} steps")
        for _ in range(steps):
            self._mouse(turned, at)
        await self._settle()

    def _mouse(self, kind: type[events.MouseEvent], at: tuple[int, int], button: int = 0) -> None:
        """Post a mouse event at a cell as the terminal would."""
        x, y = at
        self._app.post_message(
            kind(
                widget=None,
                x=x,
                y=y,
                delta_x=0,
                delta_y=0,
                button=button,
                shift=False,
                meta=False,
                ctrl=False,
            )
        )

    async def _settle(self) -> None:
        """Wait until the screen has handled what came so far."""
        await self._patiently(self._pilot.pause)

    async def _patiently(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do it again while Textual's pilot gives up on a starved machine, not for a screen that is stuck."""
        began = time.process_time()
        for left in reversed(range(STUCK_TRIES)):
            with suppress(WaitForScreenTimeout) if left else nullcontext():
                await act()
                return
            if time.process_time() - began > STUCK_CPU_S:
                raise TimeoutError("the screen is stuck")
