"""The socket that other nodes connect to, on one address and never on all."""

import os
import select
import socket
import threading
import time

_BACKLOG = 4096
"""Length of the queue of connections: all nodes connect at once. The kernel may limit it further."""
_PAUSE_S = 0.05


class Listener(object):
    """A listening socket that accepts and closes every connection, until `take` hands it over."""

    def __init__(self, address: str) -> None:
        """Listen on this address, at a port of the kernel's choice.

        Raises:
            OSError: it is no address of this node, or cannot be bound.
        """
        family = family_of(address)
        self.address = address
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self.socket.bind((address, 0))
            self.socket.listen(_BACKLOG)
        except BaseException:
            self.socket.close()
            raise
        self.port: int = self.socket.getsockname()[1]
        self.socket.setblocking(False)
        self._stopped, self._stop_signal = os.pipe()
        self._thread = threading.Thread(target=self._answer, name="listening")
        self._thread.daemon = True
        self._thread.start()

    def take(self) -> "socket.socket":
        """Return the socket, still listening, with an empty queue; the caller closes it."""
        self._stop()
        while self._accept():
            pass
        self.socket.setblocking(True)
        return self.socket

    def close(self) -> None:
        """Stop listening."""
        self._stop()
        self.socket.close()

    def _stop(self) -> None:
        os.close(self._stop_signal)
        self._thread.join()
        os.close(self._stopped)

    def _answer(self) -> None:
        waiting = select.poll()
        for descriptor in (self.socket.fileno(), self._stopped):
            waiting.register(descriptor, select.POLLIN)
        while not any(descriptor == self._stopped for descriptor, _ in waiting.poll()):
            if not self._accept():
                time.sleep(_PAUSE_S)  # no descriptor is left, for instance

    def _accept(self) -> bool:
        """Accept and close a connection; return True if there was one."""
        try:
            self.socket.accept()[0].close()
        except ConnectionError:
            return True  # withdrawn already
        except OSError:
            return False
        return True


def family_of(address: str) -> int:
    """Return AF_INET6 for an address with colons, else AF_INET."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET
