"""The node that a line names in prose as the place of the fault: `host gpu-b03 is unreachable`. Pure."""

from __future__ import annotations

from typing import NamedTuple

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.runs.placement.owners import ENDINGS, WEAK, may_be_host

MAX_READ_CHARACTERS = 600
"""Most characters of a line that are searched."""
_LABEL = (
    r"(?<![\w.-])(?:(?:compute|worker|gpu|training|cluster)[ -])?"
    r"(?:failed_|bad_|lost_|faulty_)?(?:node|host|machine)s?(?:_?name)?"
)
"""Pattern of words that label a node. `server` is left out: it is mostly a file server."""
_NAME = r"[\"'`\[(]?(?P<name>[A-Za-z][A-Za-z0-9.-]{1,80})(?![\w/@=.-])"
_IS = r"[\"']?[ :=]{1,2}" + _NAME
_LABELLED = r"\w{0,20}(?:node|host|machine|server)(?:_?name)?[\"']?[ :=]{1,3}"
_ANY = pattern_of(
    r"(?i)\b"
    + _LABELLED
    + _NAME
    + r"|\b(?:from|to|and|than|with|at|on|by|of|peer) (?:the )?(?!"
    + _LABELLED
    + r")"
    r"(?P<bare>[A-Za-z][A-Za-z0-9.-]{1,80})(?![\w/@=.-])"
)
"""Matches any name in a line that may be a node."""
_BAD_STATE = (
    r"(?:unreachable|unresponsive|not (?:reachable|responding|answering|available|healthy|ready)|down|dead"
    r"|lost|offline|gone|missing|unhealthy|faulty|bad|broken|failing|failed|stuck|hung|frozen|powered off"
    r"|out of memory|overheating|rebooting|drained|cordoned|evicted|preempted)"
)
_OF_IT = pattern_of(
    r"(?i)(?P<on>\b(?:on|at) (?:the )?)?" + _LABEL + _IS + r"[\"'`\])]?[,:]? (?:"
    r"(?:is|was|are|has been|became|appears(?: to be)?|seems(?: to be)?|looks|marked(?: as)?|declared) "
    r"(?:now |already |still |currently )?(?:marked (?:as )?)?" + _BAD_STATE + r"\b"
    r"|(?:has )?(?:went|gone|goes|dropped|fell) (?:down|away|offline|dark|off the network)\b"
    r"|(?:has |have |just )?(?:failed|died|crashed|rebooted|disappeared|vanished|panicked|hung|froze"
    r"|timed out|ran out of memory|stopped (?:responding|answering|sending)|left (?:the|unexpectedly)"
    r"|lost (?:its|the|a|power|contact|connection|gpu)|missed)\b"
    r"|(?:does|did|do|is|has)(?: not|n't) (?:respond|answer|repl(?:y|ied)|responded|answered|reached?)\b"
    r"|" + _BAD_STATE + r"(?=[,.;:!)]|$))"
)
"""Matches wording in which the node itself is at fault; `on node X` names a part of the node."""
_FROM_IT = pattern_of(
    r"(?i)\b(?:(?:lost|no|missed|missing|late) (?:\d{1,6} )?(?:the )?(?:heartbeats?|contact|connections?"
    r"|responses?|answers?|repl(?:y|ies)|signal|data) (?:to|with|from|of)"
    r"|(?:can(?:not|'t| not)|could(?: not|n't)|failed to|unable to) (?:reach|contact|ping|ssh (?:in)?to)"
    r"|(?:failure|crash|loss|death|panic|reboot|eviction) (?:of|on|at)"
    r"|(?:evicted|lost|losing|dead|failed|unreachable)) (?:the |a )?" + _LABEL + _IS
)
_LOST_ON = pattern_of(
    r"(?i)\b(?:lost|removing|removed|failed|failing) (?:executor|worker|container|actor) [\w.-]{1,40} on "
    + _NAME
)
"""Matches the report of Spark or YARN that a process on a node was lost."""
_OF_POD = pattern_of(
    r"(?i)\bpod:? [\"']?(?:[a-z0-9-]{1,63}[./])?(?P<name>[a-z0-9][a-z0-9-]{0,200}-\d{1,5})(?![\w-])[\"']?"
    r" (?:\w{1,12} ){0,3}?(?:exited|failed|terminated|killed|evicted|crashed)\b"
)
"""Matches a controller's report on a pod, whose name stands for a node if no line names that."""
_PROLOG = pattern_of(
    r"(?i)\b(?:prolog|epilog|health ?check)\w* (?:\w{1,12} ){0,3}?(?:hung|failed|error)(?: or \w{1,12})? on "
    + _NAME
)
_ON_IT = pattern_of(r"(?i)\b(?:on|at) (?:the )?" + _LABEL + _IS)
"""Matches wording in which the fault is on the node; the reporting rank may run there."""
_FIELD = pattern_of(r"(?i)(?:" + _LABEL + r"[\"']?[=:] ?|(?<=, )node )" + _NAME)
_ELSEWHERE = pattern_of(
    r"(?i)\b(?:(?:re)?(?:start|launch|schedul|submit|spawn|run|try|mov|migrat|fall)\w{0,4}(?: (?:over|back))?"
    r"|log(?:ged|ging)(?: in)?|standby|spare|succe\w{2,8}|healthy|ok|except|exclud\w{2,4}|instead|master"
    r"|replac\w{2,6}|connect\w{0,4}|listen\w{0,4}|storage|nfs|mounted|stored|cached|saved|written|coordinator)"
    r"(?: \w{1,12}){0,2} $|\b(?:not|while) $"
)
"""Matches words before `on node X` by which X is not the place of the fault."""
_PORT = pattern_of(r"(?i)[\"']?,? ?(?:port[ =:]|:\d)")


class NamedNode(NamedTuple):
    """The node at which a line places its fault, and whether that may be the node of the line's own rank."""

    name: str
    is_reporter: bool
    """True if the rank that logs the line may run on the node; False: another node reports on it."""


def named_node(line: str) -> NamedNode | None:
    """Return the only node that a line names, if the line places the fault there; else None.

    A name counts if it looks like a host name (`gpu-b03`), not like a rank, a file, a device or a plain word.
    """
    text = line[:MAX_READ_CHARACTERS]
    for pattern in (_OF_IT, _FROM_IT, _LOST_ON, _OF_POD, _PROLOG, _ON_IT, _FIELD):
        for found in pattern.finditer(text):
            name = found["name"].rstrip(".-")
            is_reporter = pattern in (_ON_IT, _FIELD) or (pattern is _OF_IT and found["on"] is not None)
            if not _is_host(name) or _PORT.match(text, found.start("name") + len(name)):
                continue
            if is_reporter and _ELSEWHERE.search(text[max(0, found.start() - 60) : found.start()]):
                continue
            return None if _others(text, name) else NamedNode(name, is_reporter)
    return None


def _is_host(name: str) -> bool:
    is_file = ENDINGS.search(name) is not None
    weak = WEAK.fullmatch(name) is not None and len(name) > len("n1")
    return may_be_host(name) and not is_file and not weak


def _others(text: str, name: str) -> set[str]:
    """Return other host names in the line, in lower case; with two of them the node at fault is ambiguous."""
    found = {(each["name"] or each["bare"]).rstrip(".-").lower() for each in _ANY.finditer(text)}
    return {each for each in found if _is_host(each)} - {name.lower()}
