"""Every key, as one table per screen; help and docs/keys.md are generated from them.

A key means the same on every screen. A widget or screen binds the table of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from textual.binding import Binding
from textual.keys import key_to_character

_SYMBOLS = {
    "slash": "/", "question_mark": "?", "colon": ":", "minus": "-", "plus": "+", "underscore": "_",
    "exclamation_mark": "!", "comma": ",", "full_stop": ".", "less_than_sign": "<", "greater_than_sign": ">",
    "left_square_bracket": "[", "right_square_bracket": "]",
    "left_curly_bracket": "{", "right_curly_bracket": "}",
}  # fmt: skip
_NAMES = {**_SYMBOLS, "escape": "esc", "pageup": "page up", "pagedown": "page down"}


def row(
    name: str,
    keys: str,
    action: str,
    label: str,
    tooltip: str = "",
    *,
    hint: bool = False,
    display: str | None = None,
    priority: bool = False,
) -> Binding:
    """Return one binding.

    Args:
        name: Its unique id, which a user's own keymap refers to.
        keys: Textual's names of the keys, separated by commas.
        action: The name of a method `action_...` of the widget, the screen or the app.
        label: The text in the line of key hints and the command palette.
        tooltip: The text on the help page; by default the label in lower case.
        hint: Whether the line of key hints shows it.
        display: How the keys are written; by default punctuation keys show their symbol.
        priority: Whether it takes precedence over the focused widget.
    """
    if display is None and any(key in _SYMBOLS for key in keys.split(",")):
        display = " ".join(_NAMES[key] for key in keys.split(",") if key in _NAMES)
    return Binding(keys, action, label, hint, display, priority, tooltip, id=name)


# fmt: off
EVERYWHERE = [
    row("app.fleet", "1", "fleet", "Fleet", "the fleet: every GPU and every node"),
    row("app.node", "2", "node", "Node", "the node under the cursor, or the last one opened"),
    row("app.logs", "3", "logs", "Logs", "the logs of the ranks"),
    row("app.incidents", "4", "incidents", "Incidents", hint=True,
        tooltip="incidents and alerts: what failed first, why, and what to do"),
    row("app.links", "5", "links", "Links",
        tooltip="links: measure bandwidth and latency between ranks, and find the slow node or link"),
    row("app.training", "6", "training", "Training",
        tooltip="training: progress and speed of a job, and how its ranks compare"),
    row("app.waiting", "D", "waiting", "Hang", hint=True,
        tooltip="hang analysis: collect the stacks and dumps of all ranks and the counters of NCCL RAS now"),
    row("app.profile", "ctrl+t", "profile", "Profile", display="^t",
        tooltip="show the cost of a profile, then profile this rank and the median rank for ten seconds"),
    row("app.find", "slash", "filter", "Find", hint=True,
        tooltip="find: lines in the logs of all nodes; elsewhere nodes and GPUs (temp>85 & host~=dgx)"),
    row("app.freeze", "p", "freeze", "Freeze", hint=True,
        tooltip="freeze or resume the view; gpuwatch keeps collecting; in a recording: play or pause"),
    row("app.help", "question_mark,f1", "help", "Help", "show this page", hint=True),
    row("app.explain", "i", "explain", "Explain",
        tooltip="explain the alert, metric or column under the cursor; search the playbook"),
    row("app.palette", "colon", "command_palette", "Go to", hint=True,
        tooltip="command palette: every action, incident, job, metric, node, GPU, rank and theme"),
    row("app.palette.ctrl", "ctrl+p", "command_palette", "Go to", "command palette", priority=True),
    row("app.back", "escape,minus", "back", "Back", "go back one screen"),
    row("app.quit", "q", "back_or_quit", "Quit", "go back; quit from the fleet screen", hint=True),
    row("app.quit.now", "ctrl+q", "quit", "Quit", "quit immediately", priority=True),
    row("app.quit.break", "ctrl+c", "quit", "Quit", "quit immediately", priority=True),
    row("app.copy", "y", "copy", "Copy", "copy the line under the cursor (OSC 52)"),
    row("app.copy.incident", "Y", "copy_incident", "Copy incident",
        tooltip="copy the incident as Markdown, for a chat or a ticket (OSC 52)"),
    row("app.save", "ctrl+o", "save_screen", "Save screen",
        tooltip="save the screen as SVG and as text, in the working folder"),
    row("app.evidence", "ctrl+s", "evidence", "Evidence",
        tooltip="write the incident's evidence bundle as one zip file, for support"),
    row("app.record", "R", "record", "Record", "start or end a recording of this session, for gpuwatch open"),
    row("app.jobs", "J", "jobs", "Jobs", tooltip="choose a job; every screen then shows only that job"),
    row("app.actions", "A", "act", "Actions",
        tooltip="actions on the selection: drain, cordon, requeue, cancel, end a rank; run once confirmed"),
    row("app.columns", "C", "columns", "Columns",
        tooltip="choose the columns of the table on this screen; the choice is saved"),
    row("app.faster", "plus", "faster", "Faster", "repaint more often, up to 30 times a second"),
    row("app.slower", "underscore", "slower", "Slower", "repaint less often, down to once a second"),
    row("app.retry", "ctrl+r", "retry", "Reconnect",
        tooltip="reconnect now to the node under the cursor, if it is lost"),
    row("app.suspend", "ctrl+z", "suspend_process", "Suspend", "suspend gpuwatch; fg resumes it"),
]

REPLAY = [
    row("replay.back", "comma", "step(-1)", "Step back", "go one interval back"),
    row("replay.on", "full_stop", "step(1)", "Step", "go one interval forward", hint=True),
    row("replay.slower", "less_than_sign", "speed(-1)", "Slower", "play slower, down to a quarter"),
    row("replay.faster", "greater_than_sign", "speed(1)", "Faster", "play faster, up to 64 times", hint=True),
    row("replay.incident.before", "left_curly_bracket", "jump_to_incident(-1)", "Previous incident",
        "the moment at which the previous incident was first seen"),
    row("replay.incident", "right_curly_bracket", "jump_to_incident(1)", "Next incident", hint=True,
        tooltip="the moment at which the next incident was first seen"),
    row("replay.time", "t", "go_to_time", "Time",
        tooltip="go to a time: 12:03:11, -30s, +5m, 2026-03-01 12:03:11 (in the logs: in all panes)"),
]

MOVES = [
    row("move.up", "up,k", "move(0, -1)", "Up"),
    row("move.down", "down,j", "move(0, 1)", "Down"),
    row("move.left", "left,h", "move(-1, 0)", "Left"),
    row("move.right", "right,l", "move(1, 0)", "Right"),
    row("move.page_up", "pageup", "pages(-1)", "Page up"),
    row("move.page_down", "pagedown,space", "pages(1)", "Page down"),
    row("move.half_up", "ctrl+u", "pages(-0.5)", "Half a page up"),
    row("move.half_down", "ctrl+d", "pages(0.5)", "Half a page down"),
    row("move.first", "home,g", "jump_to_end(0)", "First"),
    row("move.last", "end,G", "jump_to_end(-1)", "Last"),
    row("move.open", "enter", "choose", "Open", "open the item under the cursor", display="enter", hint=True),
]

PANES = [
    row("pane.next", "tab", "app.focus_next", "Next pane", "move to the next pane"),
    row("pane.previous", "shift+tab", "app.focus_previous", "Previous pane", "move to the previous pane"),
]

FLEET = [
    row("fleet.metric", "m", "next_mode(1)", "Metric", hint=True, tooltip="show the next metric in the map"),
    row("fleet.metric.before", "M", "next_mode(-1)", "Previous metric", "the previous metric"),
    row("fleet.unhealthy", "exclamation_mark", "unhealthy", "Unhealthy", hint=True,
        tooltip="show only unhealthy nodes and GPUs, or only firing alerts"),
    row("fleet.sort", "s", "sort", "Sort", "sort the table by the next column", hint=True),
    row("fleet.sort.reverse", "S", "reverse", "Reverse", "reverse the sort order"),
    row("fleet.zoom", "z", "zoom", "Zoom", "change the size of the heat map's cells"),
    row("fleet.folding", "O", "folding", "Fold", "fold the nodes by rack or label, group or name, or not"),
    row("fleet.unfold", "o", "unfold", "Unfold", "list all nodes of the table's group, or only problems"),
]

NODE = [
    row("node.before", "left_square_bracket", "next_item(-1)", "Previous node", "the previous node"),
    row("node.after", "right_square_bracket", "next_item(1)", "Next node", "the next node", hint=True),
    row("node.pane", "v", "pane(1)", "Pane", "the next of the lower panes", hint=True),
    row("node.pane.before", "V", "pane(-1)", "Previous pane", "the previous of the lower panes"),
]

GPU = [
    row("gpu.before", "left_square_bracket", "next_item(-1)", "Previous GPU", "the previous GPU"),
    row("gpu.after", "right_square_bracket", "next_item(1)", "Next GPU", "the next GPU", hint=True),
    row("gpu.zoom", "z", "zoom", "Window", hint=True,
        tooltip="time window of the charts: 2 minutes, 15 minutes or 24 hours"),
]

LOGS = [
    row("logs.choose", "c", "choose_logs", "Choose", hint=True,
        tooltip="choose logs: 0-7, 3,8-15, a node, incident-1, failed, slowest, all, part of a file's name"),
    row("logs.level", "L", "level", "Level", "show all lines, warnings and errors, or errors alone"),
    row("logs.merged", "m", "next_mode(1)", "Merge", hint=True,
        tooltip="next view: separate panes, merged by time, all ranks merged"),
    row("logs.merged.before", "M", "next_mode(-1)", "Previous mode", "the previous view"),
    row("logs.error", "e", "next_error(1, 0)", "Error", hint=True,
        tooltip="the next error: in the loaded lines, by the rules, or by a search on the node"),
    row("logs.error.before", "E", "next_error(-1, 0)", "Previous error", "the previous error"),
    row("logs.warning", "w", "next_error(1, 1)", "Warning", "the next warning or error"),
    row("logs.warning.before", "W", "next_error(-1, 1)", "Previous warning", "the previous warning or error"),
    row("logs.hit", "n", "hit(1)", "Next match", "the next match of the search"),
    row("logs.hit.before", "N", "hit(-1)", "Previous match", "the previous match of the search"),
    row("logs.time", "t", "go_to_time", "Time", hint=True,
        tooltip="go to a time in all panes: 12:03:11, -30s, +5m, 2026-03-01 12:03:11"),
    row("logs.minute.before", "7", "minutes(-1)", "Back a minute", "move all panes back one minute"),
    row("logs.minute", "8", "minutes(1)", "Forward a minute", "move all panes forward one minute"),
    row("logs.filter", "f", "filter_lines", "Filter", hint=True,
        tooltip="show only lines that match a pattern; a leading ! excludes them"),
    row("logs.before", "left_square_bracket", "next_item(-1)", "Previous logs", "the previous page of logs"),
    row("logs.after", "right_square_bracket", "next_item(1)", "Next logs", "the next page of logs"),
    row("logs.zoom", "z", "zoom", "Zoom", "show only this pane, or all panes", hint=True),
    row("logs.unfold", "o", "unfold", "Unfold", "unfold or fold the lines under the cursor"),
    row("logs.folding", "O", "folding", "Folding", "fold tracebacks and repeated lines, or show all lines"),
    row("logs.bookmark", "b", "bookmark", "Bookmark", "set or remove a bookmark"),
    row("logs.bookmark.after", "u", "next_bookmark(1)", "Next bookmark", "the next bookmark"),
    row("logs.bookmark.before", "U", "next_bookmark(-1)", "Previous bookmark", "the previous bookmark"),
    row("logs.bookmarks", "B", "bookmarks", "Bookmarks", "list the bookmarks"),
    row("logs.times", "T", "clocks", "Times",
        tooltip="show the time of each line, on this machine's clock; ~ marks the time of arrival"),
    row("logs.wrap", "ctrl+w", "wrap", "Wrap",
        tooltip="wrap or truncate long lines; truncated lines scroll sideways"),
    row("logs.pager", "P", "pager", "Pager", "open the loaded lines in $PAGER"),
]

INCIDENTS = [
    row("incident.acknowledge", "a", "acknowledge", "Ack", "acknowledge this incident or alert", hint=True),
    row("incident.silence", "x", "silence", "Silence", "silence this alert here (toggle)", hint=True),
    row("incident.rank", "r", "next_rank", "Next rank", hint=True,
        tooltip="open the log line of the next rank of the incident"),
    row("incident.ranks", "m", "next_mode(1)", "All ranks", hint=True,
        tooltip="open the logs of all ranks at the time of the incident"),
]

WAITING = [
    row("waiting.dumps", "F", "write_dumps", "Trigger dumps", hint=True,
        tooltip="make the ranks write flight-recorder dumps now; the files go to the job's dump path"),
]

PROFILE = [
    row("profile.start", "enter", "choose", "Start", display="enter", hint=True, tooltip="sample the ranks"),
]

SLURM = [
    row("slurm.open", "enter", "choose", "Open", display="enter", hint=True, priority=True),
    row("slurm.all", "a", "everyone", "All users", "show the jobs of all users, or yours again", hint=True),
    row("slurm.read", "r", "read", "Read again", hint=True),
    row("slurm.next", "j", "down", "Next", "the next job"),
    row("slurm.previous", "k", "up", "Previous", "the previous job"),
    row("slurm.quit", "escape,q", "leave", "Quit", hint=True, priority=True),
]

LINK = [
    row("links.again", "enter", "choose", "Retest", display="enter", hint=True,
        tooltip="on a link: measure this link again, alone"),
]

LINKS = [
    row("links.new", "ctrl+n", "new_probe", "New", display="^n", hint=True,
        tooltip="set up a probe; its plan is shown before anything is measured"),
    row("links.cancel", "ctrl+x", "cancel_probe", "End", display="^x", hint=True,
        tooltip="cancel the running probe on all nodes; results so far are kept"),
    row("links.measure", "m", "next_mode(1)", "Measure", hint=True,
        tooltip="next view: links in % of their peers, in GB/s, in us"),
    row("links.measure.before", "M", "next_mode(-1)", "Previous measure", "the previous view"),
    row("links.zoom", "z", "zoom", "Ranks", "show links between nodes, or between ranks", hint=True),
    row("links.pane", "v", "pane(1)", "Pane", hint=True,
        tooltip="next pane: verdict, collectives, node inventory, probes of this session"),
    row("links.pane.before", "V", "pane(-1)", "Previous pane", "the previous pane"),
    row("links.before", "left_square_bracket", "next_item(-1)", "Previous probe", "the previous probe"),
    row("links.after", "right_square_bracket", "next_item(1)", "Next probe", "the next probe"),
]

TRAINING = [
    row("training.before", "left_square_bracket", "next_item(-1)", "Previous job", "the previous job"),
    row("training.after", "right_square_bracket", "next_item(1)", "Next job", "the next job", hint=True),
    row("training.log", "m", "next_mode(1)", "Log", hint=True,
        tooltip="open the log of the rank under the cursor at its latest step"),
]
# fmt: on

SECTIONS: list[tuple[str, list[Binding]]] = [
    ("On every screen", EVERYWHERE),
    ("In a recording", REPLAY),
    ("Moving", [*MOVES, *PANES]),
    ("Fleet", FLEET),
    ("Node", NODE),
    ("GPU", GPU),
    ("Logs", LOGS),
    ("Incidents", INCIDENTS),
    ("Hang analysis", WAITING),
    ("Profile", PROFILE),
    ("Links", [*LINK, *LINKS]),
    ("Training", TRAINING),
]
"""The sections of keys, in the order of docs/keys.md; the help screen shows the current screen's first."""
SECTION_OF = {
    "fleet": "Fleet", "node": "Node", "gpu": "GPU", "logs": "Logs", "incidents": "Incidents",
    "waiting": "Hang analysis", "profile": "Profile", "links": "Links", "training": "Training",
}  # fmt: skip
"""Kind of a screen -> the section of its keys."""


