"""Names the ranks and nodes that did not take part, or not to the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from gpuwatch.number_text import plural
from gpuwatch.probe.judging.links.attribution import label
from gpuwatch.probe.judging.text.verdict_text import NamedCulprit
from gpuwatch.probe.results import RankSlot, Results, slots_by_rank
from gpuwatch.probe.verdict import Culprit, CulpritKind


def missing_alerts(results: Results) -> list[NamedCulprit]:
    """Return culprits: nodes that could not take part, then lost ranks in the order of their loss."""
    problems = [
        NamedCulprit(
            Culprit("node", each.node, None, (each.problem,), state="took no part"),
            f"{each.node} cannot take part: {each.problem}",
        )
        for each in results.nodes
        if each.problem is not None
    ]
    slots = slots_by_rank(results)
    of_node: defaultdict[str, list[RankSlot]] = defaultdict(list)
    for slot in results.slots:
        of_node[slot.node].append(slot)
    lost: defaultdict[str, list[RankSlot]] = defaultdict(list)
    for rank in results.gone:
        if rank in slots:
            lost[slots[rank].node].append(slots[rank])
    already = {each.culprit.name for each in problems}
    found = [
        each
        for node, slots_gone in lost.items()
        if node not in already
        for each in _of_node(node, slots_gone, of_node[node], results.gone)
    ]
    return [*problems, *found]


def _of_node(
    node: str, lost: Sequence[RankSlot], every: Sequence[RankSlot], reasons: Mapping[int, str]
) -> list[NamedCulprit]:
    """Return one culprit for a node whose ranks are all gone, else one per rank."""
    if len(lost) == len(every):
        first = lost[0].rank
        who = f"rank {first} on {node}" if len(lost) == 1 else f"all {plural(len(lost), 'rank')} of {node}"
        evidence = tuple(dict.fromkeys(f"rank {slot.rank}: {reasons[slot.rank]}" for slot in lost))
        sentence = f"{who} {_what(reasons[first])}"
        if reasons[first].startswith(f"{node} "):
            sentence = reasons[first]
        return [NamedCulprit(Culprit("node", node, None, evidence, _state(reasons[first])), sentence)]
    found = []
    for slot in lost:
        name = f"{node} {label(slot)}"
        evidence = (f"rank {slot.rank}: {reasons[slot.rank]}",)
        kind: CulpritKind = "node" if slot.gpu is None else "gpu"
        culprit = Culprit(kind, name, None, evidence, _state(reasons[slot.rank]))
        place = node if slot.gpu is None else name
        found.append(NamedCulprit(culprit, f"rank {slot.rank} on {place} {_what(reasons[slot.rank])}"))
    return found


def _state(reason: str) -> str:
    """Return the state that a reason stands for, in two or three words; the full reason is evidence."""
    words = {"died": "died", "did not start": "did not start", "did not join": "did not join"}
    reported = next((message for start, message in words.items() if reason.startswith(start)), None)
    if reported is None:
        reported = "was lost" if " was lost: " in reason else "stopped answering"
    return reported


def _what(reason: str) -> str:
    """Return the reason as the end of a sentence.

    `took no further part:` is put before it, unless it begins with `died` or `did not`.
    """
    return reason if reason.startswith(("died", "did not ")) else f"took no further part: {reason}"
