"""Steps of a playbook with their placeholders filled in; a command never keeps one."""

from __future__ import annotations

import re
from collections.abc import Mapping

Values = Mapping[str, object]
"""Placeholder's name -> value; None or not there: not known."""

NUMBER = re.compile(r"\d{1,18}")
FORMS = {
    "node": re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}"),
    "job": re.compile(r"\d{1,18}(?:_\d{1,18})?"),
    "gpu": NUMBER,
    "rank": NUMBER,
    "pid": NUMBER,
}
"""A value of another form is taken for not known: it comes from a log or an environment, and could bring a
command of its own to a shell."""

PLACEHOLDER = re.compile(r"\{(node|gpu|rank|job|pid)\}")
WORDS = {"node": "the node", "gpu": "the GPU", "rank": "the rank", "job": "the job", "pid": "the process"}
"""What stands in a sentence for a value that is not known."""
FINDERS = {
    "gpu": "`nvidia-smi -L` lists the GPUs with their indexes",
    "node": "`scontrol show job` or the launcher's host list names the nodes",
    "rank": "the ranks' own logs name it",
    "job": "`squeue --me` lists the jobs",
    "pid": "`nvidia-smi` lists the processes",
}
"""What stands in place of a command that needs a value that is not known."""
NAMED = re.compile(r"(?:\b(?:GPU|rank|job|process|pid|node) )?\{(node|gpu|rank|job|pid)\}")
COMMAND = re.compile(r"(?P<lead>[,:] )?`(?P<command>[^`]+)`")
ONE_GPU = re.compile(r" (?:-i|--id)[ =]\{gpu\}")
SSH = re.compile(r'ssh \{node\} (?:"(?P<quoted>[^"]*(?:\\"[^"]*)*)"|(?P<bare>.+))')
"""A command on the node."""
CHANGES = re.compile(r" (?:-r\b|--gpu-reset\b|-pm\b|-pl\b|-c\b|-mig\b|-e \d)")
"""Options of nvidia-smi that change something: without an index they would do it to all GPUs."""


def filled(text: str, values: Values) -> str:
    """The text with what is known.

    Without its value a command is left out, and the way to find the value stands there; a query of one GPU
    becomes the query of all GPUs. In a sentence the thing itself is named (`the node`).
    """
    pieces = re.split(r"((?:[,:] )?`[^`]+`)", _with_values(text, _known(values)))
    kept: list[str] = []
    for piece in pieces:
        found = COMMAND.fullmatch(piece)
        kept.append(_in_words(piece) if found is None else _command(found, kept))
    sentence = "".join(kept)
    unnamed = sentence.startswith(tuple(WORDS.values())) and text[:1] == "{"
    return sentence[:1].upper() + sentence[1:] if unnamed else sentence


def command(text: str, values: Values) -> str:
    """A step that is one command without backticks, as it can be run.

    Without the node it says where to run it, without another value how to find that.
    """
    if values.get("gpu") is None and not CHANGES.search(text):
        text = ONE_GPU.sub("", text)
    remote = SSH.fullmatch(text)
    known = _known(values)
    if remote is None or "node" in known:
        text = _with_values(text, known)
    else:
        rank = known.get("rank")
        where = "on each node" if rank is None else f"on the node of rank {rank}"
        text = f"{where}: `{_with_values(remote['quoted'] or remote['bare'], known)}`"
    missing = PLACEHOLDER.search(text)
    return text if missing is None else FINDERS[missing[1]]


def slurm_job(text: str | None) -> str | None:
    """The id of a Slurm job or array task; None where the text is no such id."""
    return text if text is not None and FORMS["job"].fullmatch(text) else None


def _known(values: Values) -> Values:
    return {
        name: value
        for name, value in values.items()
        if value is not None and FORMS[name].fullmatch(str(value))
    }


def _with_values(text: str, known: Values) -> str:
    return PLACEHOLDER.sub(lambda found: str(known.get(found[1], found[0])), text)


def _in_words(text: str) -> str:
    """`on {node}` as `on the node`, `GPU {gpu}` as `the GPU`."""
    return NAMED.sub(lambda found: WORDS[found[1]], text)


def _command(found: re.Match[str], before: list[str]) -> str:
    """The command as it can be run, else how to find what it needs."""
    lead, command = found["lead"] or "", found["command"]
    if not CHANGES.search(command):
        command = ONE_GPU.sub("", command)
    missing = PLACEHOLDER.search(command)
    if missing is None:
        return f"{lead}`{command}`"
    inside = bool(before) and before[-1].endswith("(")
    return FINDERS[missing[1]] if inside else f" ({FINDERS[missing[1]]})"