BORROWED: dict[str, dict[str, str]] = {
    "Training": {"fleet.unhealthy": "Outliers", "fleet.sort": "Sort", "fleet.sort.reverse": "Reverse"},
    "Incidents": {"fleet.unhealthy": "Firing"},
    "Logs": {"incident.rank": "Next rank"},
}
"""Section -> the bindings of other sections that its screen also has, with their labels there."""


_BY_ID = {each.id: each for _, some in SECTIONS for each in some}


def with_actions(
    actions: Mapping[str, str], hints: Mapping[str, str] = MappingProxyType({}), *, priority: bool = False
) -> list[Binding]:
    """Return the bindings with these ids, with other actions, for a screen such as a dialog.

    Args:
        actions: Id -> the action there.
        hints: Id -> its label in the line of key hints, which leaves out the others.
        priority: Whether they take precedence over the focused widget.
    """
    return [
        replace(_BY_ID[name], action=action, priority=priority, show=name in hints, description=label)
        for name, action in actions.items()
        for label in (hints.get(name, _BY_ID[name].description),)
    ]


def borrowed(title: str) -> list[Binding]:
    """Return the bindings of other sections that the screen of the section `title` also has."""
    return [replace(_BY_ID[name], description=label) for name, label in BORROWED.get(title, {}).items()]


