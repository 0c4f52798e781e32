"""Reads how containers of pods ended, from `kubectl get pod -o yaml` and `-o json`."""

from __future__ import annotations

import re
import time
from calendar import timegm

from gpuwatch.rules.model import rule_ids
from gpuwatch.runs.model.pod_rank import PodFacts, ranks_by_index
from gpuwatch.runs.saved_outputs.model import Fields, ToolFinding, ToolLine, of_exit_code

MARK = "ontainerStatuses"
HEADING = re.compile(r'^(?:- | {0,8})"?kind"?: "?Pod"?,?\s*$')

_PAIR = re.compile(
    r'^(?P<indent>[ -]{0,60})"?(?P<key>[A-Za-z][\w./-]{0,100})"?:\s{0,60}(?!\s)"?(?P<value>[^"]{0,400}?)"?,?$'
)
_NO_FIELD = re.compile(r"^\s*(?:[-\]}\[{][\s,]*$|-? ?\S)")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)Z")
_STATES = ("state", "lastState", "terminated")


class PodManifest:
    """Reads pod manifests one after another; a list of pods is one output."""

    def __init__(self) -> None:
        self._indexes: list[int | None] = []
        self._found: list[ToolFinding] = []
        self._begin()

    def _begin(self) -> None:
        self._pod = ""
        self._node: str | None = None
        self._facts = PodFacts()
        self._section = self._variable = ""
        self._ended: dict[str, tuple[str, ToolLine]] = {}

    def take(self, line: ToolLine) -> bool:
        """Process a line; return False if the output ended before it."""
        if HEADING.match(line.text):
            self._end()
            self._begin()
            return True
        found = _PAIR.match(line.text.rstrip())
        if found is None:
            return not line.text.strip() or _NO_FIELD.match(line.text) is not None
        if not found["indent"] and line.text[:1] not in "{}[]" and not self._pod and found["value"]:
            return found["key"] in ("apiVersion", "kind", "status")
        self._field(found["key"], found["value"].strip(), line)
        return True

    def findings(self) -> list[ToolFinding]:
        """Return a finding for each container that a signal or the kernel ended, and each failed pod.

        A pod failed if it was evicted, exceeded its deadline, or lost its node.
        """
        self._end()
        self._begin()
        indexed = ranks_by_index(self._indexes)
        for each in self._found:
            index = each.fields.pop("index", None)
            if indexed and index is not None:
                each.fields.setdefault("rank", index)
        return self._found

    def _end(self) -> None:
        """Take the last state of a pod, and its number."""
        self._close()
        if self._pod:
            self._indexes.append(self._facts.index)

    def _field(self, key: str, value: str, line: ToolLine) -> None:
        if key in ("metadata", "spec", "status"):
            self._section = key
        elif key == "name":
            if self._section == "metadata" and not self._pod:
                self._pod = value
            self._variable = value
        elif key == "value":
            self._facts.take(self._variable, value)
        elif key == "nodeName":
            self._node = value
        elif key in _STATES:
            self._close()
        elif key in ("exitCode", "reason", "finishedAt"):
            self._ended.setdefault(key, (value, line))
        else:
            self._facts.take(key, value)

    def _close(self) -> None:
        """Add the finding of a container's or pod's state that is complete, if a fault ended it."""
        ended, self._ended = self._ended, {}
        if "reason" not in ended and "exitCode" not in ended:
            return
        reason, line = ended.get("reason") or ended["exitCode"]
        code = ended.get("exitCode", ("", line))[0]
        fields: Fields = {"pod": self._pod}
        if self._facts.rank is not None:
            fields["rank"] = self._facts.rank
        if self._facts.index is not None:
            fields["index"] = self._facts.index
        if reason == "OOMKilled":
            rule: str | None = rule_ids.OOM_HOST_CGROUP
        elif reason in ("Evicted", "DeadlineExceeded", "NodeLost"):
            rule, fields["status"] = rule_ids.K8S_POD_ERROR, reason
        else:
            rule = of_exit_code(code)
        if rule is None:
            return
        at = _TIME.search(ended["finishedAt"][0]) if "finishedAt" in ended else None
        moment = None if at is None else float(timegm(time.strptime(at[1], "%Y-%m-%dT%H:%M:%S")))
        if code:
            fields["exit_code"] = code
        self._found.append(
            ToolFinding(rule, "error", line, fields, at=moment, host=self._pod or self._node, by_driver=False)
        )
