"""What one TCP connection carries between two hosts of a lab, measured with plain sockets."""

from __future__ import annotations

import subprocess
import sys

from tests.netlab.lab import Lab, address
from tests.parts import need

SIZE = 4 << 20
_RECEIVE = """
import socket, sys, time
server = socket.create_server((sys.argv[1], 0))
print(server.getsockname()[1], flush=True)
server.settimeout(30)
connection, _ = server.accept()
connection.settimeout(30)
left, began = int(sys.argv[2]), None
while left > 0:
    piece = connection.recv(1 << 16)
    began = began or time.perf_counter()
    if not piece:
        break
    left -= len(piece)
print(time.perf_counter() - began)
"""
_SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 2) as out:
    out.sendall(bytes(int(sys.argv[3])))
    out.shutdown(socket.SHUT_WR)
    out.recv(1)
"""


def mb_per_s(lab: Lab, src: int, dst: int) -> float | None:
    """10^6 bytes per second from one host to the other; None when they cannot connect."""
    receiver = subprocess.Popen(
        _python(lab, dst, _RECEIVE, address(dst), str(SIZE)), stdout=subprocess.PIPE, text=True
    )
    try:
        assert receiver.stdout is not None
        port = receiver.stdout.readline().strip()
        sent = subprocess.run(
            _python(lab, src, _SEND, address(dst), port, str(SIZE)),
            capture_output=True,
            check=False,
            timeout=60,
        )
        if sent.returncode != 0:
            return None
        return SIZE / float(receiver.stdout.readline()) / 1e6
    finally:
        receiver.kill()
        receiver.communicate()


def _python(lab: Lab, host: int, program: str, *args: str) -> list[str]:
    return [need("ip"), "netns", "exec", lab.space(host), sys.executable, "-c", program, *args]
