"""Plays faults one after the other in one scene, in namespaces of its own; writes the outcomes as JSON.

python -m tests.chaos.play FOLDER FILE FAULT ...
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.chaos.faults.fault import Fault, S
from tests.chaos.faults.table import FAULTS, OF_MANY
from tests.chaos.invariants import Outcome
from tests.chaos.scene.many import many_nodes
from tests.chaos.scene.scene import LOGIN, scene
from tests.chaos.scene.stage import Stage
from tests.link.watching import holdings, until

OF_LINKS = frozenset(("node_lost", "node_stale"))
"""True of a node whose link has the fault; of others their ages and connections tell."""
OF_LOAD = frozenset(("train.slow",))
"""True of a job on a machine that gets busier; names no rank."""
CALM_POLLS = 8
SETTLE_S = 6.0
"""Polled on after the fault: what is blamed wrongly, is blamed when the first values are back."""


def is_over(played: S, fault: Fault[S]) -> bool:
    """Whether the fault is shown no longer, as far as that is told."""
    return not fault.passes or not fault.sign or played.polling.has_gone(fault.sign)


def left(played: Stage, before: dict[str, int]) -> dict[str, tuple[int, int]]:
    """What there was before and is now."""
    return {what: (before[what], now) for what, now in held(played).items()}


def calm(played: Stage) -> dict[str, int]:
    """The most of each within a second: threads that send a ping come and go."""
    seen = []
    for _ in range(CALM_POLLS):
        played.polling.once()
        seen.append(held(played))
    return {what: max(each[what] for each in seen) for what in seen[0]}


def held(played: Stage) -> dict[str, int]:
    """Threads, descriptors and child processes of the cockpit, and processes of its agents."""
    threads, descriptors, children = holdings()
    return {
        "threads": len(threads),
        "descriptors": descriptors,
        "children": len(children),
        "agent processes": played.agents(),
    }


def judged(played: Stage) -> Iterator[tuple[str, str, str | None, str]]:
    """Id, code, node and words of everything that is or was reported."""
    book = played.session.book
    for alert in book.alerts.values():
        if alert.severity != "info":
            yield alert.id, alert.code, alert.node, f"rank {alert.rank}, GPU {alert.gpu}: {alert.text}"
    for incident in book.incidents:
        yield f"{incident.number} {incident.code}", incident.code, incident.node, incident.headline


def play(played: S, name: str, fault: Fault[S]) -> Outcome:
    """Cause a fault, wait until it is shown, repair it, wait until all is as before."""
    polling, nodes = played.polling, played.session.fleet.nodes
    others = [each for each in played.names if each not in fault.victims]
    known = {each[0] for each in judged(played)}
    attempts = {each: nodes[each].link.attempt for each in played.names}
    before = calm(played)
    polling.forget()
    rss, _ = polling.peak_bytes, played.control.worst_age_s()
    fault.cause(played)
    told_s = None
    if fault.sign:
        polling.until(lambda: polling.shows(fault.sign), fault.sign)
        told_s = polling.signs[0][0]
    begin = told_s or 0.0
    if fault.repair is not None:
        begin = polling.until(lambda: True, "now")
        fault.repair(played)
    steps = {rank: played.step(rank) for rank in played.running}
    back_s = polling.until(lambda: polling.live() and is_over(played, fault), "as before") - begin
    polling.until(lambda: all(played.step(rank) > step for rank, step in steps.items()), "new steps")
    polling.wait(SETTLE_S)
    kept = left(played, before)

    def has_ended() -> bool:
        kept.update(left(played, before))
        return all(was >= now for was, now in kept.values())

    polling.until(has_ended, f"no more than {before}")
    control_age_s = played.control.worst_age_s()
    return Outcome(
        fault=name,
        what=fault.what,
        signs=polling.signs,
        told_s=told_s,
        back_s=None if told_s is None else back_s,
        worst_age_s={each: polling.worst_age_s(each) for each in others},
        control_age_s=control_age_s,
        redialled=[each for each in others if nodes[each].link.attempt != attempts[each]],
        rss_bytes=(rss, polling.peak_bytes),
        left=kept,
        blamed=[
            f"{node} {code}: {words}"
            for key, code, node, words in judged(played)
            if key not in known and code not in fault.codes | OF_LINKS | OF_LOAD
        ],
    )


def play_all(played: S, faults: Mapping[str, Fault[S]]) -> list[Outcome]:
    """Play them one after the other in one session; say on stderr how far it is."""
    files, begin, outcomes = played.files(), time.monotonic(), []
    with played.watched():
        print(f"{time.monotonic() - begin:.0f} s until all is live", file=sys.stderr, flush=True)
        for name, fault in faults.items():
            outcomes.append(play(played, name, fault))
            print(f"{time.monotonic() - begin:.0f} s {outcomes[-1]}", file=sys.stderr, flush=True)
    until(lambda: not played.agents(), "the end of all agents")
    outcomes[-1].left["files on the nodes"] = (0, len(played.files() - files))
    return outcomes


def main(folder: Path, file: Path, names: list[str]) -> None:
    """Play them all; what the end of the session leaves counts for the last."""
    for variable in ("LD_PRELOAD", LOGIN.decode().rstrip("=")):  # not for what this process starts
        os.environ.pop(variable, None)
    if names[0] in OF_MANY:
        with many_nodes(folder) as nodes:
            outcomes = play_all(nodes, {name: OF_MANY[name] for name in names})
    else:
        with scene(folder) as one:
            outcomes = play_all(one, {name: FAULTS[name] for name in names})
    file.write_text(json.dumps([dataclasses.asdict(each) for each in outcomes]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
