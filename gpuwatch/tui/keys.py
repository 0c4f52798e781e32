"""Every key, as data: help and docs/keys.md are made from it. A key means the same on every screen."""

from __future__ import annotations

from textual.binding import Binding

EVERYWHERE = [
    Binding("1", "fleet", "Fleet", id="app.fleet", show=False, tooltip="the fleet: every GPU and every node"),
    Binding(
        "2",
        "node",
        "Node",
        id="app.node",
        show=False,
        tooltip="the node under the cursor, or the one seen last",
    ),
    Binding(
        "4",
        "incidents",
        "Incidents",
        id="app.incidents",
        tooltip="incidents and alerts: what failed first, why, and what to do",
    ),
    Binding(
        "slash",
        "filter",
        "Filter",
        id="fleet.filter",
        key_display="/",
        tooltip="filter expression, such as: temp>85 & host~=dgx",
    ),
    Binding(
        "p",
        "freeze",
        "Freeze",
        id="app.freeze",
        tooltip="freeze the view, and again to catch up; gpuwatch goes on underneath",
    ),
    Binding("question_mark,f1", "help", "Help", id="app.help", key_display="?", tooltip="this page"),
    Binding(
        "colon",
        "command_palette",
        "Go to",
        id="app.palette",
        key_display=":",
        tooltip="command palette: jump to a node or GPU, change the theme",
    ),
    Binding(
        "ctrl+p",
        "command_palette",
        "Go to",
        id="app.palette.ctrl",
        show=False,
        priority=True,
        tooltip="the same",
    ),
    Binding(
        "minus,escape",
        "back",
        "Back",
        id="app.back",
        show=False,
        key_display="- esc",
        tooltip="one step back",
    ),
    Binding("q", "back_or_quit", "Quit", id="app.quit", tooltip="back, and quit at the fleet screen"),
    Binding("ctrl+q", "quit", "Quit", id="app.quit.now", show=False, priority=True, tooltip="quit at once"),
    Binding("ctrl+c", "quit", "Quit", id="app.quit.break", show=False, priority=True, tooltip="quit at once"),
    Binding(
        "y", "copy", "Copy", id="app.copy", show=False, tooltip="copy the line under the cursor (OSC 52)"
    ),
    Binding(
        "plus",
        "faster",
        "Faster",
        id="app.faster",
        show=False,
        key_display="+",
        tooltip="repaint more often, up to 8 times a second",
    ),
    Binding(
        "underscore",
        "slower",
        "Slower",
        id="app.slower",
        show=False,
        key_display="_",
        tooltip="repaint less often, down to once a second",
    ),
    Binding(
        "ctrl+r",
        "retry",
        "Dial again",
        id="app.retry",
        show=False,
        tooltip="dial the node under the cursor again now, if it is lost",
    ),
    Binding(
        "ctrl+z",
        "suspend_process",
        "Suspend",
        id="app.suspend",
        show=False,
        tooltip="back to the shell; fg returns",
    ),
]

MOVES = [
    Binding("up,k", "move(0, -1)", "Up", id="move.up", show=False),
    Binding("down,j", "move(0, 1)", "Down", id="move.down", show=False),
    Binding("left,h", "move(-1, 0)", "Left", id="move.left", show=False),
    Binding("right,l", "move(1, 0)", "Right", id="move.right", show=False),
    Binding("pageup", "pages(-1)", "Page up", id="move.page_up", show=False),
    Binding("pagedown,space", "pages(1)", "Page down", id="move.page_down", show=False),
    Binding("ctrl+u", "pages(-0.5)", "Half a page up", id="move.half_up", show=False),
    Binding("ctrl+d", "pages(0.5)", "Half a page down", id="move.half_down", show=False),
    Binding("home,g", "ends(0)", "First", id="move.first", show=False),
    Binding("end,G", "ends(-1)", "Last", id="move.last", show=False),
    Binding(
        "enter", "choose", "Open", id="move.open", key_display="enter", tooltip="open what the cursor is on"
    ),
]

