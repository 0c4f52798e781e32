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
    Binding("3", "logs", "Logs", id="app.logs", show=False, tooltip="the logs of the ranks"),
    Binding(
        "4",
        "incidents",
        "Incidents",
        id="app.incidents",
        tooltip="incidents and alerts: what failed first, why, and what to do",
    ),
    Binding(
        "5",
        "links",
        "Links",
        id="app.links",
        show=False,
        tooltip="links: measure what the ranks would get from each other, and who is slow",
    ),
    Binding(
        "6",
        "training",
        "Training",
        id="app.training",
        show=False,
        tooltip="training: how far and how fast a job is, and how its ranks compare",
    ),
    Binding(
        "D",
        "waiting",
        "Who waits",
        id="app.waiting",
        tooltip="who is everyone waiting for: the stacks and dumps of all ranks and NCCL's word, asked now",
    ),
    Binding(
        "slash",
        "filter",
        "Find",
        id="app.find",
        key_display="/",
        tooltip="find: in the logs on all nodes; elsewhere nodes and GPUs, such as temp>85 & host~=dgx",
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
    Binding(
        "m",
        "another(1)",
        "Metric",
        id="fleet.metric",
        tooltip="show the same another way: the next metric of the heat map",
    ),
    Binding(
        "M", "another(-1)", "Metric before", id="fleet.metric.before", show=False, tooltip="the metric before"
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

LOGS = [
    Binding(
        "c",
        "choose_logs",
        "Choose",
        id="logs.choose",
        tooltip="choose logs: 0-7, 3,8-15, a node, failed, slowest, all, part of a file's name",
    ),
    Binding(
        "m",
        "another(1)",
        "Merge",
        id="logs.merged",
        tooltip="show the same another way: one by one, merged by time, all ranks merged",
    ),
    Binding("M", "another(-1)", "Merge back", id="logs.merged.before", show=False, tooltip="the way before"),
    Binding(
        "e",
        "bad(1, 0)",
        "Error",
        id="logs.error",
        tooltip="the next error: loaded, told by a rule, or looked for on the node",
    ),
    Binding(
        "E", "bad(-1, 0)", "Error before", id="logs.error.before", show=False, tooltip="the error before"
    ),
    Binding("w", "bad(1, 1)", "Warning", id="logs.warning", show=False, tooltip="the next warning or error"),
    Binding(
        "W",
        "bad(-1, 1)",
        "Warning before",
        id="logs.warning.before",
        show=False,
        tooltip="the warning or error before",
    ),
    Binding(
        "n", "hit(1)", "Next hit", id="logs.hit", show=False, tooltip="the next line that was searched for"
    ),
    Binding("N", "hit(-1)", "Hit before", id="logs.hit.before", show=False, tooltip="the hit before"),
    Binding(
        "t",
        "go_to_time",
        "Time",
        id="logs.time",
        tooltip="go to a time in all panes: 12:03:11, -30s, +5m, 2026-03-01 12:03:11",
    ),
    Binding(
        "7",
        "minutes(-1)",
        "Minute before",
        id="logs.minute.before",
        show=False,
        tooltip="a minute back in all panes",
    ),
    Binding(
        "8", "minutes(1)", "Minute after", id="logs.minute", show=False, tooltip="a minute on in all panes"
    ),
    Binding(
        "f",
        "filter_lines",
        "Only",
        id="logs.filter",
        tooltip="keep only lines with a pattern; with ! in front leave them out",
    ),
    Binding(
        "left_square_bracket",
        "neighbour(-1)",
        "Logs before",
        id="logs.before",
        key_display="[",
        show=False,
        tooltip="the logs before",
    ),
    Binding(
        "right_square_bracket",
        "neighbour(1)",
        "Next logs",
        id="logs.after",
        key_display="]",
        show=False,
        tooltip="the next logs",
    ),
    Binding("z", "zoom", "Zoom", id="logs.zoom", tooltip="this pane alone, or all panes"),
    Binding(
        "o",
        "unfold",
        "Unfold",
        id="logs.unfold",
        show=False,
        tooltip="open what is folded under the cursor, or close it (enter opens, too)",
    ),
    Binding(
        "O",
        "folding",
        "Folding",
        id="logs.folding",
        show=False,
        tooltip="fold tracebacks and repeated lines, or show every line",
    ),
    Binding(
        "b", "bookmark", "Bookmark", id="logs.bookmark", show=False, tooltip="set a bookmark, or take it away"
    ),
    Binding(
        "u",
        "next_bookmark(1)",
        "Next bookmark",
        id="logs.bookmark.after",
        show=False,
        tooltip="the next bookmark",
    ),
    Binding(
        "U",
        "next_bookmark(-1)",
        "Bookmark before",
        id="logs.bookmark.before",
        show=False,
        tooltip="the bookmark before",
    ),
    Binding("B", "bookmarks", "Bookmarks", id="logs.bookmarks", show=False, tooltip="list the bookmarks"),
    Binding(
        "T",
        "clocks",
        "Times",
        id="logs.times",
        show=False,
        tooltip="the time before each line, on this machine's clock; ~ is the arrival's",
    ),
    Binding(
        "ctrl+w",
        "wrap",
        "Wrap",
        id="logs.wrap",
        show=False,
        tooltip="wrap long lines, or cut them; left and right scroll cut ones",
    ),
    Binding(
        "P",
        "pager",
        "Pager",
        id="logs.pager",
        show=False,
        tooltip="open what is loaded around here in $PAGER",
    ),
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

WAITING = [
    Binding(
        "F",
        "write_dumps",
        "Fresh dumps",
        id="waiting.dumps",
        tooltip="have the ranks write fresh dumps of their flight recorders: files in the job's own place",
    )
]

LINK = [
    Binding(
        "enter",
        "choose",
        "Again",
        id="links.again",
        key_display="enter",
        tooltip="on a link: measure it again, alone",
    )
]

LINKS = [
    Binding(
        "ctrl+n",
        "new_probe",
        "New",
        id="links.new",
        key_display="^n",
        tooltip="choose a probe to make; nothing is measured before you have seen its plan",
    ),
    Binding(
        "ctrl+x",
        "cancel_probe",
        "End",
        id="links.cancel",
        key_display="^x",
        tooltip="end the probe that runs, on every node; what was measured stays",
    ),
    Binding(
        "m",
        "another(1)",
        "Measure",
        id="links.measure",
        tooltip="show the same another way: links in % of their peers, in GB/s, in us",
    ),
    Binding(
        "M", "another(-1)", "Measure before", id="links.measure.before", show=False, tooltip="the way before"
    ),
    Binding("z", "zoom", "Ranks", id="links.zoom", tooltip="links between nodes, or between single ranks"),
    Binding(
        "v",
        "pane(1)",
        "Pane",
        id="links.pane",
        tooltip="next pane: the verdict, the collectives, what the nodes have, the probes of this session",
    ),
    Binding("V", "pane(-1)", "Pane before", id="links.pane.before", show=False, tooltip="the pane before"),
    Binding(
        "left_square_bracket",
        "neighbour(-1)",
        "Probe before",
        id="links.before",
        key_display="[",
        show=False,
        tooltip="the probe before",
    ),
    Binding(
        "right_square_bracket",
        "neighbour(1)",
        "Next probe",
        id="links.after",
        key_display="]",
        show=False,
        tooltip="the next probe",
    ),
]

TRAINING = [
    Binding(
        "left_square_bracket",
        "neighbour(-1)",
        "Job before",
        id="training.before",
        key_display="[",
        show=False,
        tooltip="the job before",
    ),
    Binding(
        "right_square_bracket",
        "neighbour(1)",
        "Next job",
        id="training.after",
        key_display="]",
        tooltip="the next job",
    ),
    Binding(
        "m",
        "another(1)",
        "Log",
        id="training.log",
        tooltip="the log of the rank under the cursor, at the line of its newest step",
    ),
]

SECTIONS: list[tuple[str, list[Binding]]] = [
    ("On every screen", EVERYWHERE),
    ("Moving", [*MOVES, *PANES]),
    ("Fleet", FLEET),
    ("Node", NODE),
    ("GPU", GPU),
    ("Logs", LOGS),
    ("Incidents", INCIDENTS),
    ("Who is everyone waiting for", WAITING),
    ("Links", [*LINK, *LINKS]),
    ("Training", TRAINING),
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