def bound_together() -> list[list[Binding]]:
    """Return the bindings that are active at the same time, one list for each section of a screen."""
    always = [*EVERYWHERE, *MOVES, *PANES]
    return [
        [*always, *some, *borrowed(title)]
        for title, some in SECTIONS
        if title not in ("On every screen", "In a recording", "Moving")
    ]


def as_list(keys: str) -> list[str]:
    """Return the keys of a comma-separated text as Textual's names (`?` is `question_mark`)."""
    return [each.key for each in Binding.make_bindings([Binding(keys, "", "")])]


def rebound(binding: Binding, keymap: Mapping[str, str]) -> Binding:
    """Return the binding with the user's own keys for its id; unchanged if the user has none."""
    chosen = keymap.get(binding.id or "")
    return replace(binding, key=",".join(as_list(chosen)), key_display=None) if chosen else binding


def shown(binding: Binding) -> list[str]:
    """Return the keys of a binding as they are written on a keyboard."""
    return [_written(key) for key in binding.key.split(",")]


def _written(key: str) -> str:
    """Return a key as written: `question_mark` as `?`, invisible characters by their names."""
    character = key_to_character(key) or ""
    return _NAMES.get(key) or (character if character.isprintable() and character.strip() else key)


def key_of(name: str, keymap: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the first key of a binding, as written on a keyboard.

    Args:
        name: The binding's id.
        keymap: The user's own keys, by the id of a binding.
    """
    return shown(rebound(_BY_ID[name], keymap))[0]


def meaning(binding: Binding) -> str:
    """Return what the key does, in a few words."""
    return binding.tooltip or binding.description.lower()
