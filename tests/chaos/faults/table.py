"""The table: what happens, what ends it, what the operator must see meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

from tests.chaos.faults import cockpit, node, way
from tests.chaos.faults.fault import HOUR_S, Fault
from tests.chaos.scene.many import CUT, ManyNodes
from tests.chaos.scene.scene import NAMED, NAMES, Scene

CLOCKS = frozenset(("clock_off",))
RANKS_GONE = frozenset(("node_rebooted", "sudden_end"))

FAULTS: Mapping[str, Fault[Scene]] = {
    "black_holed": Fault("all packets of a node dropped", way.drop, way.accept, ("n1",)),
    "unplugged": Fault("a node's network link down", way.unplug, way.plug, ("n1",)),
    "stopped": Fault("sshd and agent of a node stopped (SIGSTOP)", node.stop, node.go_on, ("n1",)),
    "agent_killed": Fault("agent killed (SIGKILL)", node.kill_agent, None, ("n1",)),
    "garbage": Fault("4 kB of random bytes in the agent's stream", node.garbage, None, ("n2",)),
    "junk": Fault(
        "100 lines in the stream that are no frames", node.junk, None, sign="frames_refused", passes=False
    ),
    "flood": Fault(
        "samples in the stream for 5 s, as many as it carries",
        node.flood,
        None,
        ("n2",),
        "frames_refused",
        passes=False,
    ),
    "node_clock": Fault(
        "a node's clock one hour ahead", node.clock_forward, node.clock_right, sign="clock_off", codes=CLOCKS
    ),
    "own_clock": Fault(
        "the clock of gpuwatch's machine one hour ahead",
        cockpit.clock_forward,
        cockpit.clock_right,
        sign="clock_off",
        codes=CLOCKS,
    ),
    "node_clock_back": Fault(
        "a node's clock one hour behind", node.clock_back, node.clock_right, sign="clock_off", codes=CLOCKS
    ),
    "own_clock_back": Fault(
        "the clock of gpuwatch's machine one hour behind",
        cockpit.clock_back,
        cockpit.clock_right,
        sign="clock_off",
        codes=CLOCKS,
    ),
    "asleep": Fault(
        "gpuwatch's machine asleep for an hour, all connections dead",
        cockpit.sleep_for(HOUR_S),
        None,
        NAMES,
        codes=CLOCKS,
    ),
    "paused": Fault("gpuwatch stopped for 40 s (SIGSTOP)", cockpit.pause, None, NAMES),
    "disk_full": Fault("disk full while recording", cockpit.fill_disk, cockpit.free_disk, sign="recording: "),
    "terminal": Fault(
        "terminal resized 40 times (1x1 to 500x200), not read for 15 s, closed",
        cockpit.use_terminal,
        None,
        sign="",
    ),
    "rekey": Fault("ssh keys exchanged anew, twice", way.exchange_keys, None, sign=""),
    "dns_gone": Fault(
        "a name no longer resolves; later the connection breaks",
        way.forget_name,
        way.know_name,
        ("n3",),
        NAMED,
    ),
    "address_changed": Fault(
        "a node gets another address; DNS follows later", way.change_address, way.know_name, ("n3",)
    ),
    "bastion": Fault("jump host down and up again", way.stop_gate, way.start_gate, ("n4",)),
    "powered_off": Fault(
        "node without power, then booted", node.power_off, node.power_on, ("n1",), codes=RANKS_GONE
    ),
    "rebooted": Fault("node rebooted", node.reboot, None, ("n2",), codes=RANKS_GONE),
}
"""Those that end ranks are the last: the job of the scene does not come back."""
OF_MANY: Mapping[str, Fault[ManyNodes]] = {
    "half_of_200": Fault(
        "100 of 200 nodes lost at once",
        lambda nodes: nodes.cut.stop(),
        lambda nodes: nodes.cut.restart(),
        CUT,
    ),
}
SHORT = ("stopped", "garbage", "junk")
"""What `make test` plays."""
