"""The demo, with a fault planted in it: `poll` raises now and then, or no screen can be made.

Usage: python -m tests.end_to_end.tty.crash poll|compose
"""

from __future__ import annotations

import sys
from itertools import count

from gpuwatch.cli.main import main
from gpuwatch.fleet.stepwise import Steps
from gpuwatch.session import Session
from gpuwatch.tui.fleet.screen import FleetScreen

_healthy_polling = Session.polling
_calls = count()


def _polling(session: Session) -> Steps[bool]:
    if next(_calls) % 20 == 19:
        raise RuntimeError("planted-fault")
    return (yield from _healthy_polling(session))


def _compose(_screen: FleetScreen) -> None:
    raise RuntimeError("planted-fault")


if __name__ == "__main__":
    if sys.argv[1] == "poll":
        Session.polling = _polling  # type: ignore[method-assign,assignment]
    else:
        FleetScreen.compose = _compose  # type: ignore[method-assign,assignment]
    sys.argv = ["gpuwatch", "--demo"]
    main()
