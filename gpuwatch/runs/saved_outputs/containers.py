"""Reads how containers ended: `kubectl describe pod` and `docker inspect` (also podman's)."""

from __future__ import annotations

import re
import time
from calendar import timegm

from msgspec.structs import replace

from gpuwatch.rules.model import rule_ids
from gpuwatch.runs.model.pod_rank import KUBEFLOW, PodFacts
from gpuwatch.runs.saved_outputs.model import Fields, ToolFinding, ToolLine, of_exit_code
from gpuwatch.whole_number import whole_number

POD_MARK, NODE_MARK = "Namespace:  ", "Node:   "
POD_HEADING = re.compile(r"^Name: {2,40}[a-z0-9][a-z0-9.-]{0,252}\s*$")
CONDITION_MARK = "LastHeartbeatTime"
_NOT_READY = re.compile(
    r"^ {1,8}Ready {1,30}(?:Unknown|False) {1,30}\w{3}, [\w: +-]{20,30}? {2,30}"
    r"(?P<since>\w{3}, [\w: +-]{20,30}?) {2}"
)
"""Matches the condition `Ready` of a node that is not ready, with the time since when."""
_OPERATORS = {"tensorflow:": "tfjob", "pytorch:": "pytorchjob"}
"""Name of the main container of a job -> the operator that numbers its pods."""
_LABEL = re.compile(r"(?<![\w./-])([a-z.]{4,60}/[a-z-]{4,40})[=:] ?([\w-]{1,60})\s*$")
INSPECT_MARK = '"OOMKilled":'
INSPECT_HEADING = re.compile(r'^\s{1,16}"Id": "[0-9a-f]{4,64}",?\s*$')

_KEY = re.compile(r"^(?P<indent> {0,20})(?P<key>[A-Za-z][\w ./-]{0,60}?):\s{1,60}(?P<value>\S.{0,400}?)\s*$")
_HEAD = re.compile(r"^ {0,20}[A-Za-z][\w ./-]{0,60}:\s*$")
_POD_ENDED = re.compile(
    r"Evicted|UnexpectedAdmissionError|Terminated|NodeShutdown|NodeLost|NodeAffinity|DeadlineExceeded|Preempting|OutOf[\w./-]{1,40}"
)
"""Matches reasons for the end of a pod as a whole."""
_LOW_ON = re.compile(r"low on resource: ([\w.-]{1,60})")
_LOCAL_STORAGE = re.compile(r"(?i)ephemeral[- ](?:local )?storage|EmptyDir volume")
"""Matches the local storage of which an evicted pod used too much."""
_ORDINAL = re.compile(r"-(?P<word>worker|master|node|rank)-(?P<index>\d{1,6})$|-(?P<last>\d{1,6})$")
_POD_TIME = re.compile(r"\w{3}, (\d\d) (\w{3}) (\d{4}) (\d\d:\d\d:\d\d) ([+-]\d{4})")
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?Z")
_JSON = re.compile(r'^\s*"(?P<key>\w{1,40})": "?(?P<value>[^",]{0,400})"?,?\s*$')
_ENV = re.compile(r"(?:^|[\s\"'\[,])RANK=[\"']?(?P<rank>\d{1,6})(?=[\"',\s\]]|$)")


