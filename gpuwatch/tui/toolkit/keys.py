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
        tooltip="the node under the cursor, or the last one opened",
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
        tooltip="links: measure bandwidth and latency between ranks, and find the slow node or link",
    ),
    Binding(
        "6",
        "training",
        "Training",
        id="app.training",
        show=False,
        tooltip="training: progress and speed of a job, and how its ranks compare",
    ),
    Binding(
        "D",
        "waiting",
        "Hang",
        id="app.waiting",
        tooltip="hang analysis: collect the stacks and dumps of all ranks and the counters of NCCL RAS now",
    ),
    Binding(
        "slash",
        "filter",
        "Find",
        id="app.find",
        key_display="/",
        tooltip="find: lines in the logs of all nodes; elsewhere nodes and GPUs (temp>85 & host~=dgx)",
    ),
    Binding(
        "p",
        "freeze",
        "Freeze",
        id="app.freeze",
        tooltip="freeze or resume the view; gpuwatch keeps collecting",
    ),
    Binding("question_mark,f1", "help", "Help", id="app.help", key_display="?", tooltip="show this page"),
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
        tooltip="same as :",
    ),
    Binding(
        "minus,escape",
        "back",
        "Back",
        id="app.back",
        show=False,
        key_display="- esc",
        tooltip="go back one screen",
    ),
    Binding("q", "back_or_quit", "Quit", id="app.quit", tooltip="go back; quit from the fleet screen"),
    Binding(
        "ctrl+q", "quit", "Quit", id="app.quit.now", show=False, priority=True, tooltip="quit immediately"
    ),
    Binding(
        "ctrl+c", "quit", "Quit", id="app.quit.break", show=False, priority=True, tooltip="quit immediately"
    ),
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
        "Reconnect",
        id="app.retry",
        show=False,
        tooltip="reconnect now to the node under the cursor, if it is lost",
    ),
    Binding(
        "ctrl+z",
        "suspend_process",
        "Suspend",
        id="app.suspend",
        show=False,
        tooltip="suspend gpuwatch; fg resumes it",
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
        "enter",
        "choose",
        "Open",
        id="move.open",
        key_display="enter",
        tooltip="open the item under the cursor",
    ),
]

PANES = [
    Binding(
        "tab", "app.focus_next", "Next pane", id="pane.next", show=False, tooltip="move to the next pane"
    ),
    Binding(
        "shift+tab",
        "app.focus_previous",
        "Previous pane",
        id="pane.previous",
        show=False,
        tooltip="move to the previous pane",
    ),
]

FLEET = [
    Binding(
        "m",
        "another(1)",
        "Metric",
        id="fleet.metric",
        tooltip="next view: the next metric of the heat map",
    ),
    Binding(
        "M",
        "another(-1)",
        "Previous metric",
        id="fleet.metric.before",
        show=False,
        tooltip="the previous metric",
    ),
    Binding(
        "exclamation_mark",
        "unhealthy",
        "Unhealthy",
        id="fleet.unhealthy",
        key_display="!",
        tooltip="show only unhealthy nodes and GPUs, or only firing alerts",
    ),
    Binding("s", "sort", "Sort", id="fleet.sort", tooltip="sort the table by the next column"),
    Binding("S", "reverse", "Reverse", id="fleet.sort.reverse", show=False, tooltip="reverse the sort order"),
    Binding(
        "z", "zoom", "Zoom", id="fleet.zoom", show=False, tooltip="change the size of the heat map's cells"
    ),
]

NODE = [
    Binding(
        "left_square_bracket",
        "neighbour(-1)",
        "Previous node",
        id="node.before",
        key_display="[",
        show=False,
        tooltip="the previous node",
    ),
    Binding(
        "right_square_bracket",
        "neighbour(1)",
        "Next node",
        id="node.after",
        key_display="]",
        tooltip="the next node",
    ),
    Binding("v", "pane(1)", "Pane", id="node.pane", tooltip="the next pane below"),
    Binding("V", "pane(-1)", "Previous pane", id="node.pane.before", show=False, tooltip="the previous pane"),
]

