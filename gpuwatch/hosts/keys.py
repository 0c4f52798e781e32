"""Every key of a hosts file and its allowed values, for the parser and the JSON Schema."""

from __future__ import annotations

import yaml
from msgspec import Struct

from gpuwatch.hosts.names import MAX_NODES, USER, RangeError, expand, expand_login
from gpuwatch.hosts.receivers import UrlText
from gpuwatch.hosts.validation.document import place
from gpuwatch.hosts.validation.errors import Problems, TextPosition, shown
from gpuwatch.hosts.validation.shapes import (
    Keyword,
    Number,
    Schema,
    Shape,
    Switch,
    Text,
    Whole,
    quoted,
    scalar,
)
from gpuwatch.hosts.validation.structures import Key, ListOf, MapOf, OneOf, Record

_HOP = r"(?:[^\s@,-][^\s@,]*@)?(?:[^\s@,:\[\]-][^\s@,:\[\]]*|\[[0-9A-Fa-f:.%]+\])(?::[0-9]{1,5})?"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"

MAX_SLOTS = 1024
"""Highest accepted number of GPUs of a machine; no machine has more."""


class Names(Struct, frozen=True):
    """The nodes that one entry of the file names, or the group that it refers to, and its position."""

    place: TextPosition
    names: tuple[str, ...]
    """The node names of a key; empty if they are invalid."""
    user: str | None = None
    """From `user@node`."""
    group: str | None = None
    """From `@group`: the nodes of a group that is defined above."""


class NodeRange(Shape):
    """The shape of a node name or range; `user` allows `user@` before it, `group` `@group` instead."""

    def __init__(self, *, user: bool = False, group: bool = False) -> None:
        self._user, self._group = user, group
        extra = ", or @ and the name of a group above" if group else ""
        self.what = f"a node name or a range such as node[001-128]{extra}"

    def read(self, node: yaml.Node, problems: Problems) -> Names | None:
        """Return the expanded names; without names if the range is invalid (reported) or refers to a group.

        None: the value is not a single word (reported).
        """
        text = scalar(node)
        if text is None:
            self.refuse(node, problems)
            return None
        at = place(node)
        if self._group and text.startswith("@"):
            return Names(at, (), group=text[1:])
        try:
            most = min(MAX_NODES, problems.names_left)
            user, names = expand_login(text, most) if self._user else (None, expand(text, most))
        except RangeError as error:
            one_line = node.start_mark.line == node.end_mark.line
            offset = error.offset + quoted(node) if one_line else 0
            problems.add(at.right(offset), f"{shown(text)}: {error}")
            return Names(at, ())
        problems.names_left -= len(names)
        return Names(at, tuple(names), user=user)

    def schema(self) -> Schema:
        """Return the schema: a string, number or boolean (YAML reads some names so) with a valid beginning.

        Only the parser checks the rest, such as the inside of brackets.
        """
        start = "(?:@?)" if self._group else r"(?:[^\s@-][^\s@]*@)?" if self._user else ""
        return {"type": ["string", "number", "boolean"], "pattern": rf"^\s*{start}[A-Za-z0-9_.:%/+~\[]"}


class CommandWord(Text):
    """The shape of a command's word; an unquoted `{name}`, which YAML reads as a mapping, has a message."""

    def refuse(self, node: yaml.Node, problems: Problems) -> None:
        if isinstance(node, yaml.MappingNode):
            problems.refuse(place(node), 'holds { } without quotes; a placeholder is written "{name}"')
        else:
            super().refuse(node, problems)


_ADDRESS = Text(
    "a host name or IP address, without user and port; {name} stands for the node's name",
    r"(?!-)(?:[^\s\[\]{}@,]|\{name\})+",
    512,
)
_IDENTITY = Text("the path of a private key", r"[^-].*")
_JUMP = Text("jump hosts, [user@]host[:port][,...]", rf"{_HOP}(?:,{_HOP})*")
_PYTHON = Text("the path or name of a Python interpreter", r"[A-Za-z0-9_./~][A-Za-z0-9_./+~-]*", 512)
_ACTIVATE = Text("a shell line such as 'module load cuda && source ~/venv/bin/activate'", r".*\S.*", 4096)
_COMMAND = ListOf(
    CommandWord(
        "a word of a command, whose placeholders are {name}, {address} and {command}",
        r"(?!.*\{(?:host|hostname|node|user|port)\}).+",
        8192,
    ),
    'a list of words such as [kubectl, exec, -i, "{name}", --]',
)
LOG = Text(
    "an absolute path or glob, with no other placeholders than {rank}, {host} and {date}",
    r"[/~](?:[^{}]|\{(?:rank|host|date)\})*",
)
_PACK = Text("the path of a rule pack", r"[^-].*")