class PodDescription:
    """Reads `kubectl describe pod` or `node` up to the events, which are ordinary log lines."""

    def __init__(self) -> None:
        self.host: str | None = None
        self._name = ""
        self._facts = PodFacts()
        self._state: dict[str, tuple[str, ToolLine]] = {}
        self._found: list[ToolFinding] = []
        self._evicted: ToolFinding | None = None

    def take(self, line: ToolLine) -> bool:
        """Process a line; return False if the description ended before it."""
        text = line.text
        if text.startswith("Events:") or (
            text[:1] not in ("", " ") and not (_KEY.match(text) or _HEAD.match(text))
        ):
            self._close()
            return False
        for label, value in _LABEL.findall(text):
            self._facts.take(label, value)
        operator = _OPERATORS.get(text.strip())
        if operator is not None:
            self._facts.take(f"{KUBEFLOW}operator-name", operator)
        not_ready = _NOT_READY.match(text)
        if not_ready is not None:
            at = _pod_time(not_ready["since"])
            self._found.append(
                ToolFinding(rule_ids.K8S_NODE_NOT_READY, "error", line, {"node": self._name}, at=at)
            )
        found = _KEY.match(text)
        if found is not None:
            if not found["indent"] and found["key"] in ("Reason", "Message"):
                self._pod_end(found["key"], found["value"], line)
            else:
                self._field(found["key"], found["value"], line)
        return True

    def findings(self) -> list[ToolFinding]:
        """Return a finding for each container that a fault ended, and for a node that is not ready.

        If the pod as a whole ended (evicted, for example), only one for the pod.
        """
        self._close()
        if self._evicted is not None:
            self._found = [self._evicted]
        rank = self._facts.rank
        own: Fields = {} if rank is None else {"rank": rank}
        return [
            replace(each, fields={**each.fields, **own}, host=self.host, by_driver=False)
            for each in self._found
        ]

    def _pod_end(self, key: str, value: str, line: ToolLine) -> None:
        """Record why the pod as a whole ended."""
        fields: Fields
        if key == "Reason" and _POD_ENDED.fullmatch(value):
            fields = {"status": value, "pod": self._name}
            self._evicted = ToolFinding(rule_ids.K8S_POD_ERROR, "error", line, fields)
        elif key == "Message" and self._evicted is not None:
            low = _LOW_ON.search(value)
            more: Fields = {} if low is None else {"resource": low[1].rstrip(".")}
            rule = rule_ids.K8S_STORAGE_EVICTION if _LOCAL_STORAGE.search(value) else self._evicted.rule
            fields = {**self._evicted.fields, **more}
            self._evicted = replace(self._evicted, rule=rule, line=line, fields=fields)

    def _field(self, key: str, value: str, line: ToolLine) -> None:
        if key == "Name" and not self._name:
            self._name = value
        elif key == "Roles":
            self.host = self._name  # of a node
        elif key == "Node":
            self.host = value.partition("/")[0]
        elif key in ("State", "Last State", "Container ID"):
            self._close()
            self._state[key] = value, line
        elif key in ("Reason", "Exit Code", "Finished"):
            self._state[key] = value, line
        else:
            self._facts.take(key, value)

    def _close(self) -> None:
        state, self._state = self._state, {}
        if "Exit Code" not in state and "Reason" not in state:
            return
        reason, line = state.get("Reason") or state["Exit Code"]
        code = state.get("Exit Code", ("", line))[0]
        rule = rule_ids.OOM_HOST_CGROUP if reason == "OOMKilled" else of_exit_code(code)
        if rule is not None:
            at = _pod_time(state["Finished"][0]) if "Finished" in state else None
            self._found.append(ToolFinding(rule, "error", line, {"exit_code": code}, at=at))


class ContainerInspection:
    """Reads the objects of `docker inspect`."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[str, ToolLine]] = {}
        self._rank: int | None = None
        self._found: list[ToolFinding] = []

    def take(self, line: ToolLine) -> bool:
        """Process a line; return False at the closing bracket of the output."""
        if INSPECT_HEADING.match(line.text):
            self._close()
        found = _JSON.match(line.text)
        if found is not None:
            self._values.setdefault(found["key"], (found["value"], line))
        env = _ENV.search(line.text)
        if env is not None:
            self._rank = whole_number(env["rank"])
        return not line.text.startswith("]")

    def findings(self) -> list[ToolFinding]:
        """Return a finding for each container that a fault ended."""
        self._close()
        return self._found

    def _close(self) -> None:
        values, self._values = self._values, {}
        rank, self._rank = self._rank, None
        code, line = values.get("ExitCode", ("", None))
        if line is None:
            return
        killed = values.get("OOMKilled")
        rule = of_exit_code(code)
        if killed is not None and killed[0] == "true":
            rule, line = rule_ids.OOM_HOST_CGROUP, killed[1]
        if rule is None:
            return
        host = values["Hostname"][0] if "Hostname" in values else None
        own: Fields = {"exit_code": code} if rank is None else {"exit_code": code, "rank": rank}
        name = values.get("Name", ("", line))[0]
        if name.startswith("/"):
            own["container"] = name[1:]
        ended = _ISO.search(values["FinishedAt"][0]) if "FinishedAt" in values else None
        at = None if ended is None else float(timegm(time.strptime(ended[1], "%Y-%m-%dT%H:%M:%S")))
        self._found.append(ToolFinding(rule, "error", line, own, at=at, host=host, by_driver=False))


def _pod_time(text: str) -> float | None:
    found = _POD_TIME.search(text)
    if found is None:
        return None
    day, month, year, clock, zone = found.groups()
    try:
        parts = time.strptime(f"{day} {month} {year} {clock}", "%d %b %Y %H:%M:%S")
    except ValueError:
        return None
    shift = 3600 * int(zone[:3]) + 60 * int(zone[0] + zone[3:])
    return float(timegm(parts) - shift)
