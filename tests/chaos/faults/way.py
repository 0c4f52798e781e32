"""Faults of the way to a node: network, names, addresses, jump hosts, keys of the connection."""

from __future__ import annotations

import signal

from tests.chaos.scene.scene import Scene

NEW_ADDRESS = "10.99.0.77"
STILL_S = 3.0
"""Watched after the name is gone: an open connection needs none."""


def drop(scene: Scene) -> None:
    """As a firewall does that drops."""
    scene.network.drop("n1")


def accept(scene: Scene) -> None:
    """Undo `drop`."""
    scene.network.accept("n1")


def unplug(scene: Scene) -> None:
    """Its cable, or the port of its switch."""
    scene.network.unplug("n1")


def plug(scene: Scene) -> None:
    """Undo `unplug`."""
    scene.network.plug("n1")


def forget_name(scene: Scene) -> None:
    """First for an open connection, then for the next one."""
    scene.resolve(None)
    attempt = scene.session.fleet.nodes["n3"].link.attempt
    scene.polling.wait(STILL_S)
    assert scene.session.fleet.nodes["n3"].link.attempt == attempt, "connected anew without a reason"
    scene.signal(scene.logins("n3"), signal.SIGKILL)


def change_address(scene: Scene) -> None:
    """The name has the old one still."""
    scene.network.move("n3", NEW_ADDRESS)


def know_name(scene: Scene) -> None:
    """The name has the address that the node has."""
    scene.resolve(scene.network.addresses["n3"])


def stop_gate(scene: Scene) -> None:
    """With all connections through it."""
    scene.gate.sshd.stop()


def start_gate(scene: Scene) -> None:
    """On the same port."""
    scene.gate.sshd.restart()


def exchange_keys(scene: Scene) -> None:
    """Wait until the jump host has asked twice."""
    log = scene.gate.sshd.log
    before = log.read_bytes().count(NEW_KEYS)
    scene.polling.until(lambda: log.read_bytes().count(NEW_KEYS) >= before + 2, "two exchanges of keys")


NEW_KEYS = b"SSH2_MSG_NEWKEYS received"
