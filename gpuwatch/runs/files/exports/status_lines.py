"""Turns a status document into log lines: each failure on the line that states it, all other lines blank."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from gpuwatch.runs.files.exports.failures import StatedFailure, reports
from gpuwatch.runs.saved_outputs import containers

STATUS = "status-document"
"""The packing name of a file with status documents."""
MAX_BYTES = 8 << 20
"""Largest document in bytes that is parsed."""
MAX_YAML = 1 << 20
"""Most characters of a YAML document that is parsed."""
MAX_DOCUMENTS = 64
MAX_DIGITS = 20
"""Most digits of a whole number; a longer one is no time, code or count, and is read as text."""
MAX_IN_VAIN = 2 * MAX_BYTES
"""Most characters that are parsed in vain, as text that turns out to be no document."""
LINE_COUNT_SPEED = 32
"""Factor by which the decoder counts lines (for an error) faster than it parses."""
_BEGIN = re.compile(r"(?m)^[ \t]{0,8}(?=[{\[])")
_YAML = re.compile(r"(?:---\s*\n)?(?:apiVersion|kind|items): ?")
_INSPECTION = re.compile(containers.INSPECT_HEADING.pattern, re.MULTILINE)
"""Matches the heading of pretty-printed containers, which are read line by line."""
_FIELD = re.compile(r"[a-z][A-Za-z]{1,40}")
"""Matches the names of fields of Kubernetes objects."""
_ADDRESS = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}")
_STEPS = frozenset(("step", "global_step", "loss", "iteration", "iter", "epoch"))
_MESSAGES = frozenset(("message", "msg", "log", "textpayload", "jsonpayload", "body", "event"))
_LEVELS = frozenset(("level", "severity", "lvl", "levelname", "loglevel", "ts", "priority"))
_DECODER = json.JSONDecoder(
    parse_int=lambda text: int(text) if len(text) <= MAX_DIGITS else text[:MAX_DIGITS]
)


def is_status_document(data: bytes, *, log: bool = False) -> bool:
    """Return True if a file has JSON or YAML documents that state a failure, and is no log of such records.

    An object that kubectl prints counts without a failure too, except in a file with the name of a `log`.
    """
    text = data.decode("utf-8", "replace")
    if _INSPECTION.search(text):
        return False
    found = [document for _, _, document in _parsed(text)]
    return (
        bool(found)
        and not any(_is_log_record(each) for each in found)
        and any(reports(each) or (not log and _is_of_kubernetes(each)) for each in found)
    )


def status_lines(data: bytes) -> bytes:
    """Return the lines of a file: those of status documents blank but for a sentence per failure.

    All other text is returned unchanged.
    """
    text = data.decode("utf-8", "replace")
    made: list[str] = []
    at = 0
    for begin, end, document in _parsed(text):
        found = reports(document)
        if found or _is_of_kubernetes(document):
            made += [text[at:begin], _rendered(text[begin:end], found)]
            at = end
    return "".join([*made, text[at:], "\n"]).encode("utf-8", "replace")


def _is_log_record(document: Any) -> bool:  # noqa: ANN401 - of JSON
    """Return True for a record of a logger, or of training steps."""
    if not isinstance(document, dict):
        return False
    keys = {str(key).lower() for key in document}
    return not _STEPS.isdisjoint(keys) or (not _MESSAGES.isdisjoint(keys) and not _LEVELS.isdisjoint(keys))


def _is_of_kubernetes(document: Any) -> bool:  # noqa: ANN401 - of JSON
    """Return True for an object that kubectl prints, or a list of them, other than events."""
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        return False
    if document.keys().isdisjoint(("metadata", "items")) or not all(map(_FIELD.fullmatch, document)):
        return False  # YAML is also what a log is whose lines are a word, a colon and a text
    items = document.get("items")
    kinds = [each.get("kind") for each in items if isinstance(each, dict)] if isinstance(items, list) else []
    return "apiVersion" in document and "Event" not in [document["kind"], *kinds]


def _parsed(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yield begin, end and content of each JSON document in a text, or of the whole text if it is YAML.

    It ends after `MAX_DOCUMENTS`, or `MAX_IN_VAIN` characters parsed in vain.
    """
    if _YAML.match(text):
        document = _of_yaml(text)
        if document is not None:
            yield 0, len(text), document
        return
    at = count = 0
    left = MAX_IN_VAIN
    while count < MAX_DOCUMENTS and left > 0 and (found := _BEGIN.search(text, at)):
        try:
            document, end = _DECODER.raw_decode(text, found.end())
        except RecursionError:
            return  # no tool nests its output so deep
        except ValueError as error:
            left -= _read_in_vain(error, len(text)) - found.end() + 1 + found.end() // LINE_COUNT_SPEED
            at = text.find("\n", found.end()) + 1
            if not at:
                return
            continue
        yield found.end(), end, document
        at, count = end, count + 1


