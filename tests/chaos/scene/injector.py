"""Runs the command that ssh asks for, and disturbs what it writes: a ForceCommand of sshd.

    injector.py FOLDER

FOLDER/order says once how: `garbage`: bytes that are no zlib stream; `junk N`: N lines that are no frames;
`flood S`: the newest sample again and again for S seconds.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
import zlib
from pathlib import Path

MARK = b"\nGPUWATCH1 "
FEW_S = 0.1


class Disturbed:
    """The output of one agent: raw until its start marker, then unpacked and packed again."""

    def __init__(self, folder: Path) -> None:
        self._order = folder / "order"
        self._before = b""
        self._started = False
        self._unpack, self._pack = zlib.decompressobj(), zlib.compressobj(1)
        self._text = b""
        self._sample = b""

    def take(self, data: bytes) -> None:
        """Pass on what the agent wrote."""
        if self._started:
            self._frames(data)
            return
        self._before += data
        at = self._before.find(MARK)
        end = self._before.find(b"\n", at + len(MARK)) if at >= 0 else -1
        if end < 0:
            return
        self._started = True
        raw, rest = self._before[: end + 1], self._before[end + 1 :]
        write(raw)
        self._frames(rest)

    def finish(self) -> None:
        """The command has ended: pass on what was no agent's."""
        if not self._started:
            write(self._before)

    def _frames(self, data: bytes) -> None:
        text = self._unpack.decompress(data)
        *lines, self._text = (self._text + text).split(b"\n")
        for line in lines:
            if b'"kind":"sample"' in line.replace(b" ", b""):
                self._sample = line
        self._send(text)

    def _send(self, text: bytes) -> None:
        write(self._pack.compress(text) + self._pack.flush(zlib.Z_SYNC_FLUSH))

    def disturb(self) -> None:
        """Do what the order says, between two lines."""
        if not self._started or self._text or not self._sample or not self._order.exists():
            return
        word, _, number = self._order.read_text().strip().partition(" ")
        self._order.unlink()
        if word == "garbage":
            write(os.urandom(4096))
        elif word == "junk":
            self._send(b"no frame\n" * int(number))
        elif word == "flood":
            until = time.monotonic() + float(number)
            while time.monotonic() < until:
                self._send((self._sample + b"\n") * 50)


def write(data: bytes) -> None:
    """To ssh, at once."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def main(folder: Path) -> int:
    """Run the command to its end."""
    asked = os.environ["SSH_ORIGINAL_COMMAND"]
    with subprocess.Popen(["/bin/sh", "-c", asked], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        stream = Disturbed(folder)
        while True:
            if select.select([child.stdout], [], [], FEW_S)[0]:
                data = os.read(child.stdout.fileno(), 65536)
                if not data:
                    break
                stream.take(data)
            stream.disturb()
        stream.finish()
        return child.wait()


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1])))
    except BrokenPipeError:
        os._exit(1)  # the connection is gone; the agent notices by itself
