"""The demo, with a fault planted in it: the third poll of the session raises."""

from __future__ import annotations

import sys
from itertools import count

from gpuwatch.cli.main import main
from gpuwatch.session import Session

_healthy_poll = Session.poll
_calls = count()


def _poll(session: Session) -> bool:
    if next(_calls) > 20:
        raise RuntimeError("a fault planted by the test")
    return _healthy_poll(session)


if __name__ == "__main__":
    Session.poll = _poll  # type: ignore[method-assign,assignment]
    sys.argv = ["gpuwatch", "--demo"]
    main()