def _read_in_vain(error: ValueError, length: int) -> int:
    """Return the offset up to which the decoder has read; an open string counts up to the text's end."""
    if not isinstance(error, json.JSONDecodeError) or error.msg.startswith("Unterminated"):
        return length
    return error.pos


def _of_yaml(text: str) -> Any:  # noqa: ANN401 - of YAML
    """Return the content of a YAML document; None: the text is none, is too long, or refers to itself."""
    if len(text) > MAX_YAML:
        return None
    import yaml  # noqa: PLC0415 - takes 20 ms, and few logs are such documents

    # all scalars are texts: a number or time of YAML can take minutes to convert (`1:1:1:...`)
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=loader)):
            return None
        return yaml.load(text, Loader=loader)  # noqa: S506 - it makes texts, lists and mappings
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _rendered(document: str, found: list[StatedFailure]) -> str:
    """Return as many lines as the document has: blank, or a sentence for each failure found on that line.

    A carriage return separates sentences on one line: it ends a line for the search, but not for the
    numbering.
    """
    lines: list[str] = [""] * (document.count("\n") + 1)
    at = 0
    for report in found:
        hit = next((place for text in report.values if (place := _place(document, text, at)) >= 0), 0)
        at = hit or at
        number = document.count("\n", 0, hit)
        lines[number] = f"{lines[number]}\r{sentence(report)}" if lines[number] else sentence(report)
    return "\n".join(lines)


def _place(document: str, text: str, at: int) -> int:
    """Return the offset of a value in a document, from `at` on or else from 0; -1: not found."""
    if not text:
        return -1
    for ascii_only in (True, False):
        quoted = json.dumps(text, ensure_ascii=ascii_only)
        for form in (quoted, quoted[1:-1]):
            place = document.find(form, at)
            place = document.find(form) if place < 0 else place
            if place >= 0:
                return place
    return -1


def sentence(report: StatedFailure) -> str:
    """Return a failure as a log line: time, host, level, and what happened."""
    place = report.place
    head = ""
    if place.at is not None:
        head = place.at.strftime("%Y-%m-%dT%H:%M:%S") + (place.at.strftime("%z") or "")
        head += " "
    if place.node is not None and _ADDRESS.fullmatch(place.node):
        head += f"{place.node}: " + ("" if place.rank is None else f"[rank{place.rank}]: ")
    elif place.node is not None and place.rank is not None:
        head += f"[rank {place.rank}@{place.node}] "
    elif place.rank is not None:
        head += f"[rank{place.rank}]: "
    elif place.node is not None:
        head += f"{place.node} [stderr] "
    on = f" on {place.node}" if place.node is not None else ""
    level, word = ("WARNING", "waiting") if report.waiting else ("ERROR", "failed")
    state = f" ({report.state})" if report.state else ""
    parts = [f"{level}: status of {place.name or 'the job'}{on}: {word}{state}"]
    if report.exit_code:
        parts.append(f"exited with code {report.exit_code}")
    elif report.signal:
        parts.append(f"terminated by signal {report.signal}")
    if report.oom_killed:
        parts.append("OOMKilled")
    line = f"{head}{', '.join(parts)}{': ' if report.reasons else ''}{'; '.join(report.reasons)}"
    return " ".join(line.split())  # a value of several lines becomes one line
