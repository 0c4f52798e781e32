"""Fills the placeholders in playbook steps; a command never keeps an unfilled one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpuwatch.shell_command import command_line, value

Values = Mapping[str, object]
"""Placeholder name -> value; None or missing: unknown."""

PLACEHOLDER = re.compile(r"\{(node|gpu|rank|job|pid)\}")
WORDS = {"node": "the node", "gpu": "the GPU", "rank": "the rank", "job": "the job", "pid": "the process"}
"""Placeholder -> noun that replaces it in a sentence if the value is unknown."""
FINDERS = {
    "gpu": "`nvidia-smi -L` lists the GPUs with their indexes",
    "node": "`scontrol show job` or the launcher's host list names the nodes",
    "rank": "the ranks' own logs name it",
    "job": "`squeue --me` lists the jobs",
    "pid": "`nvidia-smi` lists the processes",
}
"""Placeholder -> how to find its value; this replaces a command whose value is unknown."""
NAMED_PLACEHOLDER = re.compile(r"(?:\b(?:GPU|rank|job|process|pid|node) )?\{(node|gpu|rank|job|pid)\}")
COMMAND = re.compile(r"(?P<lead>[,:] )?`(?P<command>[^`]+)`")
ONE_GPU = re.compile(r" (?:-i|--id)[ =]\{gpu\}")
CHANGES = re.compile(r" (?:-r\b|--gpu-reset\b|-pm\b|-pl\b|-c\b|-mig\b|-e \d)")
"""Matches options of nvidia-smi that change state; without an index they would affect all GPUs."""


def filled(text: str, values: Values) -> str:
    """Return the text with known values in place of the placeholders.

    A command whose value is unknown is replaced by the way to find the value; a query of one GPU becomes a
    query of all. In a sentence the placeholder becomes a noun (`the node`).
    """
    pieces = re.split(r"((?:[,:] )?`[^`]+`)", _with_values(text, _known(values)))
    kept: list[str] = []
    for piece in pieces:
        found = COMMAND.fullmatch(piece)
        kept.append(_in_words(piece) if found is None else _command(found, kept))
    sentence = "".join(kept)
    unnamed = sentence.startswith(tuple(WORDS.values())) and text[:1] == "{"
    return sentence[:1].upper() + sentence[1:] if unnamed else sentence


def command(argv: Sequence[str], values: Values, *, remote: bool = False) -> str:
    """Return a command that can be run; if a required value is unknown, how to find it.

    Args:
        argv: The program and its arguments, with placeholders; for a remote command our own text, which the
            node's shell reads.
        values: Placeholder name -> value; malformed ones count as unknown.
        remote: It runs on {node}, over ssh. If the node is unknown, the line states where to run it.
    """
    known = _known(values)
    gpu = any(CHANGES.search(word) for word in argv) or "gpu" in known
    words = [_with_values(word if gpu else ONE_GPU.sub("", word), known) for word in argv]
    missing = PLACEHOLDER.search(" ".join(words))
    if missing is not None:
        return FINDERS[missing[1]]
    if not remote:
        return command_line(words)
    if "node" in known:
        return command_line(["ssh", str(known["node"]), *words])
    rank = known.get("rank")
    where = "on each node" if rank is None else f"on the node of rank {rank}"
    return f"{where}: `{' '.join(words)}`"


def _known(values: Values) -> Values:
    known = {name: value(name, given) for name, given in values.items()}
    return {name: text for name, text in known.items() if text is not None}


def _with_values(text: str, known: Values) -> str:
    return PLACEHOLDER.sub(lambda found: str(known.get(found[1], found[0])), text)


def _in_words(text: str) -> str:
    """Return the text with nouns for its placeholders: `on {node}` becomes `on the node`."""
    return NAMED_PLACEHOLDER.sub(lambda found: WORDS[found[1]], text)


def _command(found: re.Match[str], before: list[str]) -> str:
    """Return a filled command in backticks; if a value is still missing, text on how to find the first one.

    A query of one unknown GPU becomes a query of all. `before`: the pieces of the text before the command.
    """
    lead, command = found["lead"] or "", found["command"]
    if not CHANGES.search(command):
        command = ONE_GPU.sub("", command)
    missing = PLACEHOLDER.search(command)
    if missing is None:
        return f"{lead}`{command}`"
    inside = bool(before) and before[-1].endswith("(")
    return FINDERS[missing[1]] if inside else f" ({FINDERS[missing[1]]})"
