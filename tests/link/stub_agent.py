"""A small agent for the links' own tests: it keeps to the wire and does what its config asks of it."""

from __future__ import annotations

from collections.abc import Mapping

MAIN = """
import json, os, sys, threading, time, zlib
from .words import HELLO

def run(config, stdin, stdout):
    lock = threading.Lock()
    squeeze = zlib.compressobj(1)
    state = {"seq": 0}
    def write(*frames):
        with lock:
            lines = b""
            for frame in frames:
                frame.update(t=time.time() + config.get("clock_ahead_s", 0.0), seq=state["seq"], v=1)
                state["seq"] += 1
                lines += json.dumps(frame).encode() + b"\\n"
            stdout.write(squeeze.compress(lines) + squeeze.flush(zlib.Z_SYNC_FLUSH))
            stdout.flush()
    stdout.write(("\\nGPUWATCH1 %s\\n" % config["nonce"]).encode())
    stdout.flush()
    python = "%d.%d.%d" % sys.version_info[:3]
    write(dict(HELLO, python=python, pid=os.getpid(), interval_s=config["interval_s"]))
    def tick():
        while True:
            try:
                write({"kind": "sample"})
            except OSError:
                os._exit(0)
            time.sleep(config["interval_s"])
    thread = threading.Thread(target=tick)
    thread.daemon = True
    thread.start()
    for line in stdin:
        request = json.loads(line.decode())
        if request["do"] == "ping":
            write({"kind": "reply", "id": request["id"]})
    return 0
"""
WORDS = 'HELLO = {"kind": "hello", "host": "stub", "agent": "0"}\n'


def stub_agent(main: str = MAIN, **more: str) -> Mapping[str, str]:
    """The modules of a stub agent; `main` replaces its main module."""
    return {"gpuwatch_agent": "", "gpuwatch_agent.main": main, "gpuwatch_agent.words": WORDS, **more}