GPU = [
    Binding(
        "left_square_bracket",
        "neighbour(-1)",
        "Previous GPU",
        id="gpu.before",
        key_display="[",
        show=False,
        tooltip="the previous GPU",
    ),
    Binding(
        "right_square_bracket",
        "neighbour(1)",
        "Next GPU",
        id="gpu.after",
        key_display="]",
        tooltip="the next GPU",
    ),
    Binding(
        "z",
        "zoom",
        "Window",
        id="gpu.zoom",
        tooltip="time window of the charts: 2 minutes, 15 minutes or 24 hours",
    ),
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
        tooltip="next view: separate panes, merged by time, all ranks merged",
    ),
    Binding(
        "M", "another(-1)", "Previous mode", id="logs.merged.before", show=False, tooltip="the previous view"
    ),
    Binding(
        "e",
        "bad(1, 0)",
        "Error",
        id="logs.error",
        tooltip="the next error: in the loaded lines, by the rules, or by a search on the node",
    ),
    Binding(
        "E", "bad(-1, 0)", "Previous error", id="logs.error.before", show=False, tooltip="the previous error"
    ),
    Binding("w", "bad(1, 1)", "Warning", id="logs.warning", show=False, tooltip="the next warning or error"),
    Binding(
        "W",
        "bad(-1, 1)",
        "Previous warning",
        id="logs.warning.before",
        show=False,
        tooltip="the previous warning or error",
    ),
    Binding("n", "hit(1)", "Next match", id="logs.hit", show=False, tooltip="the next match of the search"),
    Binding(
        "N",
        "hit(-1)",
        "Previous match",
        id="logs.hit.before",
        show=False,
        tooltip="the previous match of the search",
    ),
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
        "Back a minute",
        id="logs.minute.before",
        show=False,
        tooltip="move all panes back one minute",
    ),
    Binding(
        "8",
        "minutes(1)",
        "On a minute",
        id="logs.minute",
        show=False,
        tooltip="move all panes forward one minute",
    ),
    Binding(
        "f",
        "filter_lines",
        "Filter",
        id="logs.filter",
        tooltip="show only lines that match a pattern; a leading ! excludes them",
    ),
    Binding(
        "left_square_bracket",
        "neighbour(-1)",
        "Previous logs",
        id="logs.before",
        key_display="[",
        show=False,
        tooltip="the previous logs",
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
    Binding("z", "zoom", "Zoom", id="logs.zoom", tooltip="show only this pane, or all panes"),
    Binding(
        "o",
        "unfold",
        "Unfold",
        id="logs.unfold",
        show=False,
        tooltip="unfold or fold the lines under the cursor (enter unfolds, too)",
    ),
    Binding(
        "O",
        "folding",
        "Folding",
        id="logs.folding",
        show=False,
        tooltip="fold tracebacks and repeated lines, or show all lines",
    ),
    Binding("b", "bookmark", "Bookmark", id="logs.bookmark", show=False, tooltip="set or remove a bookmark"),
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
        "Previous bookmark",
        id="logs.bookmark.before",
        show=False,
        tooltip="the previous bookmark",
    ),
    Binding("B", "bookmarks", "Bookmarks", id="logs.bookmarks", show=False, tooltip="list the bookmarks"),
    Binding(
        "T",
        "clocks",
        "Times",
        id="logs.times",
        show=False,
        tooltip="show the time of each line, on this machine's clock; ~ marks the time of arrival",
    ),
    Binding(
        "ctrl+w",
        "wrap",
        "Wrap",
        id="logs.wrap",
        show=False,
        tooltip="wrap or truncate long lines; left and right scroll truncated lines",
    ),
    Binding(
        "P",
        "pager",
        "Pager",
        id="logs.pager",
        show=False,
        tooltip="open the loaded lines in $PAGER",
    ),
]

INCIDENTS = [
    Binding(
        "a",
        "acknowledge",
        "Ack",
        id="incident.acknowledge",
        tooltip="acknowledge this incident or alert (toggle)",
    ),
    Binding(
        "x",
        "silence",
        "Silence",
        id="incident.silence",
        tooltip="silence this alert here (toggle)",
    ),
    Binding(
        "r",
        "next_rank",
        "Next rank",
        id="incident.rank",
        tooltip="open the log line of the next rank of the incident",
    ),
    Binding(
        "m",
        "another(1)",
        "All ranks",
        id="incident.ranks",
        tooltip="open the logs of all ranks at the time of the incident",
    ),
]

WAITING = [
    Binding(
        "F",
        "write_dumps",
        "Trigger dumps",
        id="waiting.dumps",
        tooltip="make the ranks write flight-recorder dumps now; the files go to the job's dump path",
    )
]

LINK = [
    Binding(
        "enter",
        "choose",
        "Again",
        id="links.again",
        key_display="enter",
        tooltip="on a link: measure it again on its own",
    )
]

LINKS = [
    Binding(
        "ctrl+n",
        "new_probe",
        "New",
        id="links.new",
        key_display="^n",
        tooltip="set up a probe; its plan is shown before anything is measured",
    ),
    Binding(
        "ctrl+x",
        "cancel_probe",
        "End",
        id="links.cancel",
        key_display="^x",
        tooltip="cancel the running probe on all nodes; results so far are kept",
    ),
    Binding(
        "m",
        "another(1)",
        "Measure",
        id="links.measure",
        tooltip="next view: links in % of their peers, in GB/s, in us",
    ),
    Binding(
        "M",
        "another(-1)",
        "Previous measure",
        id="links.measure.before",
        show=False,
        tooltip="the previous view",
    ),
    Binding("z", "zoom", "Ranks", id="links.zoom", tooltip="show links between nodes, or between ranks"),
    Binding(
        "v",
        "pane(1)",
        "Pane",
        id="links.pane",
        tooltip="next pane: verdict, collectives, node inventory, probes of this session",
    ),
    Binding(
        "V", "pane(-1)", "Previous pane", id="links.pane.before", show=False, tooltip="the previous pane"
    ),
    Binding(
        "left_square_bracket",
        "neighbour(-1)",
        "Previous probe",
        id="links.before",
        key_display="[",
        show=False,
        tooltip="the previous probe",
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
        "Previous job",
        id="training.before",
        key_display="[",
        show=False,
        tooltip="the previous job",
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
        tooltip="open the log of the rank under the cursor at its latest step",
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
    ("Hang analysis", WAITING),
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
