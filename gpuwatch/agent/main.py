"""Entry point of the agent, called once by the bundle; leaves nothing on the node."""

import os
import signal

from .base.requests import Requests
from .base.settings import Settings
from .emitter import Emitter
from .output_stream import OutputStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, BinaryIO

NICE = 10


def run(config: "dict[str, Any]", stdin: "BinaryIO", stdout: "BinaryIO") -> int:
    """Write frames to `stdout` and answer requests from `stdin` until one ends; return the exit status.

    The caller must exit by `os._exit`: a thread that hangs in the driver would block a normal exit.

    Args:
        config: nonce (str), and the keys of `Settings`.
        stdin: The rest of the stream that the agent was sent on.
        stdout: Where the start marker and the zlib stream are written.
    """
    try:
        os.nice(NICE)
    except OSError:
        pass  # not permitted: keep the given priority
    stdout.flush()
    outlet = OutputStream(stdout.fileno(), str(config["nonce"]))
    requests = Requests(stdin)
    emitter = Emitter(Settings(config), requests, outlet)

    def leave(number: int, _frame: "FrameType | None") -> None:
        emitter.leave("signal {}".format(number))

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, leave)
    try:
        return emitter.serve()
    finally:
        requests.restore()
        outlet.restore()
