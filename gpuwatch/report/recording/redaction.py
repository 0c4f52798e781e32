"""Replaces hosts, users, paths and addresses consistently, so that a recording can be shared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from msgspec import Struct

from gpuwatch import wire
from gpuwatch.agent.masking.secret_masking import masked
from gpuwatch.report.recording.packed_text import repacked

KEPT_FOLDERS = frozenset(
    [
        "bin",
        "boot",
        "checkpoints",
        "checkpoint",
        "ckpt",
        "data",
        "dev",
        "etc",
        "home",
        "lib",
        "lib64",
        "log",
        "logs",
        "lustre",
        "mnt",
        "nfs",
        "opt",
        "proc",
        "root",
        "run",
        "runs",
        "scratch",
        "shared",
        "site-packages",
        "sbin",
        "slurm",
        "srv",
        "sys",
        "tmp",
        "torch",
        "usr",
        "var",
        "work",
        "workspace",
        "envs",
        "venv",
        "conda",
        "local",
    ]
)
"""Names of folders that are kept because they reveal nothing."""
_KEPT_PART = re.compile(
    r"(?:python\d?(?:\.\d+)?|rank[-_]?\d*|attempt[-_]?\d*|std(?:out|err)|step[-_]?\d*|global_step\d*|\d{1,6}|\.|\.\.)"
    r"(?:\.(?:log|txt|out|err|json|jsonl|pt|bin|py))?$"
)
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,6}$")
_URL = re.compile(
    r"\b([A-Za-z][A-Za-z0-9+.-]{1,15})://([^\s/\"'<>?#]{0,255})((?:/[\w.@+=,%~:-]{1,255}){0,64})"
)
_PATH = re.compile(r"(?<![\w./-])(?:~[\w.-]*)?(?:/[\w.@+=,%-]{1,255})+/?")
_IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
_IPV6 = re.compile(
    r"(?<![\w:])(?:(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}"
    r"|(?:[0-9A-Fa-f]{1,4}:){1,6}(?::[0-9A-Fa-f]{1,4}){1,6})(?![\w:])"
)
_MAC = re.compile(r"(?<![\w:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![\w:])")
_RELATIVE = re.compile(
    r"(?<![\w./~@:-])(?:\.{1,2}/(?:[\w.@+=,%-]{1,255}/){0,32}[\w.@+=,%-]{1,255}"
    r"|(?:[\w@+=,%-]{1,255}/){1,32}[\w@+=,%-]{1,255}\.[A-Za-z][A-Za-z0-9]{0,7})(?![\w/])"
)
"""Matches a relative path: from `./` on, or of a file with an ending."""
_LOGIN = re.compile(
    r"(\b(?:user|userid|user_?name|login|logname|owner|[er]?uid)[\"']?[ \t]{0,2}[=:][ \t]{0,2}[\"']?)"
    r"([A-Za-z_][\w.-]{0,31})",
    re.IGNORECASE,
)
_AT_HOST = re.compile(r"(?<![\w.+-])([A-Za-z_][\w.+-]{0,63})@([A-Za-z][\w-]{1,62})(?![\w.@-])")
"""Matches `bob@login1`: a user at a host without a domain."""
_MAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_DOMAIN = re.compile(
    r"(?<![\w.@/-])(?:(?:[a-z0-9-]{1,63}\.){1,8}"
    r"(?:com|org|net|edu|gov|mil|io|ai|local|internal|lan|corp|cloud|ch|cz|de|dk|eu|fi|fr|cn|jp|kr|nl|nz|se|uk)"
    r"|[a-z][a-z0-9-]{0,62}(?:\.[a-z0-9-]{1,63}){1,7}\.(?:ae|ar|at|au|be|bg|br|ca|cl|co|ee|es|gr|hk|hr|hu|id|ie|il|in"
    r"|info|intra|ir|is|it|kz|lt|lu|lv|mx|my|no|pk|pl|pt|ro|rs|ru|sa|sg|si|sk|th|tr|tw|ua|us|vn|za))(?![\w-])"
)
"""Matches a domain. Endings that are also those of files or usual attributes count from three parts on."""
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}$")
"""Matches a key that is the name of a field; in other keys (ids, paths, names) names are replaced."""
_NAMED_HOST = re.compile(r"(?=[^A-Za-z]{0,255}[A-Za-z])[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_SERVERS = frozenset(("http", "https", "tcp", "udp", "ws", "wss", "grpc", "ssh", "ib", "unix"))
"""Schemes whose URLs name a host; other URLs name a bucket or an organisation in its place."""
_LOOPBACK = ("127.", "0.0.0.0")  # noqa: S104 - addresses in text, none is bound
STRUCTURAL = frozenset(
    [
        "kind",
        "severity",
        "role",
        "code",
        "rule",
        "dialect",
        "event",
        "state",
        "source",
        "rank_from",
        "bound",
        "level",
        "python",
        "phase",
        "agent",
        "name",
        "driver",
        "cuda",
        "nvml",
        "kernel",
        "os",
        "cpu_model",
        "uuid",
        "bus_id",
        "slowdown",
        "index_of",
        "what",
        "confidence",
        "v",
    ]
)
"""Fields whose values are kept: terms of gpuwatch, drivers and devices, names of processes and GPUs."""
MIN_NAME = 3
"""Minimum length of a user name that is searched for in text; shorter ones occur within other words."""
MIN_PART = 5
"""Minimum length of a part of a path that is searched for in text."""
KEPT_USERS = frozenset(("root", "nobody", "daemon", "slurm", "ubuntu"))
_NO_USERS = KEPT_USERS | {"none", "null", "unknown", "true", "false", "n", "user"}
_NO_LABELS = KEPT_FOLDERS | {"localhost", "node", "rank", "gpu", "host"}
"""First labels of hosts that are usual words in logs."""
_HAS_PLACE = re.compile(r"[/@]")
"""Matches in a text that holds a path, a URL or an address, also in a field that usually holds a term."""
_NUMBERED = re.compile(r"(.*?[A-Za-z_-])\d+$")
"""Matches the name of a node that ends in a number."""


class Redaction:
    """Replaces names consistently: each name has one replacement, numbered in order of first occurrence."""

    def __init__(self, hosts: Iterable[str], users: Iterable[str], paths: Iterable[str] = ()) -> None:
        """Set the names that are searched for in every text.

        Args:
            hosts: Names of nodes and hosts, with and without domain.
            users: Login names.
            paths: Their parts are also searched for as words: a command names its files without folders.
        """
        self._names: dict[str, dict[str, str]] = {}
        self._counts: Counter[str] = Counter()
        known = self._hosts(list(dict.fromkeys(hosts)))
        for user in users:
            if user not in KEPT_USERS and len(user) >= MIN_NAME:
                known.setdefault(user.lower(), self._named("user", user))
        self._people = frozenset(known)
        for part in {part for path in paths for part in path.split("/")}:
            stem = _ENDING.sub("", part)
            if len(stem) >= MIN_PART and not _is_kept(part) and not _is_kept(stem):
                known.setdefault(stem.lower(), self._named("path", stem))
        self._known = known
        self._words = _any_of(known)
        series = {found[1] for host in known if (found := _NUMBERED.match(host.partition(".")[0]))}
        self._series = _any_of(series, r"(?=\[[\d,-]{1,200}\])")
        self.text = lru_cache(maxsize=100_000)(self._text)

    def _hosts(self, hosts: list[str]) -> dict[str, str]:
        """Return host -> replacement: one for a host with a domain and its first label, if only it has it."""
        labels = {host: host.partition(".")[0] for host in hosts if "." in host}
        shared = Counter(labels.values())
        known: dict[str, str] = {}
        for host in hosts:
            short = labels.get(host, host)
            is_alone = shared[short] < 2 and _is_label(short)
            name = known[host.lower()] = self._named("node", short if is_alone else host)
            self._names["node"][host] = name
            if _is_label(short):
                known.setdefault(short.lower(), self._named("node", short))
        return known

    def node(self, name: str) -> str:
        """Return the replacement of a node name."""
        return self._named("node", name)

    def value(self, value: Any, field: str = "") -> Any:  # noqa: ANN401 - JSON is what it is
        """Return a decoded JSON value with the names in its texts replaced.

        `field`: the key of the value; user names and structural texts are recognised by it. Named groups
        of rules (`fields`) hold the words of log lines, whatever their names.
        """
        if isinstance(value, str):
            if field in {"user", "owner"}:
                return value if value in KEPT_USERS else self._named("user", value)
            if field == "packed":
                return repacked(value, self.value)
            return value if field in STRUCTURAL and not _HAS_PLACE.search(value) else self.text(value)
        if isinstance(value, list):
            return [self.value(item, field) for item in value]
        if isinstance(value, dict):
            return {
                key if self._is_plain(key) else self.text(key): self.value(
                    item, "" if field == "fields" and key in STRUCTURAL else key
                )
                for key, item in value.items()
            }
        return value

    def _is_plain(self, key: str) -> bool:
        is_name = key.lower() in self._people and key not in _field_names()
        return _PLAIN_KEY.match(key) is not None and not is_name

    def _text(self, text: str) -> str:
        text = masked(text)
        text = _MAIL.sub(lambda match: f"{self._named('mail', match[0])}@example.org", text)
        text = _AT_HOST.sub(self._at_host, _LOGIN.sub(self._login, text))
        text = _URL.sub(self._url, text)
        text = _PATH.sub(lambda match: self._path(match[0]), text)
        text = _RELATIVE.sub(lambda match: self._path(match[0]), text)
        if self._words is not None:
            text = self._words.sub(lambda match: self._replacement(match[0]), text)
        if self._series is not None:
            text = self._series.sub(lambda match: self._named("nodes", match[0].lower()) + "-", text)
        text = _MAC.sub(lambda match: self._named("mac", match[0]), text)
        text = _IPV4.sub(lambda match: self._address(match[0]), text)
        text = _IPV6.sub(lambda match: self._named("ip6", match[0]), text)
        return _DOMAIN.sub(lambda match: self._named("host", match[0]) + ".example.org", text)

    def _url(self, match: re.Match[str]) -> str:
        scheme, place, path = match.groups()
        host, colon, port = place.rpartition("@")[2].partition(":")
        if place and scheme.lower() not in _SERVERS:
            place = self._part(place)
        elif host.lower() not in self._known and _NAMED_HOST.fullmatch(host):
            place = f"{self._named('host', host)}.example.org{colon}{port}"
        return f"{scheme}://{place}{self._path(path)}"

    def _path(self, path: str) -> str:
        return "/".join(map(self._part, path.split("/")))

    def _part(self, part: str) -> str:
        if not part or part.lower() in self._known:
            return self._known.get(part.lower(), part)
        if _is_kept(part):
            return part
        ending = _ENDING.search(part)
        stem = _ENDING.sub("", part)
        return (self._known.get(stem.lower()) or self._named("path", stem)) + (ending[0] if ending else "")

    def _replacement(self, word: str) -> str:
        return self._known.get(word.lower()) or self._known[word.lower().replace("_", "-")]

    def _login(self, match: re.Match[str]) -> str:
        user = match[2].lower()
        if user in _NO_USERS:
            return match[0]
        return match[1] + (self._known.get(user) or self._named("user", match[2]))

    def _at_host(self, match: re.Match[str]) -> str:
        user, host = match[1], match[2].lower()
        shown = user if user in KEPT_USERS else self._known.get(user.lower()) or self._named("user", user)
        return f"{shown}@{self._known.get(host) or self._named('host', match[2])}"

    def _address(self, address: str) -> str:
        if address.startswith(_LOOPBACK):
            return address
        number = int(self._named("ip", address).partition("-")[2])
        return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"

    def _named(self, what: str, name: str) -> str:
        names = self._names.setdefault(what, {})
        if name not in names:
            self._counts[what] += 1
            count = self._counts[what]
            names[name] = f"node-{count:03}" if what == "node" else f"{what}-{count}"
        return names[name]


def _any_of(words: Iterable[str], ahead: str = "") -> re.Pattern[str] | None:
    """Return a pattern that matches one of the words in any case, with `_` for `-`, followed by `ahead`.

    None if there are no words.
    """
    found = sorted(words, key=len, reverse=True)
    either = "|".join(
        re.escape(word).replace(r"\-", "[-_]") + (r"(?!\d)" if word[-1:].isdecimal() else r"(?![A-Za-z0-9])")
        for word in found
    )
    return re.compile(rf"(?<![A-Za-z0-9])(?:{either}){ahead}", re.IGNORECASE) if found else None


def _is_label(short: str) -> bool:
    """Return True if the first label of a host's name is a name of its own, no number or usual word."""
    is_word = any(map(str.isalpha, short)) and short.lower() not in _NO_LABELS
    return len(short) >= MIN_NAME and is_word


@lru_cache(maxsize=1)
def _field_names() -> frozenset[str]:
    """Return the names of the fields of all frames."""
    parts = [each for each in vars(wire).values() if isinstance(each, type) and issubclass(each, Struct)]
    return frozenset(name for each in parts for name in each.__struct_encode_fields__)


def _is_kept(part: str) -> bool:
    return part.lower() in KEPT_FOLDERS or _KEPT_PART.match(part) is not None