PANES = [
    Binding("tab", "app.focus_next", "Next pane", id="pane.next", show=False, tooltip="to the next pane"),
    Binding(
        "shift+tab",
        "app.focus_previous",
        "Pane before",
        id="pane.previous",
        show=False,
        tooltip="to the pane before",
    ),
]

FLEET = [
    Binding("m", "metric(1)", "Metric", id="fleet.metric", tooltip="next metric of the heat map"),
    Binding(
        "M", "metric(-1)", "Metric before", id="fleet.metric.before", show=False, tooltip="metric before"
    ),
    Binding(
        "exclamation_mark",
        "unhealthy",
        "Unhealthy",
        id="fleet.unhealthy",
        key_display="!",
        tooltip="show only what is not healthy",
    ),
    Binding("s", "sort", "Sort", id="fleet.sort", tooltip="sort the table by the next column"),
    Binding("S", "reverse", "Reverse", id="fleet.sort.reverse", show=False, tooltip="turn the order round"),
    Binding("z", "zoom", "Zoom", id="fleet.zoom", show=False, tooltip="size of the heat map's cells"),
]

NODE = [
    Binding(
        "left_square_bracket",
        "neighbour(-1)",
        "Node before",
        id="node.before",
        key_display="[",
        show=False,
        tooltip="the node before",
    ),
    Binding(
        "right_square_bracket",
        "neighbour(1)",
        "Next node",
        id="node.after",
        key_display="]",
        tooltip="the next node",
    ),
    Binding("v", "pane(1)", "Pane", id="node.pane", tooltip="next of the panes below"),
    Binding("V", "pane(-1)", "Pane before", id="node.pane.before", show=False, tooltip="the pane before"),
]

GPU = [
    Binding(
        "left_square_bracket",
        "neighbour(-1)",
        "GPU before",
        id="gpu.before",
        key_display="[",
        show=False,
        tooltip="the GPU before",
    ),
    Binding(
        "right_square_bracket",
        "neighbour(1)",
        "Next GPU",
        id="gpu.after",
        key_display="]",
        tooltip="the next GPU",
    ),
    Binding("z", "zoom", "Window", id="gpu.zoom", tooltip="histories of 2 minutes, 15 minutes or 24 hours"),
]

INCIDENTS = [
    Binding(
        "a",
        "acknowledge",
        "Ack",
        id="incident.acknowledge",
        tooltip="you look after this incident or alert; again: take it back",
    ),
    Binding(
        "x",
        "silence",
        "Silence",
        id="incident.silence",
        tooltip="tell no more of the alert under the cursor at its place; again: take it back",
    ),
    Binding(
        "r",
        "next_rank",
        "Next rank",
        id="incident.rank",
        tooltip="the log line of the next rank of the same incident",
    ),
    Binding(
        "m",
        "another(1)",
        "All ranks",
        id="incident.ranks",
        tooltip="the logs of all ranks of the incident around that second",
    ),
]

SECTIONS: list[tuple[str, list[Binding]]] = [
    ("On every screen", EVERYWHERE),
    ("Moving", [*MOVES, *PANES]),
    ("Fleet", FLEET),
    ("Node", NODE),
    ("GPU", GPU),
    ("Incidents", INCIDENTS),
]
"""For people: in this order on the help screen and in docs/keys.md."""

_NAMES = {
    "slash": "/",
    "question_mark": "?",
    "colon": ":",
    "minus": "-",
    "plus": "+",
    "underscore": "_",
    "exclamation_mark": "!",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "escape": "esc",
    "pageup": "page up",
    "pagedown": "page down",
    "up": "up",
    "down": "down",
}


def shown(binding: Binding) -> list[str]:
    """The keys of a binding as a person writes them."""
    return [_NAMES.get(key, key) for key in binding.key.split(",")]


def meaning(binding: Binding) -> str:
    """What the key does, in a few words."""
    return binding.tooltip or binding.description.lower()