SETTINGS = (
    Key("address", _ADDRESS, "What ssh connects to instead of the node's name; {name} stands for the name."),
    Key("port", Whole(1, 65535), "The ssh port."),
    Key("user", Text("a user name", USER), "The user to log in as."),
    Key(
        "identity_file",
        ListOf(_IDENTITY, "a path or a list of paths", or_single=True),
        "Private keys to offer; ~ is the home directory.",
    ),
    Key("jump", _JUMP, "Jump hosts to go through, as in ssh -J."),
    Key("python", _PYTHON, "The Python interpreter on the node; without it the first python3 that is found."),
    Key(
        "activate",
        _ACTIVATE,
        "A shell line, run in a login bash, that makes the Python with torch available for `gpuwatch probe`.",
    ),
    Key(
        "labels",
        MapOf("a mapping of labels", Text("a label's name", _NAME, 100), Text("a label's value", limit=200)),
        "Your own labels, for filters.",
    ),
    Key(
        "link",
        OneOf(
            "ssh, local or a mapping with a command",
            single=Keyword(("ssh", "local")),
            mapping=Record("a link", (Key("command", _COMMAND, "As the key command.", required=True),)),
        ),
        "How the node is reached: ssh (the default), local (this machine), or a command.",
    ),
    Key(
        "command",
        _COMMAND,
        "A command that carries stdin and stdout to the node, instead of gpuwatch's own ssh. "
        "{name} and {address} stand for the node's, {command} for the shell line to run there.",
    ),
    Key("slots", Whole(0, MAX_SLOTS), "How many GPUs the node should have."),
)

_HOST = Record(
    "a host",
    (
        Key(
            "name",
            NodeRange(),
            "The node's name on the screen, or a range; the settings then apply to each node.",
            required=True,
        ),
        *SETTINGS,
    ),
)
_HOST_ENTRY = OneOf(
    "a node name, a range such as node[001-128], or a mapping with a name",
    single=NodeRange(user=True),
    mapping=_HOST,
)
_MEMBERS = ListOf(NodeRange(group=True), "a list of node names or ranges", or_single=True)
_GROUP = Record("a group", (Key("hosts", _MEMBERS, "The nodes of the group.", required=True), *SETTINGS))

# fmt: off
_LIMITS = (
    Key("temperature_margin_c", Number(0, 50, "degrees Celsius"),
        "Warn at this many degrees below the GPU's own slowdown temperature."),
    Key("temperature_c", Number(30, 120, "degrees Celsius"),
        "Warn at or above this temperature if the GPU reports no slowdown temperature."),
    Key("memory_pct", Number(1, 100, "percent"), "Warn when this much of a GPU's memory is used."),
    Key("disk_pct", Number(1, 100, "percent"), "Warn when a file system is this full."),
    Key("throttle_pct", Number(0, 100, "percent"),
        "Warn when thermal or power-brake slowdown takes this share of the time."),
    Key("peer_temperature_c", Number(1, 100, "degrees Celsius"),
        "Warn when a GPU is this much hotter than the median of its working neighbours."),
    Key("peer_clock_pct", Number(1, 100, "percent"),
        "Warn when a GPU's clock is under this share of its working neighbours' median."),
    Key("peer_power_pct", Number(1, 99, "percent"),
        "Report the one GPU that draws under this share of its peers' power, or over the inverse."),
    Key("peer_busy_pct", Number(1, 100, "percent"),
        "Warn when a rank's utilization is under this share of its busy peers'."),
    Key("peer_link_pct", Number(1, 99, "percent"),
        "Warn when a GPU's PCIe rate or link throughput is at most this share of its peers'."),
    Key("peer_time_pct", Number(101, 1000, "percent"),
        "Warn when a rank's own time in a part of the step is over this share of its peers'."),
    Key("nvlink_errors", Number(0.01, 1_000_000, "errors"),
        "Warn at this many NVLink replays or recoveries between two readings."),
    Key("idle_held_s", Number(1, 86_400, "seconds"),
        "Report a GPU that a process has held without using it for this long."),
    Key("slow_step_s", Number(0, 86_400, "seconds"),
        "Warn when a step takes longer, even if it always did; 0: no limit."),
    Key("hang_s", Number(1, 86_400, "seconds"),
        "A job is suspected to hang if no rank logs a line or makes a step for this long."),
    Key("hold_s", Number(0, 3600, "seconds"),
        "How long a value must be over its limit before the alert fires."),
    Key("clear_s", Number(0, 3600, "seconds"),
        "How long a value must be back within its limit before the alert ends."),
    Key("clear_margin", Number(0, 20, "degrees or percent"),
        "How far inside its limit a value must be to count as normal again."),
)
# fmt: on
_THRESHOLDS = Record("thresholds", _LIMITS)

