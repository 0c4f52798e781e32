"""Faults of a node, or of the agent on it."""

from __future__ import annotations

import signal

from tests.chaos.faults.fault import HOUR_S
from tests.chaos.scene.scene import Scene

FLOOD_S, JUNK_LINES = 5, 100


def stop(scene: Scene) -> None:
    """The node's ranks go on."""
    scene.signal(scene.watchers("n1"), signal.SIGSTOP)


def go_on(scene: Scene) -> None:
    """Undo `stop`."""
    scene.signal(scene.watchers("n1"), signal.SIGCONT)


def kill_agent(scene: Scene) -> None:
    """With what it has started."""
    scene.signal(scene.logins("n1"), signal.SIGKILL)


def garbage(scene: Scene) -> None:
    """No zlib stream goes on after them."""
    _order(scene, "garbage")


def junk(scene: Scene) -> None:
    """Packed like frames."""
    _order(scene, f"junk {JUNK_LINES}")
    scene.polling.until(lambda: scene.session.fleet.nodes["n2"].refused >= JUNK_LINES, "all counted")


def flood(scene: Scene) -> None:
    """The newest sample, again and again."""
    _order(scene, f"flood {FLOOD_S}")
    scene.polling.wait(FLOOD_S)


def _order(scene: Scene, words: str) -> None:
    folder = scene.folder / "n2"
    (folder / "order.new").write_text(words)
    (folder / "order.new").rename(folder / "order")


def clock_forward(scene: Scene) -> None:
    """Of all that runs there for a login, and of the times of its files."""
    scene.clocks["n1"].set_forward(HOUR_S)


def clock_back(scene: Scene) -> None:
    """The same the other way."""
    scene.clocks["n1"].set_forward(-HOUR_S)


def clock_right(scene: Scene) -> None:
    """Undo `clock_forward`."""
    scene.clocks["n1"].set_forward(0)


def power_off(scene: Scene) -> None:
    """Nothing says goodbye."""
    scene.network.unplug("n1")
    scene.cluster["n1"].sshd.stop()


def power_on(scene: Scene) -> None:
    """With another boot id, and without its ranks."""
    scene.network.plug("n1")
    scene.cluster["n1"].reboot()


def reboot(scene: Scene) -> None:
    """Its kernel closes the connections."""
    scene.cluster["n2"].reboot()
