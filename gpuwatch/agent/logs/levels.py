"""How grave a line calls itself."""

import re

_LEVEL = re.compile(
    r"\b(?:(?P<critical>FATAL|CRITICAL|[Ff]atal error|[Pp]anic)"
    r"|(?P<error>ERROR|ERR|SEVERE|[A-Z]\w*(?:Error|Exception)\b(?=:|$)|Traceback \(most|[Ee]rror:)"
    r"|(?P<warning>WARN|WARNING|[A-Z]\w*Warning\b(?=:)|[Ww]arning:))(?![\w])"
    r"|(?:^|[\[\s:])(?P<glog>[FEWC])\d{3,8} \d\d:\d\d:\d\d"
    r"|\[(?P<letter>[FEWC])(?= \w+\.\w{1,4}:\d+\])"
)
_HEAD = 400
_LETTERS = {"F": "critical", "C": "critical", "E": "error", "W": "warning"}


def level(text):
    # type: (str) -> str | None
    """critical, error or warning by the line's own words; None: it does not say, or says less."""
    found = _LEVEL.search(text, 0, _HEAD)
    if found is None:
        return None
    kind = found.lastgroup
    return _LETTERS[found.group(kind)] if kind in ("glog", "letter") else kind