_MODEL = Record(
    "model",
    (
        Key(
            "params",
            Number(1e3, 1e16, "parameters, such as 13.0e+9"),
            "Parameters used per token, such as 13.0e+9; for a mixture of experts the active ones.",
            required=True,
        ),
        Key(
            "layers",
            Whole(1, 100_000),
            "Number of layers; with hidden and seq_len, the FLOPs of attention are included.",
        ),
        Key("hidden", Whole(1, 10_000_000), "Width of a layer."),
        Key("seq_len", Whole(1, 1_000_000_000), "Tokens of one sequence."),
        Key(
            "tokens_per_s",
            Keyword(("gpu", "job")),
            "Whether the log's tokens per second are of one GPU or the job, if gpuwatch cannot determine it.",
        ),
        Key(
            "peak_tflops",
            Number(0.1, 1e6, "TFLOP/s of one GPU, without sparsity"),
            "Peak of one GPU, if gpuwatch's table lacks it or another precision is used.",
        ),
    ),
)

_SERVING_URL = UrlText()
_SERVING = ListOf(
    OneOf(
        "a URL, or a mapping with url and name",
        single=_SERVING_URL,
        mapping=Record(
            "a server",
            (
                Key(
                    "url",
                    _SERVING_URL,
                    "The URL of its metrics, as http://gpu-001:8000/metrics.",
                    required=True,
                ),
                Key("name", Text("a name", r"[^\s]+", 100), "Its name on screens (default: host and port)."),
            ),
        ),
    ),
    "a URL or a list of URLs",
    or_single=True,
)

DOCUMENT = Record(
    "a hosts file",
    (
        Key("defaults", Record("defaults", SETTINGS), "Settings of every node."),
        Key("hosts", ListOf(_HOST_ENTRY, "a list of hosts", or_single=True), "The nodes.", required=True),
        Key(
            "groups",
            MapOf(
                "a mapping of groups",
                Text("a group's name", _NAME, 100),
                OneOf("nodes or a mapping with hosts", single=_MEMBERS, many=_MEMBERS, mapping=_GROUP),
            ),
            "Names for sets of nodes, and settings that apply to them.",
        ),
        Key(
            "logs",
            ListOf(LOG, "a path or a list of paths", or_single=True),
            "Log files on the nodes, as globs.",
        ),
        Key(
            "discover",
            Switch(),
            "Whether nodes are searched for the logs of jobs that ended recently (on); off: never.",
        ),
        Key(
            "rules",
            ListOf(_PACK, "a path or a list of paths", or_single=True),
            "Your own rule packs, on this machine; relative paths start at the folder of the hosts file.",
        ),
        Key(
            "state",
            _PACK,
            "A file on a shared file system for the acknowledgements, silences and notes of all users.",
        ),
        Key("interval", Number(0.2, 60, "seconds"), "How often every node is sampled."),
        Key(
            "hang_query",
            Keyword(("auto", "manual")),
            "Whether the ranks of a hanging job are queried once without a key press (auto, the default).",
        ),
        Key(
            "actions",
            Switch(),
            "Whether the key A may run commands that change something, once confirmed (on); off: never.",
        ),
        Key("serving", _SERVING, "Inference servers (vLLM, SGLang, TGI, Triton): the URLs of their metrics."),
        Key("thresholds", _THRESHOLDS, "When a value counts as unhealthy."),
        Key("model", _MODEL, "The model being trained, to compute the MFU if the log does not report it."),
    ),
)
FILE = OneOf(
    "a mapping with the key hosts, or a list of hosts",
    many=ListOf(_HOST_ENTRY, "a list of hosts"),
    mapping=DOCUMENT,
)


def json_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of a YAML hosts file, for editors.

    It accepts everything that the parser accepts. Only the parser checks relations between values (duplicate
    names, members of groups) and the inside of ranges.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpuwatch hosts file",
        "description": "The nodes that gpuwatch watches and how it reaches them.",
        **FILE.schema(),
    }
